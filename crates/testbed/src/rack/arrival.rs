//! When the kernel received a datagram: a queue of the rack's is as long as its arrivals make it,
//! not as the thread that plays all 128 happens to run.
#![allow(unsafe_code)]

use std::{net::UdpSocket, time::Duration};

use rustix::{
    ioctl::{Getter, Opcode, ioctl},
    time::{ClockId, clock_gettime},
};

use super::now;

/// When the datagram read last arrived, by [`now`]'s clock; the first one read is not known.
pub(super) fn last(socket: &UdpSocket) -> Duration {
    // SIOCGSTAMPNS of linux/sockios.h.
    const STAMP: Opcode = 0x8907;
    let now = now();
    // SAFETY: this request fills in one `timespec`.
    let stamp = unsafe { ioctl(socket, Getter::<STAMP, libc::timespec>::new()) };
    let Ok(stamp) = stamp else { return now };
    // The stamp is by another clock.
    let clock = clock_gettime(ClockId::Realtime);
    let ago_ns = (clock.tv_sec - stamp.tv_sec) * 1_000_000_000 + clock.tv_nsec - stamp.tv_nsec;
    now.saturating_sub(Duration::from_nanos(ago_ns.max(0) as u64))
}
