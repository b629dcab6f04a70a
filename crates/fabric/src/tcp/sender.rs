//! The client's end: sends, retransmits, closes with its last data.
//!
//! Sequence numbers: SYN is 0, data 1 to `end`, FIN `end`. What was sent below `lost_end` and not
//! selectively acknowledged is lost; of that, what lies below `resend` has been sent again.

use super::{
    Control, MSS, NEVER, RECEIVE_WINDOW_BYTES, RETRIES_MAX, SYN_DOUBLINGS_MAX, SYN_TIMEOUT_NS,
    Tuning, control::Window, ranges::Ranges, rtt::Rtt,
};
use crate::packet::{Segment, flag};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    SynSent,
    Established,
    FinWait1,
    FinWait2,
    TimeWait,
    /// Gave up.
    Dropped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Congestion {
    Open,
    Disorder,
    Recovery,
    Loss,
}

#[derive(Debug, Clone)]
pub(crate) struct Sender {
    state: State,
    congestion: Congestion,
    retries: u8,
    recovering: bool,
    syn_tries: u32,
    end: u32,
    una: u32,
    high: u32,
    lost_end: u32,
    resend: u32,
    recover: u32,
    duplicates: u32,
    /// Segments from here on may measure the round trip.
    measured_from: u32,
    unprocessed_bytes: u32,
    server_next: u32,
    window: Window,
    control: Control,
    rtt: Rtt,
    sacked: Ranges,
    /// What was sent again and is not acknowledged.
    resent: Ranges,
    rate: Reduction,
    timer_due_ns: u64,
    /// The handshake is over, and the application does not know yet.
    connected: bool,
}

/// Proportional rate reduction while recovering (RFC 6937).
#[derive(Debug, Clone, Copy, Default)]
struct Reduction {
    delivered: u32,
    out: u32,
    flight: u32,
}

impl Sender {
    /// Opens a connection that is to carry `bytes`.
    pub(crate) fn connect(
        segments: &mut Vec<Segment>,
        bytes: u32,
        tuning: &Tuning,
        now_ns: u64,
    ) -> Self {
        let mut sender = Self::new(State::SynSent, 1 + bytes, tuning);
        sender.send_syn(segments, now_ns);
        sender
    }

    /// One that closed long ago.
    pub(crate) fn gone(tuning: &Tuning) -> Self {
        Self::new(State::TimeWait, 0, tuning)
    }

    fn new(state: State, end: u32, tuning: &Tuning) -> Self {
        Self {
            state,
            congestion: Congestion::Open,
            retries: RETRIES_MAX,
            recovering: false,
            syn_tries: 0,
            end,
            una: 0,
            high: 0,
            lost_end: 0,
            resend: 0,
            recover: 0,
            duplicates: 0,
            measured_from: 0,
            unprocessed_bytes: 0,
            server_next: 0,
            window: Window::initial(),
            control: Control::new(tuning.dctcp),
            rtt: Rtt::new(),
            sacked: Ranges::default(),
            resent: Ranges::default(),
            rate: Reduction::default(),
            timer_due_ns: NEVER,
            connected: false,
        }
    }

    /// Everything was acknowledged and the server has closed.
    pub(crate) fn closed(&self) -> bool {
        matches!(self.state, State::TimeWait | State::Dropped)
    }

    /// It gave up.
    pub(crate) fn dropped(&self) -> bool {
        self.state == State::Dropped
    }

    /// Every byte was acknowledged.
    pub(crate) fn completed(&self) -> bool {
        self.una >= self.end
    }

    /// When [`Sender::wake`] is wanted.
    pub(crate) fn due_ns(&self) -> u64 {
        self.timer_due_ns
    }

    /// Whether the application is to be told that it may write; true once.
    pub(crate) fn take_connected(&mut self) -> bool {
        std::mem::take(&mut self.connected)
    }

    /// The application has written everything.
    pub(crate) fn write(&mut self, segments: &mut Vec<Segment>, now_ns: u64) {
        self.send_pending(segments, now_ns);
    }

