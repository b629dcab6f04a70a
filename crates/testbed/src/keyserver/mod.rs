//! Measurements of the key server: its throughput and latency over the network ([`load`]), and the
//! processor time of its operations ([`speed`]).

pub mod load;
pub mod speed;
