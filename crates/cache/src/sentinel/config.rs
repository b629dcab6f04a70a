//! What is monitored.

use crate::monitor::Pace;

/// A login: user (none for the default user) and password.
pub type Login = (Option<String>, String);

/// What is monitored.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Name of the primary at the Sentinels.
    pub name: String,
    /// The Sentinels, each `host:port`.
    pub sentinels: Vec<String>,
    /// Logs in at the Sentinels.
    pub login: Option<Login>,
    /// Logs in at the nodes, to ask for their role.
    pub node_login: Option<Login>,
    /// Intervals of the requests to each Sentinel, and to the primary for its role.
    pub pace: Pace,
}
