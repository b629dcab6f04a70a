//! Identity check of a Redis connection at the origin.
//!
//! `ACL GETUSER` returns the rights of the user. If the user may not run it, or the server has no
//! `ACL`, only the fact of the login is known.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use wire::resp::{Frame, Version, request};
use xxhash_rust::xxh3::Xxh3;

use super::{
    Resp, Tag,
    message::{is_queued, whole},
};
use crate::principal::{Finding, Proof};

/// How to ask an origin for a user's rights. Determined once, so that these checks do not fill the
/// origin's log of refused commands.
#[derive(Debug, Default)]
pub struct Access {
    /// The server knows no `ACL`.
    unknown: AtomicBool,
    /// Users without the right to `ACL GETUSER`.
    refused: Mutex<HashSet<Box<[u8]>>>,
    /// Users without the right to `PTTL`.
    blind: Mutex<Blind>,
    /// Their number: a connection looks up its user only if there are any.
    blind_users: AtomicUsize,
}

#[derive(Debug, Default)]
struct Blind {
    /// Users without the right to `PTTL`, each with the digest of its rights at that time,
    /// if the origin reports it: users whose rights have changed are tried again.
    users: HashMap<Box<[u8]>, Option<u128>>,
    untold: Vec<String>,
}

/// Maximum number of users remembered; other users are asked for their rights each time.
const USERS_MAX: usize = 4_096;

impl Access {
    fn refused(&self) -> MutexGuard<'_, HashSet<Box<[u8]>>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn blind(&self) -> MutexGuard<'_, Blind> {
        self.blind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_blind(&self, user: &[u8]) -> bool {
        self.blind_users.load(Relaxed) > 0 && self.blind().users.contains_key(user)
    }

    /// Forgets that a user lacks the right to `PTTL` if the user's rights have changed since.
    fn review(&self, user: &[u8], rights: Option<u128>) {
        if self.blind_users.load(Relaxed) > 0 {
            let mut blind = self.blind();
            if blind.users.get(user).is_some_and(|&before| before != rights) {
                blind.users.remove(user);
                self.blind_users.store(blind.users.len(), Relaxed);
            }
        }
    }

    fn note_blind(&self, user: &[u8], rights: Option<u128>) {
        let mut blind = self.blind();
        let room = blind.users.len() < USERS_MAX || blind.users.contains_key(user);
        if room && blind.users.insert(user.into(), rights) != Some(rights) {
            blind.untold.push(String::from_utf8_lossy(user).into_owned());
            self.blind_users.store(blind.users.len(), Relaxed);
        }
    }

    /// Takes the users that were found to lack the right to `PTTL` since the last call, each
    /// reported once for its rights.
    #[must_use]
    pub fn take_blind(&self) -> Vec<String> {
        std::mem::take(&mut self.blind().untold)
    }

    fn note_refused(&self, user: &[u8]) {
        let mut refused = self.refused();
        if refused.len() < USERS_MAX {
            refused.insert(user.into());
        }
    }
}

/// The command of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// `ACL GETUSER`: the user's rights.
    Rights,
    /// `HELLO`, which every logged-in user may send, and no other client.
    Greeting,
    /// `PING`, which servers of every age know.
    Ping,
}

impl Resp {
    fn user_name(&self) -> &[u8] {
        self.user.as_deref().unwrap_or(b"default")
    }

    pub(super) fn ask_identity(&mut self, forced: bool, out: &mut Vec<u8>) -> Option<Tag> {
        let between = if forced { self.may_queue() } else { self.between };
        if self.unsettled > 0 || between {
            return None;
        }
        let user = self.user_name();
        let access = &self.settings.access;
        // HELLO would change the protocol of a connection whose protocol version is unknown.
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

    /// Whether the user is known to lack the right to run PTTL.
    pub(super) fn is_blind(&mut self) -> bool {
        self.blind = self.blind || self.settings.access.is_blind(self.user_name());
        self.blind
    }

    /// The origin has answered PTTL.
    pub(super) fn note_if_refused(&mut self, reply: Option<&Frame<'_>>) {
        let error = reply.and_then(Frame::error);
        if error.is_some_and(lacks_command) {
            self.blind = true;
            self.settings.access.note_blind(self.user_name(), self.rights);
        }
    }

    pub(super) fn identity_answered(&mut self, asked: Asked, reply: &[u8]) -> Finding<'_> {
        let Some(reply) = whole(reply, &self.settings.limits) else { return Finding::LoggedIn };
        if asked == Asked::Rights && reply.error().is_none() && !is_queued(&reply) {
            let proof = self.rights_of(&reply);
            self.rights = match proof {
                Some(Proof::Rights { digest, .. }) => Some(digest),
                _ => None,
            };
            self.settings.access.review(self.user_name(), self.rights);
            self.blind = self.settings.access.is_blind(self.user_name());
            return proof.map_or(Finding::LoggedIn, Finding::Proven);
        }
        let name = Finding::Proven(Proof::Name(self.user_name()));
        let Some(error) = reply.error() else {
            return match asked {
                _ if is_queued(&reply) => Finding::LoggedIn,
                Asked::Rights | Asked::Greeting | Asked::Ping => name,
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
    fn rights_of(&self, reply: &Frame<'_>) -> Option<Proof<'static>> {
        if !reply.kind().is_aggregate() || reply.is_null() {
            return None;
        }
        let mut digest = Xxh3::with_seed(self.settings.secret);
        let (mut all, mut whole_set, mut combines) = ([false; 3], true, true);
        let mut elements = reply.elements();
        while let (Some(name), Some(value)) = (elements.next(), elements.next()) {
            let one = || value.elements().map(|one| text(&one));
            match text(&name) {
                // They affect the login, not the rights after it.
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

/// Whether the error means that the connection is not logged in.
fn is_no_login(error: &[u8]) -> bool {
    error.starts_with(b"NOAUTH") || error.starts_with(b"ERR operation not permitted")
}

/// Whether the error means that the user may run the command on no key at all. There is another
/// error for a single key.
fn lacks_command(error: &[u8]) -> bool {
    const WORDS: &[u8] = b"no permissions to run";
    error.starts_with(b"NOPERM") && error.windows(WORDS.len()).any(|words| words == WORDS)
}

/// Whether the error means that the command is unknown. Servers check that before the user.
fn is_unknown(error: &[u8]) -> bool {
    [&b"ERR unknown command"[..], b"ERR unknown subcommand", b"ERR wrong number of arguments"]
        .iter()
        .any(|words| {
            error.get(..words.len()).is_some_and(|start| start.eq_ignore_ascii_case(words))
        })
}

/// Whether the reply is the one for a connection that is not logged in. EXEC, and a command with
/// many or long arguments, have their own error texts for that.
pub(super) fn is_refusal(reply: &Frame<'_>) -> bool {
    const OTHER_WORDS: [&[u8]; 2] = [b"EXECABORT ", b"ERR Protocol error"];
    let refuses = |error: &[u8]| OTHER_WORDS.iter().any(|words| error.starts_with(words));
    reply.error().is_some_and(|error| is_no_login(error) || is_unknown(error) || refuses(error))
}
