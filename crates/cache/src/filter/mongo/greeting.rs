//! The origin's last greeting: what drivers are told while it cannot be reached.
//!
//! A driver asks `hello` on every new connection and every few seconds on one of its own, and takes
//! a server that does not answer for gone: then it no longer asks for what storage could answer. So
//! one listener's sessions share what the origin said last, and repeat it for a bounded time to
//! clients that authenticate nothing.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use wire::mongo::{
    bson::{Document, Writer},
    request::Request,
};

/// What one origin said last, in each of the two ways to ask.
#[derive(Debug, Default)]
pub struct Greetings([Mutex<Option<Greeting>>; 2]);

#[derive(Debug)]
struct Greeting {
    body: Vec<u8>,
    told_at: Duration,
}

/// How a client asked: the same facts come back under other names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `hello`.
    Hello,
    /// `isMaster`.
    Legacy,
}

impl Form {
    /// The form of a handshake, unless its reply is for this client alone.
    pub(super) fn of(request: &Request<'_>) -> Option<Self> {
        let asks = |name| !matches!(request.body.element(name), Ok(None));
        if asks("speculativeAuthenticate") || asks("saslSupportedMechs") {
            return None;
        }
        Some(if request.name == "hello" { Self::Hello } else { Self::Legacy })
    }
}

impl Greetings {
    /// Remembers the reply `body` to a handshake of this `form`.
    pub(super) fn remember(&self, form: Form, body: &Document<'_>, now: Duration) {
        let mut kept = Vec::new();
        let mut complete = true;
        Writer::write(&mut kept, |writer| {
            for element in body.elements() {
                match element {
                    Ok(element) if is_lasting(element.name()) => writer.element(&element),
                    Ok(_) => {}
                    Err(_) => complete = false,
                }
            }
        });
        if complete {
            *self.at(form) = Some(Greeting { body: kept, told_at: now });
        }
    }

    /// What was said no longer than `age_max` ago.
    pub(super) fn recall(&self, form: Form, age_max: Duration, now: Duration) -> Option<Vec<u8>> {
        let greeting = self.at(form);
        let recent = greeting.as_ref().filter(|greeting| now <= greeting.told_at + age_max);
        recent.map(|greeting| greeting.body.clone())
    }

    fn at(&self, form: Form) -> MutexGuard<'_, Option<Greeting>> {
        // Whoever panicked did not hold half of a greeting.
        self.0[form as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Is the field true of the server and not of one connection or moment? Without `topologyVersion`
/// a driver asks again by the clock instead of waiting for a change; without `compression` it sends
/// nothing that a later connection to the origin has not agreed to.
fn is_lasting(field: &[u8]) -> bool {
    !matches!(
        field,
        b"topologyVersion"
            | b"speculativeAuthenticate"
            | b"saslSupportedMechs"
            | b"compression"
            | b"connectionId"
            | b"$clusterTime"
            | b"operationTime"
    )
}
