//! Order of transmission: lost data first, up to the free part of the window; everything again
//! after a timeout.

use super::{Congestion, Sender, State};
use crate::{
    packet::{Segment, flag},
    tcp::{MSS, NEVER, RECEIVE_WINDOW_BYTES, ranges::Ranges},
};

impl Sender {
    /// Bytes in flight: sent, neither held nor considered lost, plus retransmitted bytes. As in the
    /// reference, the latter still count when they are held beyond a gap.
    pub(super) fn flight(&self) -> u32 {
        let from = self.lost_end.max(self.una);
        if from >= self.high {
            return self.resent.bytes();
        }
        self.high - from - self.sacked.bytes_in(from, self.high) + self.resent.bytes()
    }

    /// Returns the next range to send: lost data first.
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

    pub(super) fn send_pending(&mut self, segments: &mut Vec<Segment>, now_ns: u64) {
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

    pub(super) fn send_data(
        &mut self,
        segments: &mut Vec<Segment>,
        seq: u32,
        bytes: u32,
        now_ns: u64,
    ) {
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

    /// The retransmission timeout has expired: all bytes that are not held are lost.
    pub(super) fn time_out(&mut self, segments: &mut Vec<Segment>, now_ns: u64) {
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
