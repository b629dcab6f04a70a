//! CUBIC with HyStart, with the arithmetic of ns-3.36.

use super::{MSS, control::Window};

const BETA: f64 = 0.7;
const C: f64 = 0.4;
const HYSTART_LOW_WINDOW: u32 = 16;
const HYSTART_SAMPLES: u8 = 8;
const HYSTART_ACK_DELTA_NS: u64 = 2_000_000;
const HYSTART_DELAY_MIN_NS: i64 = 4_000_000;
const HYSTART_DELAY_MAX_NS: i64 = 1_000_000_000;
/// Time after a loss for which delays are ignored.
const SETTLE_NS: u64 = 10_000_000;
/// Before any loss the window grows by one segment per this number of acknowledged ones.
const COUNT_CLAMP: u32 = 20;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cubic {
    count: u32,
    window_max: u32,
    origin: u32,
    k: f64,
    delay_min_ns: Option<i64>,
    epoch_start_ns: Option<u64>,
    found: bool,
    round_start_ns: u64,
    last_ack_ns: u64,
    end_seq: u32,
    round_rtt_ns: Option<i64>,
    samples: u8,
}

impl Cubic {
    pub(super) fn acked(&mut self, window: &mut Window, rtt_ns: i64, now_ns: u64) {
        if self.epoch_start_ns.is_some_and(|start| now_ns - start < SETTLE_NS) {
            return;
        }
        let delay_min_ns = self.delay_min_ns.map_or(rtt_ns, |least| least.min(rtt_ns));
        self.delay_min_ns = Some(delay_min_ns);
        if window.bytes <= window.threshold
            && window.bytes >= HYSTART_LOW_WINDOW * MSS
            && !self.found
        {
            self.look_for_end_of_slow_start(window, delay_min_ns, rtt_ns, now_ns);
        }
    }

    fn look_for_end_of_slow_start(
        &mut self,
        window: &mut Window,
        delay_min_ns: i64,
        rtt_ns: i64,
        now_ns: u64,
    ) {
        if now_ns - self.last_ack_ns <= HYSTART_ACK_DELTA_NS {
            self.last_ack_ns = now_ns;
            self.found |= (now_ns - self.round_start_ns) as i64 > delay_min_ns;
        }
        if self.samples < HYSTART_SAMPLES {
            self.round_rtt_ns = Some(self.round_rtt_ns.map_or(rtt_ns, |least| least.min(rtt_ns)));
            self.samples += 1;
        } else {
            let bound_ns =
                delay_min_ns + delay_min_ns.clamp(HYSTART_DELAY_MIN_NS, HYSTART_DELAY_MAX_NS);
            self.found |= self.round_rtt_ns.is_some_and(|rtt| rtt > bound_ns);
        }
        if self.found {
            window.threshold = window.bytes;
        }
    }

    /// `acked` is the highest byte acknowledged, `high` the highest sent.
    pub(super) fn increase(
        &mut self,
        window: &mut Window,
        segments: u32,
        acked: u32,
        high: u32,
        now_ns: u64,
    ) {
        let mut segments = segments;
        if window.bytes < window.threshold {
            if acked > self.end_seq {
                self.begin_round(high, now_ns);
            }
            window.bytes += segments * MSS;
            segments = 0;
        }
        if window.bytes >= window.threshold && segments > 0 {
            self.count += segments;
            let needed = self.segments_per_increase(window, now_ns);
            if self.count >= needed {
                window.bytes += MSS;
                self.count -= needed;
            }
        }
    }

    fn begin_round(&mut self, high: u32, now_ns: u64) {
        self.round_start_ns = now_ns;
        self.last_ack_ns = now_ns;
        self.end_seq = high;
        self.round_rtt_ns = None;
        self.samples = 0;
    }

    fn segments_per_increase(&mut self, window: &Window, now_ns: u64) -> u32 {
        let segments = window.bytes / MSS;
        let start_ns = *self.epoch_start_ns.get_or_insert_with(|| {
            if self.window_max <= segments {
                self.k = 0.0;
                self.origin = segments;
            } else {
                self.k = cube_root(f64::from(self.window_max - segments) / C);
                self.origin = self.window_max;
            }
            now_ns
        });
        let seconds = ((now_ns - start_ns) as i64 + self.delay_min_ns.unwrap_or(0)) as f64 / 1e9;
        let offset = (seconds - self.k).abs();
        let delta = (C * offset * offset * offset) as u32;
        let target = if seconds < self.k {
            self.origin.saturating_sub(delta)
        } else {
            self.origin.saturating_add(delta)
        };
        let needed =
            if target > segments { segments / (target - segments) } else { 100 * segments };
        let needed = if self.window_max == 0 { needed.min(COUNT_CLAMP) } else { needed };
        needed.max(2)
    }

    /// Returns the size that the window shrinks to after a loss.
    pub(super) fn threshold_after_loss(&mut self, window: &Window) -> u32 {
        let segments = window.bytes / MSS;
        self.window_max = if segments < self.window_max {
            (f64::from(segments) * (1.0 + BETA) / 2.0) as u32
        } else {
            segments
        };
        self.epoch_start_ns = None;
        ((f64::from(segments) * BETA) as u32).max(2) * MSS
    }

    pub(super) fn timed_out(&mut self, high: u32, now_ns: u64) {
        self.window_max = 0;
        self.origin = 0;
        self.k = 0.0;
        self.delay_min_ns = None;
        self.found = false;
        self.begin_round(high, now_ns);
    }
}

/// By Newton's method: the same bits on every machine, unlike a library's.
fn cube_root(value: f64) -> f64 {
    let mut root = value.max(1.0);
    for _ in 0..80 {
        root = (2.0 * root + value / (root * root)) / 3.0;
    }
    root
}
