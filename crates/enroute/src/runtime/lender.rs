//! Where access keys are lent: a process on this machine, which is asked again before they expire.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{anyhow, ensure};
use cache::filter::dynamodb;
use platform::wall_clock;
use serde::Deserialize;
use tokio::{task::spawn_local, time::sleep};
use tracing::{info, warn};

use super::{Protocol, Shared, connector::block_on, listener::LOOK_PAUSE};

/// Pause after an answer: half of the time for which the access key is lent, at least this
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// and at most this.
const PAUSE_MAX: Duration = Duration::from_secs(15 * 60);
/// Pause after no answer, or one that cannot be used.
const RETRY: Duration = Duration::from_secs(5);

/// `http://ADDRESS:PORT/PATH` on loopback: the secret is not encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Lender {
    address: SocketAddr,
    path: String,
}

impl TryFrom<String> for Lender {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parse = || {
            let rest = text.strip_prefix("http://")?;
            let (address, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let address: SocketAddr = address.parse().ok().filter(is_loopback)?;
            let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic());
            let path = if path.is_empty() { "/" } else { path }.to_owned();
            is_plain.then_some(Self { address, path })
        };
        let is_loopback_url = "expected http://ADDRESS:PORT/PATH with a loopback address";
        parse().ok_or_else(|| format!("{is_loopback_url}, found \"{text}\""))
    }
}

fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().is_loopback()
}

impl Lender {
    /// Asks again and again, for the listener at `url`.
    async fn keep(self, settings: Arc<dynamodb::Settings>, url: String) {
        let mut failed = false;
        loop {
            let pause = match self.ask(&settings).await {
                Ok(left) => {
                    info!("{url}: an access key was lent for {} s", left.as_secs());
                    failed = false;
                    (left / 2).clamp(PAUSE_MIN, PAUSE_MAX)
                }
                Err(error) => {
                    if !failed {
                        let place = format!("http://{}{}", self.address, self.path);
                        warn!(
                            "{url}: no access key was lent by {place}: {error}; asking \
                             again; requests that a key has signed which has expired are forwarded"
                        );
                    }
                    failed = true;
                    RETRY
                }
            };
            sleep(pause).await;
        }
    }

    /// Asks once. Returns for how long an access key is lent.
    async fn ask(&self, settings: &dynamodb::Settings) -> anyhow::Result<Duration> {
        let answer = endpoint::get(&self.address.to_string(), &self.path).await;
        let (status, body) = answer.map_err(|error| anyhow!("{error}"))?;
        ensure!(status.as_u16() == 200, "expected status 200, found {}", status.as_u16());
        let now = wall_clock::now();
        let mut lent = Err(anyhow!("nothing was lent"));
        settings.credentials.update(|known| match known.with_lent(&body, now) {
            Ok((next, until)) => {
                lent = Ok(until.saturating_sub(now));
                Some(next)
            }
            Err(error) => {
                lent = Err(error.into());
                None
            }
        });
        lent
    }
}

/// Asks for the access keys of all listeners.
pub(super) fn run(shared: &Shared) {
    block_on("asks for access keys", async {
        for listener in &shared.listeners {
            if let (Protocol::DynamoDb(settings), Some(lender)) =
                (&listener.protocol, &listener.lender)
            {
                spawn_local(lender.clone().keep(Arc::clone(settings), listener.url()));
            }
        }
        while !shared.is_draining() {
            sleep(LOOK_PAUSE).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::Lender;

    #[test]
    fn access_keys_are_lent_on_this_machine_alone() {
        let read = |text: &str| Lender::try_from(text.to_owned());
        let lender = read("http://127.0.0.1:9911/role").expect("valid");
        assert_eq!((lender.address.port(), &*lender.path), (9911, "/role"));
        assert_eq!(read("http://[::1]:80").expect("valid").path, "/");
        for wrong in [
            "https://127.0.0.1:9911/role",
            "http://10.0.0.1:9911/role",
            "http://localhost:9911/role",
            "http://127.0.0.1/role",
            "http://127.0.0.1:9911/a b",
            "127.0.0.1:9911",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
