//! Processing of an acknowledgment: round trip, data held beyond a gap, losses.

use super::{Congestion, Reduction, Sender, State};
use crate::{
    packet::{Segment, flag},
    tcp::{MSS, NEVER, RETRIES_MAX, Tuning, ranges::Ranges},
};

impl Sender {
    pub(super) fn measure(&mut self, segment: &Segment, tuning: &Tuning, now_ns: u64) {
        let front = self.measured_from.max(self.una);
        if front < self.high && segment.ack >= (front + MSS).min(self.end) {
            self.rtt.sample(segment.echoed_ns(now_ns), tuning.clock_ns, now_ns);
        }
    }

    pub(super) fn receive_ack(
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
}