    /// A segment from the server arrived. `false`: nobody is left to take it.
    pub(crate) fn receive(
        &mut self,
        segments: &mut Vec<Segment>,
        segment: &Segment,
        tuning: &Tuning,
        now_ns: u64,
    ) -> bool {
        let reset = segment.flags & flag::RST != 0;
        if self.state == State::Dropped {
            if !reset {
                segments.push(Segment { flags: flag::RST, ..Segment::default() });
            }
            return false;
        }
        if reset {
            self.drop_unless_over();
            return true;
        }
        if segment.flags & flag::SYN != 0 {
            self.receive_syn_ack(segments, segment, tuning, now_ns);
            return true;
        }
        if matches!(self.state, State::SynSent | State::TimeWait) {
            return true;
        }
        self.measure(segment, tuning, now_ns);
        self.receive_ack(segments, segment, tuning, now_ns);
        let closing = segment.ack == self.end + 1;
        if self.state == State::FinWait1 && closing {
            self.state = State::FinWait2;
        }
        if segment.flags & flag::FIN != 0 && self.state == State::FinWait2 {
            self.server_next = segment.seq + 1;
            self.state = State::TimeWait;
            self.timer_due_ns = NEVER;
            self.send_ack(segments);
        }
        true
    }

    /// The server knows no such connection.
    fn drop_unless_over(&mut self) {
        if self.state != State::TimeWait {
            self.state = State::Dropped;
            self.timer_due_ns = NEVER;
        }
    }

    /// One of its times has come.
    pub(crate) fn wake(&mut self, segments: &mut Vec<Segment>, now_ns: u64) {
        if self.timer_due_ns <= now_ns {
            self.timer_due_ns = NEVER;
            match self.state {
                State::SynSent => self.send_syn(segments, now_ns),
                State::Established | State::FinWait1 | State::FinWait2 => {
                    self.time_out(segments, now_ns);
                }
                State::TimeWait | State::Dropped => {}
            }
        }
    }

    // The handshake.

    fn send_syn(&mut self, segments: &mut Vec<Segment>, now_ns: u64) {
        segments.push(Segment { flags: flag::SYN, ..Segment::default() });
        self.timer_due_ns = now_ns + (SYN_TIMEOUT_NS << self.syn_tries.min(SYN_DOUBLINGS_MAX));
        self.syn_tries += 1;
    }

    fn receive_syn_ack(
        &mut self,
        segments: &mut Vec<Segment>,
        segment: &Segment,
        tuning: &Tuning,
        now_ns: u64,
    ) {
        // Any SYN sets the window back, even a repeated one.
        self.window = Window::initial();
        if self.state != State::SynSent {
            return;
        }
        self.rtt.sample(segment.echoed_ns(now_ns), tuning.clock_ns, now_ns);
        self.state = State::Established;
        (self.una, self.high, self.server_next) = (1, 1, 1);
        (self.lost_end, self.resend, self.measured_from) = (1, 1, 1);
        self.timer_due_ns = NEVER;
        self.send_ack(segments);
        self.connected = true;
    }

    fn send_ack(&mut self, segments: &mut Vec<Segment>) {
        let seq = self.high.max(self.una);
        segments.push(Segment {
            flags: flag::ACK,
            seq,
            ack: self.server_next,
            ..Segment::default()
        });
        self.rtt.reset_timeout();
    }

    // Acknowledgments.

    fn measure(&mut self, segment: &Segment, tuning: &Tuning, now_ns: u64) {
        let front = self.measured_from.max(self.una);
        if front < self.high && segment.ack >= (front + MSS).min(self.end) {
            self.rtt.sample(segment.echoed_ns(now_ns), tuning.clock_ns, now_ns);
        }
    }

    fn receive_ack(
        &mut self,
        segments: &mut Vec<Segment>,
        segment: &Segment,
        tuning: &Tuning,
        now_ns: u64,
    ) {
        if self.state == State::Established && segment.ack < self.una {
            return;
        }
        let newly_sacked = self.note_blocks(segment);
        let before = self.una;
        if segment.ack < before {
            return;
        }
        let held = self.sacked.bytes_in(before, segment.ack);
        self.una = segment.ack;
        self.sacked.trim(self.una);
        self.resent.trim(self.una);
        let delivered = segment.ack - before - held + newly_sacked;
        let marked = segment.flags & flag::ECHO != 0;
        self.control.echo(&mut self.window, segment.ack - before, marked, segment.ack, self.high);
        if newly_sacked > 0 {
            self.duplicate(segments, delivered, tuning, now_ns);
        }
        if segment.ack == before {
            if segment.ack < self.high {
                self.control.acked(&mut self.window, self.rtt.mean_ns(), now_ns);
            }
        } else {
            self.advance(before, newly_sacked > 0, delivered, now_ns);
        }
        self.send_pending(segments, now_ns);
    }

