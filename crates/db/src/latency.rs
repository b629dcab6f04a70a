//! Latency of commands, for people: one writer, the thread that executes them.

use telemetry::Latencies;

/// Latency of the commands that one thread executes, by what they waited for.
#[derive(Debug, Default)]
pub struct CommandLatencies {
    /// From reading a command until its answer was written, of those that were executed at once.
    pub prompt: Latencies,
    /// From the first attempt until execution, of those that waited for the disk: for values, or
    /// until it had caught up with writes.
    pub disk: Latencies,
    /// The same of those that go through all keys in parts, such as KEYS and FLUSHALL.
    pub parts: Latencies,
}
