//! Messages of both sides: cut from the received bytes, classified, and passed to the Managers.

use std::{collections::VecDeque, time::Duration};

use tracing::{Level, enabled, trace};

use super::{Hold, KEPT_QUEUE, Reading, Session, large::Passage};
use crate::{
    Error, Side,
    filter::{Filter, Flow, Request, Scratch},
    input::Input,
    storage::Storage,
};

impl<F: Filter> Session<F> {
    /// Handles bytes that `side` has sent: those that wait, followed by `bytes`.
    #[inline]
    pub(super) fn take<S: Storage>(
        &mut self,
        side: Side,
        bytes: &[u8],
        storage: &mut S,
        now: Duration,
    ) -> Result<(), Error> {
        if self.input(side).is_empty() {
            let taken = self.take_messages(side, bytes, storage, now)?;
            self.input(side).keep(bytes.get(taken..).unwrap_or_default());
            return Ok(());
        }
        let all = self.input(side).take_with(bytes);
        let taken = self.take_messages(side, all.waiting(), storage, now)?;
        self.input(side).put_back(all, taken);
        Ok(())
    }

    fn input(&mut self, side: Side) -> &mut Input {
        match side {
            Side::Client => &mut self.from_client,
            Side::Server => &mut self.from_server,
        }
    }

    fn take_messages<S: Storage>(
        &mut self,
        side: Side,
        bytes: &[u8],
        storage: &mut S,
        now: Duration,
    ) -> Result<usize, Error> {
        match side {
            Side::Client => self.take_requests(bytes, storage, now),
            Side::Server => self.take_replies(bytes, storage, now),
        }
    }

    /// Handles the whole requests at the start of `bytes`; returns how far they reach.
    fn take_requests<S: Storage>(
        &mut self,
        bytes: &[u8],
        storage: &mut S,
        now: Duration,
    ) -> Result<usize, Error> {
        let (mut taken, mut prefetched) = (0, 0);
        let mut scratch = Scratch::new();
        self.held_up = false;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            if self.ended || self.deserted || self.broken.is_some() {
                return Ok(bytes.len());
            }
            if !self.may_take_request() {
                self.held_up = true;
                break;
            }
            if self.passing {
                let Passage::Taken(length) = self.pass(rest) else { break };
                taken += length;
                continue;
            }
            // A hit reads its data in place: moving a message costs as much as a lookup.
            let found = self.filter.message(rest);
            let (message, length) = match &found {
                Ok(Some((message, length))) => (message, *length),
                Ok(None) => match self.begin_passing(rest, &mut scratch, storage, now)? {
                    Passage::Taken(length) => {
                        taken += length;
                        continue;
                    }
                    Passage::Wait => {
                        self.held_up = self.hold == Hold::Waits;
                        break;
                    }
                },
                Err(error) => {
                    self.broken = Some(error.clone());
                    continue;
                }
            };
            // Never for a request that comes alone.
            if taken >= prefetched && length < rest.len() {
                prefetched = taken + self.prefetch(rest, storage);
            }
            scratch.clear();
            let named = self.filter.request(message, &mut scratch, &mut self.standing, now);
            if enabled!(Level::DEBUG) {
                self.tell_request(message, &named, length);
            }
            let original = rest.get(..length).unwrap_or_default();
            if let Ok(Request { flow: Flow::Read(read), tag, .. }) = &named
                && self.may_answer()
            {
                if !self.read(read, tag, original, storage, now) {
                    break;
                }
                self.waited = false;
                taken += length;
                continue;
            }
            let Ok(request) = named.map_err(|error| self.broken = Some(error)) else { continue };
            if !self.take_request(request, original, storage, now)? {
                self.held_up = self.hold == Hold::Waits;
                break;
            }
            self.waited = false;
            taken += length;
        }
        Ok(taken)
    }

    /// Handles one request that is no plain read; `false` if it has to wait.
    #[inline]
    fn take_request<S: Storage>(
        &mut self,
        request: Request<'_, F::Tag>,
        original: &[u8],
        storage: &mut S,
        now: Duration,
    ) -> Result<bool, Error> {
        if self.streams && request.flow.is_wide_write() {
            return Err(Error::Stream);
        }
        if self.unreachable.is_some()
            && let Some(why) = self.answers_held(&request.flow)
        {
            self.answer_held(&request, &why, now);
            return Ok(true);
        }
        Ok(self.handle_request(request, original, storage, now))
    }

    /// Prefetches what the next requests will look up; returns how many bytes they are.
    fn prefetch<S: Storage>(&self, rest: &[u8], storage: &S) -> usize {
        if !storage.prefetches() {
            return rest.len();
        }
        let ahead = self.filter.look_ahead(rest);
        storage.prefetch(ahead.origin, &ahead.hashes);
        ahead.bytes
    }

    #[cold]
    fn tell_request(
        &mut self,
        message: &F::Message<'_>,
        named: &wire::Result<Request<'_, F::Tag>>,
        bytes: usize,
    ) {
        self.command = self.filter.command(message);
        let flow = named.as_ref().map_or("refused", |request| request.flow.name());
        let (connection, command) = (self.ticket.0, self.command);
        trace!(connection, command, flow, bytes, "filter: request");
    }

    /// Handles what can be handled of `bytes`; returns how far that reaches.
    fn take_replies<S: Storage>(
        &mut self,
        bytes: &[u8],
        storage: &mut S,
        now: Duration,
    ) -> Result<usize, Error> {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            if self.streaming {
                self.to_client.buffer().extend_from_slice(rest);
                taken = bytes.len();
                break;
            }
            let tag = self.expected.front().map(|expected| &expected.tag);
            let cut = self.filter.cut(rest, tag).map_err(Error::Server)?;
            if cut.bytes == 0 && !cut.ends {
                break;
            }
            let part = rest.get(..cut.bytes).unwrap_or(rest);
            let whole = cut.ends && self.reading == Reading::Boundary;
            match self.filter.redirect(part).filter(|_| whole) {
                Some(redirected) => self.handle_part(&redirected, cut, storage, now)?,
                None => self.handle_part(part, cut, storage, now)?,
            }
            taken += cut.bytes;
        }
        if self.expected.is_empty() && self.expected.capacity() > KEPT_QUEUE {
            self.expected = VecDeque::new();
        }
        Ok(taken)
    }
}
