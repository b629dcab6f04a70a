//! The compiled programs, where there was a compiler.

/// `None` in a build without a compiler.
macro_rules! programs {
    ($($(#[$documented:meta])* $name:ident = $file:literal;)*) => {$(
        $(#[$documented])*
        #[cfg(data_plane)]
        pub const $name: Option<&[u8]> =
            Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/", $file)));

        $(#[$documented])*
        #[cfg(not(data_plane))]
        pub const $name: Option<&[u8]> = None;
    )*};
}

programs! {
    /// The data plane.
    SWITCH = "switch.bpf.o";
    /// The smallest responder, to measure against.
    SMALLEST = "smallest.bpf.o";
    /// Runs a program repeatedly, for measurements.
    AGAIN = "again.bpf.o";
    /// Asks and counts answers, for measurements.
    FLOOD = "flood.bpf.o";
    /// A SwitchV2P switch.
    V2P = "v2p.bpf.o";
    /// A gateway or server of SwitchV2P's overlay.
    V2P_END = "v2pend.bpf.o";
    /// The smallest forwarders, to measure against.
    V2P_FLOOR = "v2pfloor.bpf.o";
}
