//! Kernel receive times of datagrams: the length of an emulated queue follows from the arrival
//! times, not from when the thread that emulates all 128 servers runs.
#![allow(unsafe_code)]

use std::{net::UdpSocket, time::Duration};

use rustix::ioctl::{Getter, Opcode, ioctl};

use crate::clock::{now, wall};

/// Arrival time of the datagram read last, by the clock of [`now`]; unknown for the first one.
pub(super) fn last(socket: &UdpSocket) -> Duration {
    // SIOCGSTAMPNS of linux/sockios.h.
    const STAMP: Opcode = 0x8907;
    let now = now();
    // SAFETY: this request fills in one `timespec`.
    let stamp = unsafe { ioctl(socket, Getter::<STAMP, libc::timespec>::new()) };
    let Ok(stamp) = stamp else { return now };
    // The timestamp is of another clock.
    let arrived = Duration::new(stamp.tv_sec as u64, stamp.tv_nsec as u32);
    now.saturating_sub(wall().saturating_sub(arrived))
}
