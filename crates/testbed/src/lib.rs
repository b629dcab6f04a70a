//! # testbed: experiments with the services
//!
//! Emulated network paths.
//!
//! It is not: part of any service. It imports no service.
//!
//! Read first: [`link`].

// Allowed again in `link/tunnel/device.rs`.
#![deny(unsafe_code)]

pub mod link;
