//! The compiled programs, where there was a compiler.

/// The data plane.
#[cfg(data_plane)]
pub const SWITCH: Option<&[u8]> =
    Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/switch.bpf.o")));

/// The smallest responder, to measure against.
#[cfg(data_plane)]
pub const SMALLEST: Option<&[u8]> =
    Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/smallest.bpf.o")));

/// The data plane.
#[cfg(not(data_plane))]
pub const SWITCH: Option<&[u8]> = None;

/// The smallest responder, to measure against.
#[cfg(not(data_plane))]
pub const SMALLEST: Option<&[u8]> = None;

/// Runs a program repeatedly, for measurements.
#[cfg(data_plane)]
pub const AGAIN: Option<&[u8]> =
    Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/again.bpf.o")));

/// Runs a program repeatedly, for measurements.
#[cfg(not(data_plane))]
pub const AGAIN: Option<&[u8]> = None;

/// Asks and counts answers, for measurements.
#[cfg(data_plane)]
pub const FLOOD: Option<&[u8]> =
    Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/flood.bpf.o")));

/// Asks and counts answers, for measurements.
#[cfg(not(data_plane))]
pub const FLOOD: Option<&[u8]> = None;

/// A SwitchV2P switch.
#[cfg(data_plane)]
pub const V2P: Option<&[u8]> =
    Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/v2p.bpf.o")));

/// A SwitchV2P switch.
#[cfg(not(data_plane))]
pub const V2P: Option<&[u8]> = None;

/// A gateway or server of SwitchV2P's overlay.
#[cfg(data_plane)]
pub const V2P_END: Option<&[u8]> =
    Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/v2pend.bpf.o")));

/// A gateway or server of SwitchV2P's overlay.
#[cfg(not(data_plane))]
pub const V2P_END: Option<&[u8]> = None;

/// The smallest forwarders, to measure against.
#[cfg(data_plane)]
pub const V2P_FLOOR: Option<&[u8]> =
    Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/v2pfloor.bpf.o")));

/// The smallest forwarders, to measure against.
#[cfg(not(data_plane))]
pub const V2P_FLOOR: Option<&[u8]> = None;
