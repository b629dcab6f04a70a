//! Server Manager: the response flow is forwarded first and fills storage second.

use std::{mem, time::Duration};

use crate::{
    expected::{Action, Expected, Fill, Merge, Part},
    filter::{Cut, Filter},
    session::Session,
    stats::NotFilled,
    storage::Storage,
};

impl<F: Filter> Session<F> {
    /// Handles a piece of the origin's byte stream.
    pub(crate) fn handle_part<S: Storage>(
        &mut self,
        part: &[u8],
        cut: Cut,
        storage: &mut S,
        now: Duration,
    ) {
        let Some(expected) = self.expected.front().filter(|_| cut.answers) else {
            // A push, or words nobody asked for (a server that refuses connections says so first).
            self.to_client.buffer().extend_from_slice(part);
            return;
        };
        let seen = expected.action.seen();
        if seen.passes {
            self.to_client.buffer().extend_from_slice(part);
        }
        let whole_at_once = cut.ends && !self.mid_reply;
        self.mid_reply = !cut.ends;
        if whole_at_once {
            self.finish(part, cut.continues, storage, now);
            return;
        }
        if seen.captured && self.captured.len() + part.len() <= self.capture_limit(seen.passes) {
            self.captured.extend_from_slice(part);
        } else {
            // Too large to be kept aside: what is incomplete is never admitted.
            self.captured.clear();
        }
        if cut.ends {
            let captured = mem::take(&mut self.captured);
            self.finish(&captured, cut.continues, storage, now);
        }
    }

    /// What must be withheld from the client must be kept as a whole; the codec bounds it.
    fn capture_limit(&self, passes: bool) -> usize {
        if passes { self.config.captured_bytes_max } else { usize::MAX }
    }

    /// A reply is complete.
    fn finish<S: Storage>(
        &mut self,
        reply: &[u8],
        continues: bool,
        storage: &mut S,
        now: Duration,
    ) {
        if continues {
            if let Some(Expected { tag, action: Action::Rewrite, .. }) = self.expected.front() {
                self.filter.rewrite(tag, reply, self.to_client.buffer());
            }
            return;
        }
        let Some(mut expected) = self.expected.pop_front() else { return };
        let tag = &expected.tag;
        match expected.action {
            Action::Forward | Action::Local(_) => {}
            Action::Observe => self.filter.observe(tag, reply),
            Action::Rewrite => self.filter.rewrite(tag, reply, self.to_client.buffer()),
            Action::Fill(fill) => self.fill(tag, *fill, reply, storage, now),
            Action::Probe { asked_at } => self.probed(reply, asked_at, storage, now),
            Action::Merge(merge) => self.merge(tag, *merge, reply, storage, now),
            Action::Stream => {}
            Action::State(stated) => {
                if self.filter.accepts(tag, reply)
                    && let Some(write) = expected.writes.pop()
                {
                    let key = stated.key.borrow();
                    let (variant, answer) = (&stated.variant, &stated.answer);
                    let expires_at = stated.expires_at;
                    storage.write_settled_with(write, key, variant, answer, expires_at, now);
                }
            }
        }
        for write in expected.writes {
            storage.write_settled(write);
        }
        self.advance_queue();
    }

    fn fill<S: Storage>(
        &mut self,
        tag: &F::Tag,
        mut fill: Fill,
        reply: &[u8],
        storage: &mut S,
        now: Duration,
    ) {
        let key = fill.key.borrow();
        if let Err(reason) = self.filter.admit(tag, key.bytes, reply, &mut fill.packed)
            && let Some(lease) = fill.lease.take()
        {
            storage.stats().not_filled(reason);
            storage.release(lease);
        }
        if fill.probed {
            self.probing.push_back(fill);
        } else {
            fill.store(None, storage, now);
        }
    }

    fn probed<S: Storage>(
        &mut self,
        reply: &[u8],
        asked_at: Duration,
        storage: &mut S,
        now: Duration,
    ) {
        let Some(mut fill) = self.probing.pop_front() else { return };
        let Some(lease) = fill.lease.take() else { return };
        match self.filter.probed(reply, asked_at) {
            Ok(probed) => {
                storage.learn(&lease, probed.character);
                fill.lease = Some(lease);
                fill.store(probed.expires_at, storage, now);
            }
            Err(reason) => {
                if reason == NotFilled::Derived {
                    storage.learn(&lease, crate::lease::Character::Derived);
                }
                storage.stats().not_filled(reason);
                storage.release(lease);
            }
        }
    }

    fn merge<S: Storage>(
        &mut self,
        tag: &F::Tag,
        merge: Merge,
        reply: &[u8],
        storage: &mut S,
        now: Duration,
    ) {
        let missing = merge.parts.iter().filter(|part| matches!(part, Part::Missing(_))).count();
        let elements = self.filter.split(tag, reply).filter(|parts| parts.len() == missing);
        let out = self.to_client.buffer();
        match &elements {
            Some(_) => self.filter.answer_many(tag, merge.parts.len(), out),
            // An error answers the whole request.
            None => out.extend_from_slice(reply),
        }
        let mut elements = elements.map(Vec::into_iter);
        for part in merge.parts {
            match part {
                Part::Stored(range) if elements.is_some() => {
                    let stored = merge.stored.get(range).unwrap_or_default();
                    self.to_client.buffer().extend_from_slice(stored);
                }
                Part::Stored(_) => {}
                Part::Missing(fill) => {
                    let element = elements.as_mut().and_then(Iterator::next).unwrap_or_default();
                    self.to_client.buffer().extend_from_slice(element);
                    self.fill(tag, fill, element, storage, now);
                }
            }
        }
    }

    /// Sends the answers of ours whose turn has come, and lets a stream begin at its own.
    pub(crate) fn advance_queue(&mut self) {
        while let Some(Expected { action: Action::Local(answer), .. }) = self.expected.front() {
            self.to_client.buffer().extend_from_slice(answer);
            self.expected.pop_front();
        }
        if matches!(self.expected.front(), Some(Expected { action: Action::Stream, .. })) {
            self.expected.pop_front();
            self.streaming = true;
        }
    }
}

/// What becomes of the bytes of a reply while they arrive.
struct Seen {
    /// They pass to the client at once.
    passes: bool,
    /// They are kept until the reply is whole.
    captured: bool,
}

impl Action {
    fn seen(&self) -> Seen {
        match self {
            Self::Forward | Self::Stream | Self::Local(_) => Seen { passes: true, captured: false },
            Self::Observe | Self::Fill(_) | Self::State(_) => Seen { passes: true, captured: true },
            Self::Rewrite | Self::Probe { .. } | Self::Merge(_) => {
                Seen { passes: false, captured: true }
            }
        }
    }
}
