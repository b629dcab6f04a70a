//! The client's end: sends, retransmits, closes with its last data.
//!
//! Sequence numbers: SYN is 0, data 1 to `end`, FIN `end`. Bytes below `lost_end` that are not
//! selectively acknowledged are lost; those of them below `resend` have been retransmitted.

mod acknowledgment;
mod transmission;

use super::{
    Control, NEVER, RETRIES_MAX, SYN_DOUBLINGS_MAX, SYN_TIMEOUT_NS, TIME_WAIT_NS, Tuning,
    control::Window, ranges::Ranges, rtt::Rtt,
};
use crate::packet::{Segment, flag};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    SynSent,
    Established,
    FinWait1,
    FinWait2,
    TimeWait,
    /// Gave up, or dropped the connection: segments are not accepted.
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
    /// Bytes that were retransmitted and are not acknowledged.
    resent: Ranges,
    rate: Reduction,
    timer_due_ns: u64,
    /// The handshake has ended, and the application is not notified yet.
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

    /// Returns the sender of a connection that closed not long ago.
    pub(crate) fn gone(tuning: &Tuning, now_ns: u64) -> Self {
        let mut sender = Self::new(State::TimeWait, 0, tuning);
        sender.timer_due_ns = now_ns + TIME_WAIT_NS;
        sender
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

    /// It gave up, or forgot.
    pub(crate) fn dropped(&self) -> bool {
        self.state == State::Dropped
    }

    /// Every byte was acknowledged.
    pub(crate) fn completed(&self) -> bool {
        self.una >= self.end
    }

    /// Returns the time of the next call of [`Sender::wake`].
    pub(crate) fn due_ns(&self) -> u64 {
        self.timer_due_ns
    }

    /// Whether to notify the application that it may write; true once.
    pub(crate) fn take_connected(&mut self) -> bool {
        std::mem::take(&mut self.connected)
    }

    /// The application has written everything.
    pub(crate) fn write(&mut self, segments: &mut Vec<Segment>, now_ns: u64) {
        self.send_pending(segments, now_ns);
    }

    /// A segment from the server arrived. `false`: the connection no longer exists.
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
            self.timer_due_ns = now_ns + TIME_WAIT_NS;
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

    /// Processes an expired timer.
    pub(crate) fn wake(&mut self, segments: &mut Vec<Segment>, now_ns: u64) {
        if self.timer_due_ns <= now_ns {
            self.timer_due_ns = NEVER;
            match self.state {
                State::SynSent => self.send_syn(segments, now_ns),
                State::Established | State::FinWait1 | State::FinWait2 => {
                    self.time_out(segments, now_ns);
                }
                State::TimeWait => self.state = State::Dropped,
                State::Dropped => {}
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
}