    fn note_blocks(&mut self, segment: &Segment) -> u32 {
        let mut new = 0;
        for (from, to) in segment.sack.iter().take(usize::from(segment.sack_count)) {
            if *from > self.una && *to <= self.high {
                new += self.sacked.insert(*from, *to);
            }
        }
        new
    }

    /// An acknowledgment that shows data received beyond a gap.
    fn duplicate(
        &mut self,
        segments: &mut Vec<Segment>,
        delivered: u32,
        tuning: &Tuning,
        now_ns: u64,
    ) {
        if self.congestion == Congestion::Loss {
            return;
        }
        if self.congestion == Congestion::Recovery {
            self.mark_lost(tuning);
            self.reduce(delivered);
            return;
        }
        self.duplicates += 1;
        self.congestion = Congestion::Disorder;
        let may_recover = self.una >= self.recover || !self.recovering;
        let many = self.duplicates == tuning.duplicates_max && may_recover;
        if many || self.sacked.bytes_in(self.una, self.high) >= tuning.duplicates_max * MSS {
            self.enter_recovery(segments, delivered, tuning, now_ns);
        }
    }

    fn mark_lost(&mut self, tuning: &Tuning) {
        let below = self.sacked.below_held(tuning.duplicates_max * MSS);
        self.lost_end = self.lost_end.max(below.min(self.high));
    }

    fn enter_recovery(
        &mut self,
        segments: &mut Vec<Segment>,
        delivered: u32,
        tuning: &Tuning,
        now_ns: u64,
    ) {
        self.lost_end = (self.una + MSS).min(self.high);
        self.resend = self.una;
        self.resent = Ranges::default();
        self.mark_lost(tuning);
        self.recover = self.high;
        self.recovering = true;
        self.congestion = Congestion::Recovery;
        self.window.threshold = self.control.threshold_after_loss(&self.window);
        self.rate = Reduction { delivered: 0, out: 0, flight: self.flight().max(1) };
        self.reduce(delivered);
        let (from, to) = (self.una, (self.una + MSS).min(self.end));
        self.resend = to;
        self.resent.insert(from, to);
        self.send_data(segments, from, to - from, now_ns);
    }

    fn reduce(&mut self, delivered: u32) {
        if delivered == 0 {
            return;
        }
        self.rate.delivered += delivered;
        let (flight, threshold) = (i64::from(self.flight()), i64::from(self.window.threshold));
        let rate = &self.rate;
        let wanted = if flight > threshold {
            (i64::from(rate.delivered) * threshold + i64::from(rate.flight) - 1)
                / i64::from(rate.flight)
                - i64::from(rate.out)
        } else {
            let limit = (i64::from(rate.delivered) - i64::from(rate.out)).max(i64::from(delivered));
            (limit + i64::from(MSS)).min(threshold - flight)
        };
        let least = if rate.out > 0 { 0 } else { i64::from(MSS) };
        self.window.bytes = (flight + wanted.max(least)) as u32;
    }

    /// The acknowledgment moved on, from `before`.
    fn advance(&mut self, before: u32, duplicate: bool, delivered: u32, now_ns: u64) {
        let ack = self.una;
        let mut acked = (ack - before) / MSS;
        self.unprocessed_bytes += (ack - before) % MSS;
        if self.unprocessed_bytes >= MSS {
            acked += 1;
            self.unprocessed_bytes -= MSS;
        }
        let duplicates = self.duplicates;
        if !duplicate {
            self.duplicates = 0;
        }
        let rtt_ns = self.rtt.mean_ns();
        match self.congestion {
            Congestion::Recovery if ack < self.recover => {
                if acked >= 1 {
                    self.reduce(delivered);
                }
                self.lost_end = self.lost_end.max((ack + MSS).min(self.high));
                self.control.acked(&mut self.window, rtt_ns, now_ns);
                self.restart_timer(now_ns);
                return;
            }
            Congestion::Loss if ack < self.recover => {
                self.control.acked(&mut self.window, rtt_ns, now_ns);
                self.control.increase(&mut self.window, acked, ack, self.high, now_ns);
                self.restart_timer(now_ns);
                return;
            }
            Congestion::Open => self.control.acked(&mut self.window, rtt_ns, now_ns),
            Congestion::Disorder => {
                if acked >= duplicates {
                    self.control.acked(&mut self.window, rtt_ns, now_ns);
                }
                if !duplicate {
                    self.congestion = Congestion::Open;
                }
            }
            Congestion::Recovery => {
                acked = (ack - before) / MSS;
                self.control.acked(&mut self.window, rtt_ns, now_ns);
                self.congestion = Congestion::Open;
                self.duplicates = 0;
                self.window.bytes = self.window.threshold;
            }
            Congestion::Loss => {
                acked = (ack - self.recover) / MSS;
                self.control.acked(&mut self.window, rtt_ns, now_ns);
                self.congestion = Congestion::Open;
            }
        }
        if ack >= self.recover {
            self.recovering = false;
        }
        if self.congestion == Congestion::Open {
            self.control.increase(&mut self.window, acked, ack, self.high, now_ns);
            self.restart_timer(now_ns);
        }
    }

