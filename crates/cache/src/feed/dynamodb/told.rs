//! Log lines about tables that are not cached.

use std::collections::BTreeMap;

use tracing::warn;

use crate::filter::dynamodb::Settings;

/// Why a table is not read.
pub(super) const NO_STREAM: &str = "it has no stream; enable one: aws dynamodb update-table --table-name NAME \
     --stream-specification StreamEnabled=true,StreamViewType=KEYS_ONLY";
/// Why a table is not read whose stream may be one of those that exceed the limit.
pub(super) const TOO_MANY: &str =
    "it has no stream, or the streams of 256 other tables are read; limit those by `include`";

/// Tables whose reads are forwarded, and why, as the log has it.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeMap<String, String>);

impl Told {
    /// Logs why a table is not cached, unless the log has it.
    pub(super) fn tell(&mut self, settings: &Settings, name: &str, why: &str) {
        let is_told = self.0.get(name).is_some_and(|told| told == why);
        if is_told || !settings.keys.current().include(name.as_bytes()) {
            return;
        }
        self.0.insert(name.to_owned(), why.to_owned());
        warn!(
            origin = settings.origin,
            "feed: reads of table {name} are forwarded and nothing of it is cached: {}",
            why.replace("NAME", name)
        );
    }

    /// The same, unless the log has another reason.
    pub(super) fn tell_first(&mut self, settings: &Settings, name: &str, why: &str) {
        if !self.0.contains_key(name) {
            self.tell(settings, name, why);
        }
    }

    /// The table is cached.
    pub(super) fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Forgets tables of which `is_kept` is false: each that is kept is read, or wanted by clients.
    pub(super) fn keep(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_kept(name));
    }
}
