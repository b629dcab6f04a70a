//! The origin's last greetings, repeated to clients while it cannot be reached.
//!
//! A client without a greeting disconnects, and gets no hits. So the sessions of one listener share
//! the last greeting of the origin, and repeat it for a bounded time to clients that authenticate
//! nothing.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The last greeting of one origin, for each of the two request forms.
#[derive(Debug, Default)]
pub struct Greetings([Mutex<Option<Greeting>>; 2]);

#[derive(Debug)]
struct Greeting {
    reply: Vec<u8>,
    told_at: Duration,
}

/// Request form.
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

    /// The greeting, if it is not older than `age_max`.
    pub(crate) fn recall(&self, form: Form, age_max: Duration, now: Duration) -> Option<Vec<u8>> {
        let greeting = self.at(form);
        let recent = greeting.as_ref().filter(|greeting| now <= greeting.told_at + age_max);
        recent.map(|greeting| greeting.reply.clone())
    }

    /// Repeats none of them any more: the origin is another server.
    pub fn forget(&self) {
        for form in [Form::Old, Form::New] {
            *self.at(form) = None;
        }
    }

    fn at(&self, form: Form) -> MutexGuard<'_, Option<Greeting>> {
        // A panic while the lock was held cannot leave a partial greeting.
        self.0[form as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
