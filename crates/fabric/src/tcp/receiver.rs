//! The server's end: acknowledges, and closes when the client has.

use super::{
    DELAYED_ACK_NS, NEVER, RECEIVE_WINDOW_BYTES, RETRIES_MAX, RTO_MIN_NS, SYN_DOUBLINGS_MAX,
    SYN_TIMEOUT_NS, ranges::Ranges,
};
use crate::packet::{SACK_BLOCKS, Segment, flag};

/// Segments that one acknowledgment may cover.
const DELAYED_ACK_SEGMENTS: u8 = 2;

/// Blocks remembered for selective acknowledgments.
const SACK_LIST: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    SynReceived,
    Established,
    LastAck,
    Closed,
}

#[derive(Debug, Clone)]
pub(crate) struct Receiver {
    state: State,
    retries: u8,
    delayed: u8,
    syn_tries: u32,
    next: u32,
    fin_seq: Option<u32>,
    acked: u32,
    echo_ns: u64,
    /// Data beyond a gap, and its blocks, latest first.
    beyond: Ranges,
    sack: Vec<(u32, u32)>,
    delayed_due_ns: u64,
    resend_due_ns: u64,
    last_ack_due_ns: u64,
    /// DCTCP: whether the last data packet was marked, and whether the next ACK says so.
    marked: bool,
}

impl Receiver {
    /// A SYN arrived.
    pub(crate) fn accept(segments: &mut Vec<Segment>, sent_ns: u64, now_ns: u64) -> Self {
        let mut receiver = Self {
            state: State::SynReceived,
            retries: 0,
            delayed: 0,
            syn_tries: 0,
            next: 1,
            fin_seq: None,
            acked: 0,
            echo_ns: sent_ns,
            beyond: Ranges::default(),
            sack: Vec::new(),
            delayed_due_ns: NEVER,
            resend_due_ns: NEVER,
            last_ack_due_ns: NEVER,
            marked: false,
        };
        receiver.answer_syn(segments, now_ns);
        receiver
    }

    pub(crate) fn closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether it repeats its answer to a SYN.
    pub(crate) fn answers(&self) -> bool {
        self.state == State::SynReceived
    }

    /// Returns the time of the next call of [`Receiver::wake`].
    pub(crate) fn due_ns(&self) -> u64 {
        self.delayed_due_ns.min(self.resend_due_ns).min(self.last_ack_due_ns)
    }

    /// A segment arrived. Returns whether it counts as received: data that is wholly old does not,
    /// nor a reset, which no connection has sent.
    pub(crate) fn receive(
        &mut self,
        segments: &mut Vec<Segment>,
        segment: &Segment,
        sent_ns: u64,
        now_ns: u64,
    ) -> bool {
        let [syn, fin, rst] =
            [flag::SYN, flag::FIN, flag::RST].map(|flag| segment.flags & flag != 0);
        if segment.payload > 0 && self.out_of_range(segment) {
            self.acknowledge(segments);
            return false;
        }
        if segment.seq == self.next && segment.seq <= self.acked {
            self.echo_ns = sent_ns;
        }
        match self.state {
            _ if rst => self.close(),
            State::SynReceived if syn => self.answer_syn(segments, now_ns),
            State::SynReceived if fin && segment.seq == self.next => {
                self.establish();
                self.finish(segments, segment, now_ns);
            }
            State::SynReceived if fin => {}
            State::SynReceived if segment.ack == 1 => {
                self.establish();
                // The first data is acknowledged at once.
                self.delayed = DELAYED_ACK_SEGMENTS;
                self.data_if_any(segments, segment, now_ns);
            }
            // The end of a connection that is gone reached one that a late SYN has opened.
            State::SynReceived => self.reset(segments),
            State::Established if fin => self.finish(segments, segment, now_ns),
            State::Established if syn => {}
            // An acknowledgment of what was never sent.
            State::Established if segment.ack > 1 => self.acknowledge(segments),
            State::Established => self.data_if_any(segments, segment, now_ns),
            State::LastAck if syn => self.reset(segments),
            State::LastAck if fin || segment.seq == self.next => self.close(),
            State::LastAck | State::Closed => {}
        }
        !rst
    }

    /// Processes an expired timer.
    pub(crate) fn wake(&mut self, segments: &mut Vec<Segment>, now_ns: u64) {
        if self.delayed_due_ns <= now_ns {
            self.acknowledge(segments);
        }
        if self.resend_due_ns <= now_ns {
            self.resend_due_ns = NEVER;
            match self.state {
                State::SynReceived => self.answer_syn(segments, now_ns),
                State::LastAck => {
                    self.send(segments, flag::FIN | flag::ACK);
                    self.resend_due_ns = now_ns + RTO_MIN_NS;
                }
                State::Established | State::Closed => {}
            }
        }
        if self.last_ack_due_ns <= now_ns {
            self.last_ack_due_ns = NEVER;
            if self.retries == 0 {
                self.close();
            } else {
                self.retries -= 1;
                self.send(segments, flag::FIN | flag::ACK);
                self.last_ack_due_ns = now_ns + RTO_MIN_NS;
            }
        }
    }

    fn out_of_range(&self, segment: &Segment) -> bool {
        match self.state {
            State::SynReceived => false,
            State::LastAck => segment.seq != self.next,
            State::Closed => false,
            State::Established => {
                let limit = self.fin_seq.unwrap_or(self.next.saturating_add(RECEIVE_WINDOW_BYTES));
                segment.seq + u32::from(segment.payload) < self.next || limit <= segment.seq
            }
        }
    }

