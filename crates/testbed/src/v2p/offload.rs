//! Checksums of packets that leave an interface, computed before they leave: a program at the other
//! end of a veth pair sees the packet before its driver would have computed them.
//!
//! This file contains the `unsafe` call.
#![allow(unsafe_code)]

use std::{io, os::fd::AsRawFd};

use anyhow::Context;
use libc::{c_char, ifreq};
use rustix::net::{AddressFamily, SocketType};

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const SET_TX_CHECKSUM: u32 = 0x17;

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Disables the offload of checksums, and of segmentation with it, of an interface in this thread's
/// namespace.
///
/// # Errors
/// There is no such interface, or the kernel refuses.
pub(super) fn disable(interface: &str) -> anyhow::Result<()> {
    let what = || format!("cannot disable the checksum offload of {interface}");
    let socket =
        rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).with_context(what)?;
    let mut value = Value { command: SET_TX_CHECKSUM, data: 0 };
    // SAFETY: zeroes are a valid `ifreq`.
    let mut request: ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(interface.bytes()) {
        *to = from as c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request names the interface and points to a value that outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error()).with_context(what);
    }
    Ok(())
}
