//! Load: the keys that are read, the end of the load, and the latencies.
//!
//! - [`Load`]: reads of random keys, each after the answer of the last; a seed repeats the
//!   sequence.
//! - [`Recorder`]: latencies, rate and hit ratio of the reads so far.
//!
//! It implements no protocol: a read is a closure.
//!
//! Read first: `load.rs`.

mod load;
mod recorder;

pub use load::Load;
pub use recorder::{Outcome, Recorder, Summary};
