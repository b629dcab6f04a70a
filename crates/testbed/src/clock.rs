//! Clocks of the kernel.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The monotonic clock, which the data plane uses as well.
pub(crate) fn now() -> Duration {
    read(ClockId::Monotonic)
}

/// The wall clock, as time since the Unix epoch.
pub(crate) fn wall() -> Duration {
    read(ClockId::Realtime)
}

/// Processor time of this thread.
pub(crate) fn processor_time() -> Duration {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
