//! What is monitored, and how often.

use std::time::Duration;

/// A login: user (none for the default user) and password.
pub type Login = (Option<String>, String);

/// What is monitored, and how often.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of the primary at the Sentinels.
    pub name: String,
    /// The Sentinels, each `host:port`.
    pub sentinels: Vec<String>,
    /// Logs in at the Sentinels.
    pub login: Option<Login>,
    /// Logs in at the nodes, to ask for their role.
    pub node_login: Option<Login>,
    /// Interval of requests to each Sentinel, and to the primary for its role.
    pub poll_interval: Duration,
    /// The same for [`Self::hurry_time`] after a change was reported or a Sentinel changed its
    /// answer.
    pub hurry_interval: Duration,
    /// See [`Self::hurry_interval`].
    pub hurry_time: Duration,
    /// Time without a reply after which a connection is closed.
    pub silence_max: Duration,
    /// Pause before a connection is made again; it doubles up to [`Self::retry_max`].
    pub retry: Duration,
    /// Longest such pause.
    pub retry_max: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: String::new(),
            sentinels: Vec::new(),
            login: None,
            node_login: None,
            poll_interval: Duration::from_secs(1),
            hurry_interval: Duration::from_millis(100),
            hurry_time: Duration::from_secs(10),
            silence_max: Duration::from_secs(5),
            retry: Duration::from_millis(250),
            retry_max: Duration::from_secs(5),
        }
    }
}
