//! Kernel receive times of datagrams: the length of an emulated queue follows from the arrival
//! times, not from when the thread that emulates all 128 servers runs.
#![allow(unsafe_code)]

use std::{net::UdpSocket, time::Duration};

use rustix::{
    ioctl::{Getter, Opcode, ioctl},
    time::{ClockId, clock_gettime},
};

use super::now;

/// Arrival time of the datagram read last, by the clock of [`now`]; unknown for the first one.
pub(super) fn last(socket: &UdpSocket) -> Duration {
    // SIOCGSTAMPNS of linux/sockios.h.
    const STAMP: Opcode = 0x8907;
    let now = now();
    // SAFETY: this request fills in one `timespec`.
    let stamp = unsafe { ioctl(socket, Getter::<STAMP, libc::timespec>::new()) };
    let Ok(stamp) = stamp else { return now };
    // The timestamp is of another clock.
    let clock = clock_gettime(ClockId::Realtime);
    let ago_ns = (clock.tv_sec - stamp.tv_sec) * 1_000_000_000 + clock.tv_nsec - stamp.tv_nsec;
    now.saturating_sub(Duration::from_nanos(ago_ns.max(0) as u64))
}
