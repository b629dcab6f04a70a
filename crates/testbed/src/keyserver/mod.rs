//! Measurements of the key server: its throughput and latency over the network ([`load`]), and
//! what its operations cost one core ([`speed`]).

pub mod load;
pub mod speed;
