//! What DNS says of a deployment: MongoDB's *Initial DNS Seedlist Discovery*.

use std::time::Duration;

use super::{Action, Monitor, Shape, Told};
use crate::monitor::Records;

/// Interval of the look-ups of these records, unless they name a replica set.
pub(super) const RESOLVE_INTERVAL: Duration = Duration::from_secs(60);

impl Monitor {
    /// When records are to be looked up: the members of a replica set name each other.
    pub(super) fn resolves_at(&self) -> Option<Duration> {
        let needed = self.servers.is_empty() || !matches!(self.shape, Shape::Set(_));
        self.resolve_at.filter(|_| needed && self.config.domain.is_some())
    }

    pub(super) fn resolved(&mut self, records: Result<Records<'_>, &str>, now: Duration) {
        let Some(domain) = self.config.domain.clone() else { return };
        let seeds = records.map_err(str::to_owned).and_then(|it| seeds(&domain, it));
        match seeds {
            Ok(Seeds { hosts, replica_set }) => {
                (self.trouble, self.resolve_at) = (None, Some(now + RESOLVE_INTERVAL));
                if let Some(name) = replica_set.filter(|_| self.shape == Shape::Unknown) {
                    self.shape = Shape::Set(name);
                }
                self.add(&hosts);
                self.remove(|_, server| !hosts.contains(&server.address));
            }
            Err(why) => {
                self.resolve_at = Some(now + self.config.pace.retry_max);
                if self.trouble.as_ref() != Some(&why) {
                    self.trouble = Some(why.clone());
                    self.actions.push(Action::Tell(Told::Trouble { server: domain, why }));
                }
            }
        }
    }
}

/// Servers to ask first, and the name of their replica set if it is stated.
struct Seeds {
    hosts: Vec<String>,
    replica_set: Option<String>,
}

/// Reads the records of `domain`.
///
/// # Errors
/// They do not name a deployment of this domain.
fn seeds(domain: &str, records: Records<'_>) -> Result<Seeds, String> {
    // `set.example.net` may name hosts of `example.net`, a name of two parts those below itself.
    let parent = match domain.split_once('.') {
        Some((_, parent)) if parent.contains('.') => parent,
        _ => domain,
    };
    let mut hosts = Vec::new();
    for host in records.hosts {
        let host = host.to_ascii_lowercase();
        let (name, port) = host.rsplit_once(':').unwrap_or((&host, ""));
        let name = name.trim_end_matches('.');
        let is_below = name.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'));
        if !is_below {
            return Err(format!("its SRV records name {name}, expected hosts below {parent} only"));
        }
        hosts.push(format!("{name}:{port}"));
    }
    let mut replica_set = None;
    let text = match records.texts {
        [] => "",
        [text] => text.as_str(),
        more => return Err(format!("expected one TXT record at most, found {}", more.len())),
    };
    for option in text.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("replicaSet", name)) if !name.is_empty() => replica_set = Some(name.to_owned()),
            // Clients log in by themselves.
            Some(("authSource", _)) | Some(("loadBalanced", "false")) => {}
            _ => {
                return Err(format!(
                    "its TXT record has {option}, expected replicaSet and authSource only"
                ));
            }
        }
    }
    Ok(Seeds { hosts, replica_set })
}
