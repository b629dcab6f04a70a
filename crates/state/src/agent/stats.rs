//! Latencies of an agent's commands: one writer, the thread of the agent.

use telemetry::Latencies;

/// Latencies since the start. Commands about the connection, and refusals, are not counted.
#[derive(Debug, Default)]
pub struct Stats {
    /// From reading a command until its answer from a copy was written.
    pub copies: Latencies,
    /// From reading a command until the nodes have answered it; without commands that may block.
    pub nodes: Latencies,
}
