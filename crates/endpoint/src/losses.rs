//! Writes whose replies were lost: the clients that sent them, and the quarantined scopes.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use reactor::Seldom;
use tracing::warn;

/// Maximum number of causes kept for one origin; a further one replaces the one seen longest ago.
const CAUSES_MAX: usize = 64;
/// Minimum time between two log lines once that many causes are known.
const TOLD_PAUSE: Duration = Duration::from_secs(10);

/// Lost replies to writes of one origin.
#[derive(Debug)]
pub struct Losses(Mutex<Noted>);

#[derive(Debug)]
struct Noted {
    causes: Vec<Cause>,
    beyond: Seldom,
}

/// A reason for which a scope of an origin is or was in quarantine.
#[derive(Debug, Clone)]
pub struct Cause {
    /// The client's address; its port changes with each connection.
    pub client: IpAddr,
    /// The command; `unknown` if the table does not have it.
    pub command: &'static str,
    /// The scope that is not cached until the quarantine ends.
    pub closed: &'static str,
    /// Number of writes.
    pub writes: u64,
    /// Time of the last lost reply.
    pub at: Instant,
}

impl Cause {
    fn is_like(&self, other: &Self) -> bool {
        (self.client, self.command, self.closed) == (other.client, other.command, other.closed)
    }
}

impl Default for Losses {
    fn default() -> Self {
        Self(Mutex::new(Noted { causes: Vec::new(), beyond: Seldom::new(TOLD_PAUSE) }))
    }
}

impl Losses {
    /// Records that the reply to the write `command` ("" if it is not known) of the client at
    /// `peer` was lost, so that its scope, `closed`, is in quarantine. Logged once for each client,
    /// command and scope.
    pub fn note(
        &self,
        origin: &str,
        peer: SocketAddr,
        (command, closed): (&'static str, &'static str),
        at: Instant,
    ) {
        let command = if command.is_empty() { "unknown" } else { command };
        let cause = Cause { client: peer.ip(), command, closed, writes: 1, at };
        if let Some(left_out) = self.0.lock().add(cause) {
            warn!(
                origin, %peer, command, closed, left_out,
                "the reply to a write was lost: the scope of the write is not cached until `quarantine` has elapsed; \
                 GET /stats lists all causes"
            );
        }
    }

    /// All recorded causes.
    #[must_use]
    pub fn causes(&self) -> Vec<Cause> {
        self.0.lock().causes.clone()
    }
}

impl Noted {
    /// The number of log lines omitted since the last one, if this cause must be logged.
    fn add(&mut self, cause: Cause) -> Option<u64> {
        if let Some(known) = self.causes.iter_mut().find(|known| known.is_like(&cause)) {
            (known.writes, known.at) = (known.writes + 1, cause.at);
            return None;
        }
        if self.causes.len() < CAUSES_MAX {
            self.causes.push(cause);
            return Some(0);
        }
        let at = cause.at;
        if let Some(oldest) = self.causes.iter_mut().min_by_key(|known| known.at) {
            *oldest = cause;
        }
        self.beyond.note(at).map(|lines| lines - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once_and_of_very_many_few() {
        let start = Instant::now();
        let cause = |client: u8, command| Cause {
            client: [127, 0, 0, client].into(),
            command,
            closed: "a key",
            writes: 1,
            at: start + Duration::from_millis(client.into()),
        };
        let mut noted = Losses::default().0.into_inner();
        assert_eq!(noted.add(cause(1, "set")), Some(0));
        assert_eq!(noted.add(cause(1, "set")), None);
        assert_eq!(noted.add(cause(1, "del")), Some(0));
        let told = (2..=255).filter(|&client| noted.add(cause(client, "set")).is_some()).count();
        assert_eq!(told, CAUSES_MAX - 2 + 1);
        assert_eq!(noted.causes.len(), CAUSES_MAX);
        // The causes seen last are kept.
        assert!(noted.causes.iter().all(|known| known.client > IpAddr::from([127, 0, 0, 190])));
    }
}
