//! Queue of commands that wait for the disk.
//!
//! The data that a waiting command has requested stays in memory until it has run: values, and
//! pages of the storage table. Commands of many clients that need much data at once therefore queue
//! before they request it. A command that has begun continues regardless of the others, and ends,
//! so the next one can begin.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;

use crate::clients::Client;

/// Memory of waiting commands, and the queue of further ones.
#[derive(Default)]
pub(crate) struct Turns {
    /// New commands must queue.
    crowded: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    bytes: usize,
    /// Each client once, at most.
    queue: VecDeque<Arc<Client>>,
    /// The first was notified that it may begin, and has not yet.
    called: bool,
}

impl Turns {
    /// Whether a command that has not waited yet may begin to without queueing.
    #[inline]
    pub(crate) fn may_begin(&self) -> bool {
        !self.crowded.load(Relaxed)
    }

    /// Counts `bytes` that a command waits for; further commands queue if all together wait for
    /// more than `bytes_max`.
    pub(crate) fn keep(&self, bytes: usize, bytes_max: usize) {
        self.change(bytes_max, |state| state.bytes += bytes);
    }

    /// Subtracts `bytes` that a command no longer waits for.
    #[inline]
    pub(crate) fn let_go(&self, bytes: usize, bytes_max: usize) {
        if bytes > 0 {
            self.change(bytes_max, |state| state.bytes -= bytes);
        }
    }

    /// Queues `client`; it is notified when it may begin, like after a disk read.
    pub(crate) fn join(&self, client: &Arc<Client>, bytes_max: usize) {
        client.wait_for(1);
        self.change(bytes_max, |state| state.queue.push_back(Arc::clone(client)));
    }

    /// A queued client has begun, or has given up.
    pub(crate) fn leave(&self, client: &Client, bytes_max: usize) {
        self.change(bytes_max, |state| {
            match state.queue.iter().position(|queued| queued.id == client.id) {
                Some(place) => drop(state.queue.remove(place)),
                None => state.called = false,
            }
        });
    }

    fn change(&self, bytes_max: usize, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        // One at a time: how much it will keep is known when it has begun.
        if state.bytes <= bytes_max
            && !state.called
            && let Some(next) = state.queue.pop_front()
        {
            state.called = true;
            next.arrived();
        }
        let crowded = state.bytes > bytes_max || state.called || !state.queue.is_empty();
        self.crowded.store(crowded, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Clients;

    #[test]
    fn whoever_came_first_begins_first() {
        const MAX: usize = 10;
        let (turns, clients) = (Turns::default(), Clients::default());
        let [first, second, third] =
            [(); 3].map(|()| clients.enter(String::new(), String::new(), 0, |_| Box::new(|| {})));
        assert!(turns.may_begin());
        // A single command may exceed the limit.
        turns.keep(100, MAX);
        assert!(!turns.may_begin());
        [&first, &second, &third].into_iter().for_each(|client| turns.join(client, MAX));
        turns.let_go(80, MAX);
        assert!(!first.is_ready());
        turns.let_go(10, MAX);
        assert!(first.is_ready() && !second.is_ready() && !turns.may_begin());
        turns.keep(5, MAX);
        turns.leave(&first, MAX);
        // The first command exceeds the limit: the next one waits for it, and new ones wait for
        // both.
        assert!(!second.is_ready());
        // A disconnected client does not block the queue.
        turns.leave(&second, MAX);
        turns.let_go(15, MAX);
        assert!(third.is_ready() && !turns.may_begin());
        turns.leave(&third, MAX);
        assert!(turns.may_begin());
        // The last command had released its bytes before this one queued.
        turns.join(&first, MAX);
        assert!(first.is_ready());
    }
}
