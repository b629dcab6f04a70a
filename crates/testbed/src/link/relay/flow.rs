//! One direction of a relayed connection: the bytes in flight, and the step from one socket to the
//! other.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::link::schedule::{Order, Schedule};
use crate::link::stats::{DirectionCounters, add, take};

/// Capacity above which an empty queue releases its memory.
const KEPT_QUEUE_BYTES: usize = 64 * 1024;

/// One direction of the path, shared by all connections.
pub(super) struct Path {
    pub(super) schedule: Schedule,
    /// Limit on the bytes in flight of one connection.
    pub(super) window_bytes: usize,
}

/// A socket and its readiness; epoll is edge-triggered, so readiness is kept here until a call
/// returns "would block".
pub(super) struct End {
    pub(super) stream: TcpStream,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// It was reset; what it sent before may still be read.
    pub(super) failed: bool,
}

/// The way in which a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    HalfClose,
    Reset,
}

/// The bytes in flight in one direction, each with its departure time, and the end of the stream.
#[derive(Default)]
pub(super) struct Flow {
    pub(super) order: Order,
    pub(super) bytes: VecDeque<u8>,
    /// Runs of `bytes` which leave together, in order.
    pub(super) runs: VecDeque<(usize, Duration)>,
    pub(super) ending: Option<(Ending, Duration)>,
    pub(super) half_closed: bool,
    /// The receiving end is closed.
    pub(super) dead: bool,
    /// Nothing enters before this time: the end of the emulated handshake.
    pub(super) opens_at: Duration,
}

/// One direction of one connection, with the state that it uses.
pub(super) struct Crossing<'a> {
    pub(super) source: &'a mut End,
    pub(super) flow: &'a mut Flow,
    pub(super) sink: &'a mut End,
    pub(super) path: &'a mut Path,
    pub(super) counters: &'a DirectionCounters,
}

impl Crossing<'_> {
    pub(super) fn may_receive(&self, now: Duration) -> bool {
        self.source.readable
            && self.flow.receives()
            && self.flow.bytes.len() < self.path.window_bytes
            && self.path.schedule.held_back_until(now).is_none()
    }

    /// Reads at most once, so that one connection does not delay the others.
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        round_trip: Duration,
        now: Duration,
    ) -> io::Result<()> {
        if !self.may_receive(now) {
            // A full window must not hide that the source has closed.
            let held_back = self.path.schedule.held_back_until(now).is_some();
            return match self.source.failed && !held_back {
                true => Err(ErrorKind::ConnectionReset.into()),
                false => Ok(()),
            };
        }
        let window = self.path.window_bytes - self.flow.bytes.len();
        let limit = buffer.len().min(window).min(self.path.schedule.room_bytes(now));
        let buffer = &mut buffer[..limit];
        match self.source.stream.read(buffer) {
            Ok(0) => {
                self.source.readable = false;
                let entered_at = now.max(self.flow.opens_at);
                let at = self.path.schedule.signal(&mut self.flow.order, entered_at);
                self.flow.ending = Some((Ending::HalfClose, at));
            }
            Ok(count) => self.enter(&buffer[..count], round_trip, now),
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.source.readable = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn enter(&mut self, bytes: &[u8], round_trip: Duration, now: Duration) {
        let Flow { order, runs, opens_at, .. } = &mut *self.flow;
        let lost = self.path.schedule.stream(
            order,
            bytes.len(),
            round_trip,
            now.max(*opens_at),
            |count, at| match runs.back_mut() {
                Some((run, run_at)) if *run_at == at => *run += count,
                _ => runs.push_back((count, at)),
            },
        );
        self.flow.bytes.extend(bytes);
        add(&self.counters.packets, 1);
        add(&self.counters.lost, lost);
        add(&self.counters.queued_bytes, bytes.len() as u64);
    }

    pub(super) fn deliver(&mut self, now: Duration) -> io::Result<()> {
        while self.sink.writable && !self.flow.dead {
            let due = self.flow.due_bytes(now);
            if due == 0 {
                break;
            }
            match self.sink.stream.write_vectored(&self.flow.first(due)) {
                Ok(count) => {
                    self.flow.leave(count);
                    add(&self.counters.bytes, count as u64);
                    take(&self.counters.queued_bytes, count as u64);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.sink.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if let Some((Ending::HalfClose, at)) = self.flow.ending
            && at <= now
            && self.flow.bytes.is_empty()
            && !self.flow.half_closed
            && !self.flow.dead
        {
            self.flow.half_closed = true;
            return self.sink.stream.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    /// Time of the next step of this direction, unless a socket becomes ready before.
    pub(super) fn wakes_at(&self, now: Duration, sink_connecting: bool) -> Option<Duration> {
        let mut wake_at = None;
        if self.source.readable
            && self.flow.receives()
            && self.flow.bytes.len() < self.path.window_bytes
        {
            earliest(&mut wake_at, self.path.schedule.held_back_until(now));
        }
        if sink_connecting || self.flow.dead {
            return wake_at;
        }
        if self.sink.writable {
            earliest(&mut wake_at, self.flow.runs.front().map(|(_, at)| *at));
        }
        if let Some((Ending::HalfClose, at)) = self.flow.ending
            && self.flow.bytes.is_empty()
            && !self.flow.half_closed
        {
            earliest(&mut wake_at, Some(at));
        }
        wake_at
    }
}

impl Flow {
    /// Whether data of the source can still be delivered.
    pub(super) fn receives(&self) -> bool {
        self.ending.is_none() && !self.dead
    }

    pub(super) fn due_bytes(&self, now: Duration) -> usize {
        self.runs.iter().take_while(|(_, at)| *at <= now).map(|(count, _)| count).sum()
    }

    pub(super) fn first(&self, count: usize) -> [IoSlice<'_>; 2] {
        let (front, back) = self.bytes.as_slices();
        let front = &front[..count.min(front.len())];
        let back = &back[..count - front.len()];
        [IoSlice::new(front), IoSlice::new(back)]
    }

    pub(super) fn leave(&mut self, mut count: usize) {
        self.bytes.drain(..count);
        while count > 0
            && let Some((run, _)) = self.runs.front_mut()
        {
            let left = count.min(*run);
            *run -= left;
            count -= left;
            if *run == 0 {
                self.runs.pop_front();
            }
        }
        if self.bytes.is_empty() && self.bytes.capacity() > KEPT_QUEUE_BYTES {
            self.bytes.shrink_to(KEPT_QUEUE_BYTES);
        }
    }

    pub(super) fn hold_until(&mut self, earliest: Duration) {
        for (_, at) in &mut self.runs {
            *at = earliest.max(*at);
        }
        if let Some((_, at)) = &mut self.ending {
            *at = earliest.max(*at);
        }
        self.order.keep(earliest);
    }
}

pub(super) fn earliest(wake_at: &mut Option<Duration>, candidate: Option<Duration>) {
    *wake_at = match (*wake_at, candidate) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
}
