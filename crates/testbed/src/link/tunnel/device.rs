//! TUN devices: made in a namespace, given an address, brought up.
//!
//! This file contains the `unsafe` calls of the tunnel. A device exists until its descriptor is
//! closed.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread;

use libc::{c_char, c_short, ifreq};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketType};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::TunnelEnd;

/// Queue length of the device, in packets; with the kernel's default of 500, a burst of a large
/// window is lost before it enters the path.
const DEVICE_QUEUE_PACKETS: i32 = 10_000;

/// Header before each packet: the kernel's checksum and segmentation metadata, passed on unchanged
/// (`struct virtio_net_hdr`).
pub(super) const HEADER_BYTES: usize = 10;

/// Makes the device of one end. `offload` lets the kernel hand over TCP packets of up to 64 KiB.
pub(super) fn open(end: &TunnelEnd, packet_bytes_max: u16, offload: bool) -> io::Result<OwnedFd> {
    // Only a thread may change its namespace, not the process, so this uses a separate thread.
    thread::scope(|scope| {
        let made = scope.spawn(|| {
            if let Some(namespace) = &end.namespace {
                enter(namespace)?;
            }
            make(end, packet_bytes_max, offload)
        });
        made.join().unwrap_or_else(|_| Err(io::Error::other("the thread that makes it panicked")))
    })
}

fn enter(namespace: &Path) -> io::Result<()> {
    let explain = |error: io::Error| {
        let text = format!("cannot enter the network namespace {}: {error}", namespace.display());
        io::Error::new(error.kind(), text)
    };
    let file = File::open(namespace).map_err(explain)?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| explain(error.into()))
}

fn make(end: &TunnelEnd, packet_bytes_max: u16, offload: bool) -> io::Result<OwnedFd> {
    let explain = |what: &str, error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => "; run as root, or use the relay without --tun",
            io::ErrorKind::NotFound => "; is the kernel module `tun` loaded?",
            _ => "",
        };
        io::Error::new(error.kind(), format!("cannot {what}: {error}{hint}"))
    };
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/net/tun", flags, Mode::empty())
        .map_err(|error| explain("open /dev/net/tun", error.into()))?;
    let name = create(&device, &end.device, offload)
        .map_err(|error| explain(&format!("make the device {}", end.device), error))?;
    configure(&name, end, packet_bytes_max)
        .map_err(|error| explain(&format!("set up the device {}", end.device), error))?;
    Ok(device)
}

/// Turns an open `/dev/net/tun` into a device, and returns a request with its name filled in.
fn create(device: &OwnedFd, name: &str, offload: bool) -> io::Result<ifreq> {
    let mut request = named(name)?;
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    request.ifr_ifru.ifru_flags = flags as c_short;
    ioctl(device.as_fd(), libc::TUNSETIFF, &mut request)?;
    let offloads = if offload {
        libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN
    } else {
        libc::TUN_F_CSUM
    };
    // SAFETY: this request takes a number, not a pointer; the descriptor is open.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(request) }
}

fn configure(name: &ifreq, end: &TunnelEnd, packet_bytes_max: u16) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let socket = socket.as_fd();
    let mask = u32::MAX.checked_shl(32 - u32::from(end.address.prefix_bits)).unwrap_or(0);
    let mut request = *name;
    request.ifr_ifru.ifru_addr = socket_address(end.address.ip);
    ioctl(socket, libc::SIOCSIFADDR as libc::Ioctl, &mut request)?;
    request.ifr_ifru.ifru_netmask = socket_address(Ipv4Addr::from(mask));
    ioctl(socket, libc::SIOCSIFNETMASK as libc::Ioctl, &mut request)?;
    request.ifr_ifru.ifru_mtu = i32::from(packet_bytes_max);
    ioctl(socket, libc::SIOCSIFMTU as libc::Ioctl, &mut request)?;
    // The queue's length has no field of its own in this union; it is an int, like `ifru_mtu`.
    request.ifr_ifru.ifru_mtu = DEVICE_QUEUE_PACKETS;
    ioctl(socket, libc::SIOCSIFTXQLEN as libc::Ioctl, &mut request)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as c_short;
    ioctl(socket, libc::SIOCSIFFLAGS as libc::Ioctl, &mut request)
}

fn named(name: &str) -> io::Result<ifreq> {
    // SAFETY: every field of `ifreq` is a number, an array or a union of such: zero is valid.
    let mut request: ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero: it terminates the name.
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains(['/', '\0']) {
        let text = "a device name has 1 to 15 bytes and no slash";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as c_char;
    }
    Ok(request)
}

fn socket_address(ip: Ipv4Addr) -> libc::sockaddr {
    let mut address =
        libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: [0; 14] };
    // As in `sockaddr_in`: two bytes of port, then the address in network order.
    for (place, byte) in address.sa_data[2..6].iter_mut().zip(ip.octets()) {
        *place = byte as c_char;
    }
    address
}

fn ioctl(descriptor: BorrowedFd<'_>, request: libc::Ioctl, value: &mut ifreq) -> io::Result<()> {
    // SAFETY: every request passed here takes a pointer to an `ifreq`, which `value` is, reads and
    // writes inside it only, and keeps no pointer to it. The descriptor is open.
    let result = unsafe { libc::ioctl(descriptor.as_raw_fd(), request, std::ptr::from_mut(value)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