    fn answer_syn(&mut self, segments: &mut Vec<Segment>, now_ns: u64) {
        let timeout_ns = SYN_TIMEOUT_NS << self.syn_tries.min(SYN_DOUBLINGS_MAX);
        self.syn_tries += 1;
        self.send(segments, flag::SYN | flag::ACK);
        if self.resend_due_ns == NEVER {
            self.resend_due_ns = now_ns + timeout_ns;
        }
    }

    fn establish(&mut self) {
        self.state = State::Established;
        self.resend_due_ns = NEVER;
    }

    fn reset(&mut self, segments: &mut Vec<Segment>) {
        self.send(segments, flag::RST);
        self.close();
    }

    fn close(&mut self) {
        self.state = State::Closed;
        (self.delayed_due_ns, self.resend_due_ns, self.last_ack_due_ns) = (NEVER, NEVER, NEVER);
    }

    /// A FIN, perhaps with data, perhaps before its time.
    fn finish(&mut self, segments: &mut Vec<Segment>, segment: &Segment, now_ns: u64) {
        if segment.seq < self.next {
            return;
        }
        let fin_seq = segment.seq + u32::from(segment.payload);
        self.fin_seq = Some(fin_seq);
        if segment.payload > 0 {
            self.data(segments, segment, now_ns);
        } else if self.next == fin_seq {
            self.next += 1;
        }
        self.close_if_finished(segments, now_ns);
    }

    fn finished(&self) -> bool {
        self.fin_seq.is_some_and(|fin| fin < self.next)
    }

    fn close_if_finished(&mut self, segments: &mut Vec<Segment>, now_ns: u64) {
        if self.state != State::Established || !self.finished() {
            return;
        }
        self.state = State::LastAck;
        self.retries = RETRIES_MAX;
        self.send(segments, flag::FIN | flag::ACK);
        self.resend_due_ns = now_ns + RTO_MIN_NS;
        self.last_ack_due_ns = now_ns + RTO_MIN_NS;
    }

    fn data_if_any(&mut self, segments: &mut Vec<Segment>, segment: &Segment, now_ns: u64) {
        if segment.payload > 0 {
            self.data(segments, segment, now_ns);
        }
    }

    fn data(&mut self, segments: &mut Vec<Segment>, segment: &Segment, now_ns: u64) {
        let marked = segment.flags & flag::CONGESTED != 0;
        if marked != self.marked {
            self.acknowledge_before_change(segments);
            self.marked = marked;
        }
        let expected = self.next;
        let end = segment.seq + u32::from(segment.payload);
        if !self.store(segment.seq, end) {
            self.acknowledge(segments);
            return;
        }
        let fin_here = segment.flags & flag::FIN != 0;
        if self.next > expected && self.finished() && !fin_here {
            self.close_if_finished(segments, now_ns);
            return;
        }
        let filled = self.next > expected.saturating_add(u32::from(segment.payload));
        self.delayed += 1;
        if !self.beyond.is_empty() || filled || self.delayed >= DELAYED_ACK_SEGMENTS {
            self.acknowledge(segments);
        } else if self.delayed_due_ns == NEVER {
            self.delayed_due_ns = now_ns + DELAYED_ACK_NS;
        }
    }

    /// Stores `from..to`; returns whether any byte was new.
    fn store(&mut self, from: u32, to: u32) -> bool {
        let from = from.max(self.next);
        if from >= to {
            return false;
        }
        if from > self.next {
            if self.beyond.insert(from, to) == 0 {
                return false;
            }
            self.remember_block(from, to);
            return true;
        }
        self.next = to;
        while let Some(end) = self.beyond.take_first(self.next) {
            self.next = self.next.max(end);
        }
        let next = self.next;
        self.sack.retain(|block| block.1 > next);
        if self.fin_seq == Some(self.next) {
            self.next += 1;
        }
        true
    }

    /// RFC 2018, section 4: the block of the latest segment comes first.
    fn remember_block(&mut self, from: u32, to: u32) {
        let mut block = (from, to);
        let mut place = 0;
        while place < self.sack.len() {
            let other = self.sack[place];
            if other.1 == block.0 || block.1 == other.0 {
                block = (block.0.min(other.0), block.1.max(other.1));
                self.sack.remove(place);
                place = 0;
            } else {
                place += 1;
            }
        }
        self.sack.insert(0, block);
        self.sack.truncate(SACK_LIST);
    }

    /// DCTCP: an acknowledgment held back belongs to packets marked as before.
    fn acknowledge_before_change(&mut self, segments: &mut Vec<Segment>) {
        if self.delayed_due_ns != NEVER {
            self.acknowledge(segments);
        }
    }

    fn acknowledge(&mut self, segments: &mut Vec<Segment>) {
        self.send(segments, flag::ACK);
    }

    fn send(&mut self, segments: &mut Vec<Segment>, flags: u8) {
        self.delayed = 0;
        self.delayed_due_ns = NEVER;
        self.acked = self.acked.max(self.next);
        let mut segment = Segment {
            seq: u32::from(flags & flag::SYN == 0)
                + u32::from(self.state == State::LastAck && flags & flag::FIN == 0),
            ack: self.next,
            flags: flags | flag::REVERSE | if self.marked { flag::ECHO } else { 0 },
            echo: self.echo_ns as u32,
            ..Segment::default()
        };
        let blocks = self.sack.len().min(SACK_BLOCKS);
        segment.sack[..blocks].copy_from_slice(&self.sack[..blocks]);
        segment.sack_count = blocks as u8;
        segments.push(segment);
    }
}
