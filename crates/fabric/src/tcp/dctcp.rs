//! DCTCP (Alizadeh et al., SIGCOMM 2010): slow down in proportion to how many packets were marked.

use super::{MSS, control::Window};

/// 1 in the arithmetic of `alpha`.
const ONE: u32 = 1024;
/// Weight of the newest window: one in 2^4.
const GAIN_SHIFT: u32 = 4;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Dctcp {
    alpha: u32,
    acked_bytes: u32,
    marked_bytes: u32,
    window_end: u32,
    reduced_until: u32,
    increase_bytes: u32,
}

impl Dctcp {
    pub(super) fn new() -> Self {
        let zero = 0;
        Self {
            alpha: ONE,
            acked_bytes: zero,
            marked_bytes: zero,
            window_end: zero,
            reduced_until: zero,
            increase_bytes: zero,
        }
    }

    /// `bytes` were newly acknowledged, up to `acked`, with or without the mark's echo.
    pub(super) fn acknowledged(
        &mut self,
        window: &mut Window,
        bytes: u32,
        marked: bool,
        acked: u32,
        high: u32,
    ) {
        self.acked_bytes += bytes;
        self.marked_bytes += if marked { bytes } else { 0 };
        if acked > self.window_end {
            let fraction = (u64::from(self.marked_bytes) * u64::from(ONE)
                / u64::from(self.acked_bytes.max(1))) as u32;
            self.alpha = self.alpha - (self.alpha >> GAIN_SHIFT) + (fraction >> GAIN_SHIFT);
            (self.acked_bytes, self.marked_bytes, self.window_end) = (0, 0, high);
        }
        if marked && acked > self.reduced_until {
            let cut = u64::from(window.bytes) * u64::from(self.alpha) / u64::from(2 * ONE);
            window.bytes = (window.bytes - cut as u32).max(2 * MSS);
            window.threshold = window.bytes;
            self.reduced_until = high;
        }
    }

    pub(super) fn increase(&mut self, window: &mut Window, segments: u32) {
        if window.bytes < window.threshold {
            window.bytes += segments * MSS;
            return;
        }
        self.increase_bytes += segments * MSS;
        if self.increase_bytes >= window.bytes {
            self.increase_bytes -= window.bytes;
            window.bytes += MSS;
        }
    }

    pub(super) fn threshold_after_loss(window: &Window) -> u32 {
        (window.bytes / 2).max(2 * MSS)
    }
}