    fn restart_timer(&mut self, now_ns: u64) {
        self.retries = RETRIES_MAX;
        self.rtt.reset_timeout();
        let all_acknowledged = self.una >= self.end;
        self.timer_due_ns = if all_acknowledged { NEVER } else { now_ns + self.rtt.timeout_ns() };
    }

    // Sending.

    /// Bytes under way: sent, neither held nor thought lost, and what was sent again. As in the
    /// reference, that goes on to count when it is held beyond a gap.
    fn flight(&self) -> u32 {
        let from = self.lost_end.max(self.una);
        if from >= self.high {
            return self.resent.bytes();
        }
        self.high - from - self.sacked.bytes_in(from, self.high) + self.resent.bytes()
    }

    /// What to send next: lost data first.
    fn next_segment(&self) -> Option<(u32, u32)> {
        let from = self.resend.max(self.una);
        if from < self.lost_end {
            let (gap, gap_end) = self.sacked.gap(from);
            if gap < self.lost_end {
                return Some((gap, gap_end.min(self.lost_end).min(gap + MSS)));
            }
        }
        (self.high < self.end).then(|| (self.high, (self.high + MSS).min(self.end)))
    }

    fn send_pending(&mut self, segments: &mut Vec<Segment>, now_ns: u64) {
        if self.una >= self.end {
            return;
        }
        loop {
            let window = self.window.bytes.min(RECEIVE_WINDOW_BYTES);
            let room = window.saturating_sub(self.flight());
            if room == 0 || (self.congestion == Congestion::Open && self.state == State::FinWait1) {
                return;
            }
            let Some((from, to)) = self.next_segment() else { return };
            if room < MSS && self.end - from > room {
                return;
            }
            if from < self.high {
                self.resend = to;
                self.resent.insert(from, to);
            }
            self.send_data(segments, from, (to - from).min(room), now_ns);
        }
    }

    fn send_data(&mut self, segments: &mut Vec<Segment>, seq: u32, bytes: u32, now_ns: u64) {
        let last = seq + bytes == self.end;
        if last && self.state == State::Established {
            self.state = State::FinWait1;
        }
        let flags = flag::ACK | if last { flag::FIN } else { 0 };
        segments.push(Segment {
            flags,
            seq,
            ack: self.server_next,
            payload: bytes as u16,
            ..Segment::default()
        });
        if self.timer_due_ns == NEVER {
            self.timer_due_ns = now_ns + self.rtt.timeout_ns();
        }
        if self.congestion == Congestion::Recovery {
            self.rate.out += bytes;
        }
        self.high = self.high.max(seq + bytes);
    }

    /// Nothing was acknowledged for too long: all that is unheld is lost.
    fn time_out(&mut self, segments: &mut Vec<Segment>, now_ns: u64) {
        if self.una >= self.end {
            return;
        }
        if self.retries == 0 {
            self.state = State::Dropped;
            return;
        }
        self.retries -= 1;
        self.duplicates = 0;
        self.lost_end = self.high;
        self.resend = self.una;
        self.resent = Ranges::default();
        self.recover = self.high;
        self.recovering = true;
        self.rtt.double_timeout();
        self.measured_from = self.high;
        self.window.threshold = self.control.threshold_after_loss(&self.window);
        self.control.timed_out(self.high, now_ns);
        self.congestion = Congestion::Loss;
        self.window.bytes = MSS;
        self.send_pending(segments, now_ns);
    }
}
