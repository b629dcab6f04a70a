//! An emulated network path: delay, jitter, loss, bandwidth and cuts.
//!
//! A path is emulated at one of two levels:
//!
//! - [`Relay`] passes on TCP connections; it needs no rights and works with any client. Loss on a
//!   byte stream is emulated as the time its retransmission costs.
//! - [`Tunnel`] passes on packets between two network namespaces; it needs root. Handshakes,
//!   slow start and retransmissions are then the kernel's own.
//!
//! Both use the same [`Schedule`] for the time at which data leaves the path. It reads no clock, so
//! tests run it under virtual time, and the seed reproduces a run.
//!
//! It is not: a model of congestion between flows beyond one shared bottleneck with one queue.
//!
//! Read first: `schedule.rs`, then `relay/worker.rs`.

mod control;
mod cuts;
mod handle;
mod relay;
mod schedule;
mod stats;
mod tunnel;

pub use cuts::Cuts;
pub use handle::LinkHandle;
pub use relay::{Relay, RelayConfig, RelayHandle};
pub use schedule::{Fate, Order, PathConfig, Schedule};
pub use stats::{DirectionStats, LinkStats};
pub use tunnel::{Address, Tunnel, TunnelConfig, TunnelEnd};
