//! Identity check of a MongoDB connection at the origin.
//!
//! If a user is logged in, `connectionStatus` returns the user and its rights. Otherwise the origin
//! either requires no login or refuses everything: a read of our own shows which.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use wire::mongo::{
    bson::{Document, Writer},
    message,
};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::{Mongo, Tag, readable::Readable, server};
use crate::principal::{Finding, Proof};

/// What is known about how an origin reports the rights of a user.
#[derive(Debug, Default)]
pub struct Access {
    /// The server knows no `connectionStatus`.
    unknown: AtomicBool,
}

/// The command of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// `connectionStatus`: the users and their rights.
    Rights,
    /// A `find` of nothing: is the connection served?
    Read,
}

const UNAUTHORIZED: i64 = 13;
const AUTHENTICATION_FAILED: i64 = 18;
const COMMAND_NOT_FOUND: i64 = 59;

impl Mongo {
    pub(super) fn ask_identity(&mut self, out: &mut Vec<u8>) -> Option<Tag> {
        if !self.identity.is_settled() {
            return None;
        }
        let knows_rights = !self.settings.access.unknown.load(Relaxed);
        let asked = match self.identity.is_anonymous() || !knows_rights {
            true => Asked::Read,
            false => Asked::Rights,
        };
        let mut body = Vec::new();
        Writer::write(&mut body, |body| match asked {
            Asked::Rights => {
                body.i32("connectionStatus", 1);
                body.bool("showPrivileges", true);
                body.str("$db", "admin");
            }
            Asked::Read => {
                body.str("find", "enroute");
                body.nested("filter", |filter| filter.i32("_id", 0));
                body.i32("limit", 1);
                body.bool("singleBatch", true);
                body.str("$db", "enroute");
                body.nested("$readPreference", |mode| mode.str("mode", "primaryPreferred"));
            }
        });
        let request_id = self.next_id();
        message::write(out, request_id, 0, &body);
        Some(Tag { request_id, asked: Some(asked), ..Tag::default() })
    }

    /// Remembers what the user may read. A principal with these rights is made of the same reply.
    pub(super) fn note_readable(&mut self, asked: Asked, reply: &[u8]) {
        let told = server::read(reply, &self.settings.limits, |response| {
            let info = response.body.element("authInfo").ok().flatten()?;
            let info = info.document().filter(|_| asked == Asked::Rights && response.ok)?;
            Some(Readable::by(&info))
        });
        self.readable = told.flatten().unwrap_or_default();
    }

    pub(super) fn identity_answered(&self, asked: Asked, reply: &[u8]) -> Finding<'_> {
        let limits = &self.settings.limits;
        let secret = self.settings.secret;
        // The name that the login proved, if the origin reports nothing more.
        let name = match self.identity.name() {
            Some(b"") => Finding::Proven(Proof::Unauthenticated),
            Some(name) => Finding::Proven(Proof::Name(name)),
            None => Finding::LoggedIn,
        };
        server::read(reply, limits, |response| match (asked, response.ok, code(&response.body)) {
            (Asked::Read, true, _) => name,
            (Asked::Rights, true, _) => {
                let info = response.body.element("authInfo").ok().flatten();
                let info = info.and_then(|info| info.document());
                let digest = |info: Document<'_>| {
                    let digest = xxh3_128_with_seed(info.bytes(), secret);
                    Finding::Proven(Proof::Rights { digest, combines: true })
                };
                match info.filter(|info| has_users(info)) {
                    Some(info) => digest(info),
                    // Some servers do not report it, and the user may have logged out.
                    None if self.identity.is_proven() => name,
                    None => Finding::Refused,
                }
            }
            (_, false, Some(UNAUTHORIZED | AUTHENTICATION_FAILED)) => Finding::Refused,
            (Asked::Rights, false, Some(COMMAND_NOT_FOUND)) => {
                self.settings.access.unknown.store(true, Relaxed);
                Finding::AskAgain
            }
            (_, false, _) => Finding::LoggedIn,
        })
        .unwrap_or(Finding::LoggedIn)
    }
}

/// Whether the reply is the one for a connection that is not logged in.
pub(super) fn is_refusal(body: &Document<'_>, ok: bool) -> bool {
    let refusals = [UNAUTHORIZED, AUTHENTICATION_FAILED, COMMAND_NOT_FOUND];
    !ok && code(body).is_some_and(|code| refusals.contains(&code))
}

fn code(body: &Document<'_>) -> Option<i64> {
    body.element("code").ok().flatten().and_then(|code| code.integer())
}

fn has_users(info: &Document<'_>) -> bool {
    let users = info.element("authenticatedUsers").ok().flatten();
    users.and_then(|users| users.array()).is_some_and(|users| !users.is_empty())
}
