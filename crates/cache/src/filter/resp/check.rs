//! Who a Redis connection speaks for, in the origin's own words.
//!
//! `ACL GETUSER` says what the user may do. Where the user may not ask that, or the server knows no
//! `ACL`, it says no more than that the connection is logged in.

use std::{
    collections::HashSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use wire::resp::{Frame, Version, request};
use xxhash_rust::xxh3::Xxh3;

use super::{
    Resp, Tag,
    message::{is_queued, whole},
};
use crate::principal::{Finding, Proof};

/// How an origin can be asked for a user's rights. Learned once, so that its log of refused commands
/// does not fill with our questions.
#[derive(Debug, Default)]
pub struct Access {
    /// The server knows no `ACL`.
    unknown: AtomicBool,
    /// Users who may not ask `ACL GETUSER`.
    refused: Mutex<HashSet<Box<[u8]>>>,
}

/// At most this many users are remembered; the others are asked for their rights each time.
const USERS_MAX: usize = 4_096;

impl Access {
    fn refused(&self) -> MutexGuard<'_, HashSet<Box<[u8]>>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_refused(&self, user: &[u8]) {
        let mut refused = self.refused();
        if refused.len() < USERS_MAX {
            refused.insert(user.into());
        }
    }
}

/// What a check asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// `ACL GETUSER`: the user's rights.
    Rights,
    /// `HELLO`, which every user may say, and nobody who is not logged in.
    Greeting,
    /// `PING`, which servers of every age know.
    Ping,
}

impl Resp {
    fn user_name(&self) -> &[u8] {
        self.user.as_deref().unwrap_or(b"default")
    }

    pub(super) fn ask_who(&mut self, forced: bool, out: &mut Vec<u8>) -> Option<Tag> {
        let between = if forced { self.may_queue() } else { self.between };
        if self.unsettled > 0 || between {
            return None;
        }
        let user = self.user_name();
        let access = &self.settings.access;
        // HELLO would change the protocol of a connection whose protocol is not known.
        let asked = if access.unknown.load(Relaxed) || self.lost_track {
            request::write_command(out, &["PING"]);
            Asked::Ping
        } else if access.refused().contains(user) {
            let version = match self.version {
                Version::Resp2 => "2",
                Version::Resp3 => "3",
            };
            request::write_command(out, &["HELLO", version]);
            Asked::Greeting
        } else {
            request::write_command(out, &[b"ACL".as_slice(), b"GETUSER", user]);
            Asked::Rights
        };
        Some(Tag::Check(asked))
    }

    pub(super) fn answered_who(&self, asked: Asked, reply: &[u8]) -> Finding<'_> {
        let Some(reply) = whole(reply, &self.settings.limits) else { return Finding::LoggedIn };
        let name = Finding::Proven(Proof::Name(self.user_name()));
        let Some(error) = reply.error() else {
            return match asked {
                _ if is_queued(&reply) => Finding::LoggedIn,
                Asked::Rights => self.rights(&reply).map_or(Finding::LoggedIn, Finding::Proven),
                Asked::Greeting | Asked::Ping => name,
            };
        };
        if is_no_login(error) {
            return Finding::Refused;
        }
        match asked {
            Asked::Rights if error.starts_with(b"NOPERM") => {
                self.settings.access.note_refused(self.user_name());
                name
            }
            Asked::Rights if is_unknown(error) => {
                self.settings.access.unknown.store(true, Relaxed);
                Finding::AskAgain
            }
            Asked::Ping if error.starts_with(b"NOPERM") => name,
            _ => Finding::LoggedIn,
        }
    }

    /// Reads `ACL GETUSER`: names and values in turn.
    fn rights(&self, reply: &Frame<'_>) -> Option<Proof<'static>> {
        if !reply.kind().is_aggregate() || reply.is_null() {
            return None;
        }
        let mut digest = Xxh3::with_seed(self.settings.secret);
        let (mut all, mut whole_set, mut combines) = ([false; 3], true, true);
        let mut elements = reply.elements();
        while let (Some(name), Some(value)) = (elements.next(), elements.next()) {
            let one = || value.elements().map(|one| text(&one));
            match text(&name) {
                // They say who may log in, not what may be done then.
                b"passwords" => continue,
                b"flags" => all[0] = one().any(|flag| flag == b"on"),
                b"commands" => all[1] = text(&value) == b"+@all",
                b"keys" => all[2] = text(&value) == b"~*" || one().eq([b"*".as_slice()]),
                b"selectors" => combines = value.elements().next().is_none(),
                b"channels" => {}
                // A right of a kind that is not known here.
                _ => whole_set = false,
            }
            feed(&name, &mut digest);
            feed(&value, &mut digest);
        }
        Some(match whole_set && combines && all == [true; 3] {
            true => Proof::Unrestricted,
            false => Proof::Rights { digest: digest.digest128(), combines },
        })
    }
}

/// Adds a reply to a digest, the same in both versions of the protocol.
fn feed(frame: &Frame<'_>, digest: &mut Xxh3) {
    if frame.kind().is_aggregate() {
        let elements = frame.elements().count();
        digest.update(&[1]);
        digest.update(&(elements as u64).to_le_bytes());
        frame.elements().for_each(|element| feed(&element, digest));
    } else {
        let payload = text(frame);
        digest.update(&[0]);
        digest.update(&(payload.len() as u64).to_le_bytes());
        digest.update(payload);
    }
}

/// A string, however it is written.
fn text<'a>(frame: &Frame<'a>) -> &'a [u8] {
    let line = || frame.value_bytes().get(1..).and_then(|line| line.strip_suffix(b"\r\n"));
    frame.payload().or_else(line).unwrap_or_default()
}

/// Says the error that the connection is not logged in?
fn is_no_login(error: &[u8]) -> bool {
    error.starts_with(b"NOAUTH") || error.starts_with(b"ERR operation not permitted")
}

/// Says the error that there is no such command? Servers say so before they look who asks.
fn is_unknown(error: &[u8]) -> bool {
    [&b"ERR unknown command"[..], b"ERR unknown subcommand", b"ERR wrong number of arguments"]
        .iter()
        .any(|words| {
            error.get(..words.len()).is_some_and(|start| start.eq_ignore_ascii_case(words))
        })
}

/// Is the reply what a connection is told that is not logged in? To EXEC that is said in words of its
/// own, and so it is to a command with many arguments or long ones.
pub(super) fn is_refusal(reply: &Frame<'_>) -> bool {
    const OTHER_WORDS: [&[u8]; 2] = [b"EXECABORT ", b"ERR Protocol error"];
    let refuses = |error: &[u8]| OTHER_WORDS.iter().any(|words| error.starts_with(words));
    reply.error().is_some_and(|error| is_no_login(error) || is_unknown(error) || refuses(error))
}
