//! The origin's last greetings: what clients are told while it cannot be reached.
//!
//! A client that is not greeted goes away, and no longer asks for what storage could answer. So one
//! listener's sessions share what the origin said last, and repeat it for a bounded time to clients
//! that authenticate nothing.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// What one origin said last, in each of the two ways to ask.
#[derive(Debug, Default)]
pub struct Greetings([Mutex<Option<Greeting>>; 2]);

#[derive(Debug)]
struct Greeting {
    reply: Vec<u8>,
    told_at: Duration,
}

/// How a client asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// MongoDB's `isMaster`; `HELLO 2`.
    Old,
    /// MongoDB's `hello`; `HELLO 3`.
    New,
}

impl Greetings {
    pub(crate) fn remember(&self, form: Form, reply: Vec<u8>, now: Duration) {
        *self.at(form) = Some(Greeting { reply, told_at: now });
    }

    /// What was said no longer than `age_max` ago.
    pub(crate) fn recall(&self, form: Form, age_max: Duration, now: Duration) -> Option<Vec<u8>> {
        let greeting = self.at(form);
        let recent = greeting.as_ref().filter(|greeting| now <= greeting.told_at + age_max);
        recent.map(|greeting| greeting.reply.clone())
    }

    fn at(&self, form: Form) -> MutexGuard<'_, Option<Greeting>> {
        // Whoever panicked did not hold half of a greeting.
        self.0[form as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
