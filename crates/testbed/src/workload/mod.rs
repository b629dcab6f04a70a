//! Load: which keys are asked for, until when, and how long the answers took.
//!
//! - [`Load`]: reads of random keys, each waiting for the last; a seed repeats the sequence.
//! - [`Recorder`]: latencies, rate and hit ratio of what was read so far.
//!
//! It is not: a client of any protocol. A read is a closure.
//!
//! Read first: `load.rs`.

mod load;
mod recorder;

pub use load::Load;
pub use recorder::{Outcome, Recorder, Summary};
