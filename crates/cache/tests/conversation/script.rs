//! The `config` lines of a conversation.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use cache::{
    rules::{LiveRules, Rules},
    session,
    storage::{self, Population},
};

/// The words of a script's `config` line.
#[derive(Debug, Default)]
pub(crate) struct Config(BTreeMap<String, String>);

impl Config {
    /// The words of all `config` lines among `steps`.
    pub(super) fn of(steps: &[(usize, String)]) -> Self {
        let lines = steps.iter().filter_map(|(_, step)| step.strip_prefix("config "));
        let words = lines.flat_map(str::split_whitespace).filter_map(|word| word.split_once('='));
        Self(words.map(|(name, word)| (name.to_owned(), word.to_owned())).collect())
    }

    pub(crate) fn word(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.word(name).map(|word| word.parse().unwrap_or_else(|_| panic!("{name}={word}")))
    }

    pub(super) fn storage(&self) -> storage::Config {
        let population = match self.word("population") {
            None | Some("on-miss") => Population::OnMiss,
            Some("on-write") => Population::OnWrite,
            Some(other) => panic!("population={other}"),
        };
        let observe = self.word("observe") == Some("on");
        let mut config = storage::Config { population, observe, ..storage::Config::default() };
        if let Some(bytes) = self.number("value-bytes-max") {
            config.memory.value_bytes_max = bytes;
        }
        config.quarantine =
            self.number("quarantine").map_or(config.quarantine, Duration::from_secs);
        config
    }

    pub(crate) fn rules(&self) -> Arc<LiveRules> {
        let mut rules = Rules::default();
        rules.exclude.extend(self.word("exclude").map(Into::into));
        rules.ttl = self.number("ttl").map_or(rules.ttl, Duration::from_secs);
        Arc::new(rules.into())
    }

    pub(super) fn session(&self) -> session::Config {
        let mut config = session::Config::default();
        let places = [
            ("pipeline-max", &mut config.pipeline_max),
            ("buffered-bytes-max", &mut config.buffered_bytes_max),
            ("captured-bytes-max", &mut config.captured_bytes_max),
            ("withheld-bytes-max", &mut config.withheld_bytes_max),
            ("held-writes-max", &mut config.held_writes_max),
            ("request-held-bytes-max", &mut config.request_held_bytes_max),
            ("stranger-held-bytes-max", &mut config.stranger_held_bytes_max),
        ];
        for (name, place) in places {
            *place = self.number(name).unwrap_or(*place);
        }
        config.verify = self.number("verify").and_then(session::Verify::share).map(Arc::new);
        let lease = self.number("authorization-lease").unwrap_or(1_000_000);
        config.authorization_lease = Duration::from_secs(lease);
        config
    }
}
