//! Congestion control: each algorithm changes one window.

use super::{INITIAL_WINDOW, MSS, cubic::Cubic, dctcp::Dctcp};

/// The congestion window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub bytes: u32,
    /// Slow start ends here.
    pub threshold: u32,
}

impl Window {
    pub(super) fn initial() -> Self {
        Self { bytes: INITIAL_WINDOW * MSS, threshold: u32::MAX }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Control {
    Cubic(Cubic),
    Dctcp(Dctcp),
}

impl Control {
    pub(crate) fn new(dctcp: bool) -> Self {
        if dctcp { Self::Dctcp(Dctcp::new()) } else { Self::Cubic(Cubic::default()) }
    }

    pub(super) fn acked(&mut self, window: &mut Window, rtt_ns: i64, now_ns: u64) {
        if let Self::Cubic(cubic) = self {
            cubic.acked(window, rtt_ns, now_ns);
        }
    }

    pub(super) fn increase(
        &mut self,
        window: &mut Window,
        segments: u32,
        acked: u32,
        high: u32,
        now_ns: u64,
    ) {
        match self {
            Self::Cubic(cubic) => cubic.increase(window, segments, acked, high, now_ns),
            Self::Dctcp(dctcp) => dctcp.increase(window, segments),
        }
    }

    pub(super) fn echo(
        &mut self,
        window: &mut Window,
        bytes: u32,
        marked: bool,
        acked: u32,
        high: u32,
    ) {
        if let Self::Dctcp(dctcp) = self {
            dctcp.acknowledged(window, bytes, marked, acked, high);
        }
    }

    pub(super) fn threshold_after_loss(&mut self, window: &Window) -> u32 {
        match self {
            Self::Cubic(cubic) => cubic.threshold_after_loss(window),
            Self::Dctcp(_) => Dctcp::threshold_after_loss(window),
        }
    }

    pub(super) fn timed_out(&mut self, high: u32, now_ns: u64) {
        if let Self::Cubic(cubic) = self {
            cubic.timed_out(high, now_ns);
        }
    }
}
