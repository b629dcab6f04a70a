//! SwitchV2P in the kernel's data plane: a switch that resolves virtual addresses on their way to a
//! gateway.
//!
//! The decisions are those of [`policy::v2p`]: `bpf/v2p/rules.h` states them in C, function by
//! function, and `tests/v2p_switch_is_the_policys.rs` holds every step of one against the other.
//! The bits by which a program knows its role and rules ([`rules`]) and the hash of an address are
//! generated, not written twice.
//!
//! **Read first:** [`packet`], what is on the wire (`docs/protocols/switchv2p.md`); then [`plane`].

pub mod attached;
pub mod bits;
pub mod config;
pub mod end;
pub mod explain;
pub mod measure;
pub mod packet;
pub mod plane;
pub mod rules;
pub mod saved;
