//! Load: which keys are asked for, how fast, and how long the answers took.
//!
//! `demo`, `bench` and the laboratory share these parts, so that their figures mean the same.
//!
//! - [`KeyChooser`]: the next key; a seed repeats the sequence.
//! - [`Turns`]: when the next operation starts; closed loop or open loop.
//! - [`drive`] and [`drive_threads`]: carry out the turns, asynchronously or on threads.
//! - [`Recorder`]: latencies, rates and hit ratio, in total and second by second.
//!
//! It is not: a client of any protocol. An operation is a closure.
//!
//! Read first: `turns.rs`, then `driver.rs`.

mod driver;
mod keys;
mod recorder;
mod turns;

pub use driver::{drive, drive_threads};
pub use keys::{KeyChooser, KeyDistribution};
pub use recorder::{Outcome, Recorder, Summary};
pub use turns::{Load, Pace, Turn, Turns};
