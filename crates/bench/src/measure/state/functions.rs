//! Network functions as in AnnaBellaDB's evaluation (§III): small clients that share one state,
//! read it ten times and write it once, again and again, each on a host or moving from host to
//! host.

use std::{
    fmt,
    net::SocketAddr,
    str::FromStr,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::hosts::{AGENT, Hosts, node};
use crate::{load::Session, servers::Servers};

/// The key that all functions use. The hash puts it on the second host, where the paper's was.
const STATE: &str = "{bearer}:state";
const HASHED_TO: usize = 1;
const READS: usize = 10;
/// Reads and the write of one turn.
pub(super) const TURN: usize = READS + 1;

/// The placement of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Placement {
    /// State stays where the hash places it; functions connect to that node directly, like
    /// cluster-aware clients
    Hash,
    /// State moves to the host that uses it most; functions connect to the agent on their host.
    /// Agents keep no copies
    Alone,
    /// The same, and agents keep copies of what several hosts read
    Following,
}

/// Time from which a function is on this host.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Stay {
    /// Seconds since the first function may start.
    pub(crate) from: f64,
    /// Number of the host, from 0.
    pub(crate) host: usize,
}

/// One function: its hosts over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Function(pub(crate) Vec<Stay>);

/// Functions on four hosts, and how the state under them is placed.
#[derive(Debug, Clone, Args, Serialize)]
pub(crate) struct Scenario {
    /// A function: the hosts (1 to 4) it runs on, and from which second. Repeatable
    #[arg(long = "function", value_name = "SECONDS:HOST,…", required = true)]
    pub(crate) functions: Vec<Function>,

    /// Maximum rate of each function, in accesses per second; it is lower where accesses take
    /// longer
    #[arg(long, value_name = "COUNT", default_value_t = 55.0)]
    pub(crate) rate: f64,

    /// Duration in seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: f64,

    /// Round-trip time between two hosts
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    pub(crate) rtt: String,

    /// Placement of the state
    #[arg(long, value_enum)]
    pub(crate) placement: Placement,
}

/// The result of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    scenario: Scenario,
    /// Accesses of each function.
    pub(crate) accesses: Vec<Accesses>,
    /// Output of `enroute state status` at the end; empty where slots stay.
    status: String,
}

/// The accesses of one function, in their order.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Accesses {
    /// Microseconds since the start at which each began.
    pub(crate) at_us: Vec<u64>,
    /// Microseconds each took.
    pub(crate) took_us: Vec<f32>,
}

impl Scenario {
    /// Makes hosts, cluster and functions, and lets them run; `show` gets the completed share.
    pub(crate) fn run(&self, servers: &Servers, show: impl Fn(f64)) -> anyhow::Result<Outcome> {
        let stays = self.functions.iter().flat_map(|function| &function.0);
        for stay in stays {
            ensure!(stay.host < Hosts::COUNT, "host {}: there are four", stay.host + 1);
        }
        let mut hosts = Hosts::join(servers, &self.rtt)?;
        let owner = hosts.owner(STATE)?;
        ensure!(owner == node(HASHED_TO), "{STATE} is at {owner}");
        let address = match self.placement {
            Placement::Hash => owner,
            Placement::Alone | Placement::Following => {
                hosts.follow(if self.placement == Placement::Alone { "off" } else { "auto" })?;
                AGENT
            }
        };
        let (hosts, began) = (&hosts, Instant::now());
        let accesses = thread::scope(|scope| {
            let running: Vec<_> = self
                .functions
                .iter()
                .map(|function| scope.spawn(move || self.live(hosts, function, address, began)))
                .collect();
            while began.elapsed().as_secs_f64() < self.seconds {
                show(began.elapsed().as_secs_f64() / self.seconds);
                thread::sleep(Duration::from_secs(1));
            }
            let ended = running.into_iter().map(|function| {
                function.join().map_err(|_| anyhow::anyhow!("a function panicked"))?
            });
            ended.collect::<anyhow::Result<Vec<_>>>()
        })?;
        let status = match self.placement {
            Placement::Hash => String::new(),
            Placement::Alone | Placement::Following => hosts.status()?,
        };
        Ok(Outcome { scenario: self.clone(), accesses, status })
    }

    /// The life of one function: a connection of its own wherever it is.
    fn live(
        &self,
        hosts: &Hosts<'_>,
        function: &Function,
        address: SocketAddr,
        began: Instant,
    ) -> anyhow::Result<Accesses> {
        let mut accesses = Accesses::default();
        let ends = function.0.iter().skip(1).map(|next| next.from).chain([self.seconds]);
        for (stay, end) in function.0.iter().zip(ends) {
            let until = Duration::from_secs_f64(end.min(self.seconds));
            thread::sleep(Duration::from_secs_f64(stay.from).saturating_sub(began.elapsed()));
            let period = Duration::from_secs_f64(TURN as f64 / self.rate);
            hosts.inside(stay.host, || accesses.make(address, period, began, until))??;
        }
        Ok(accesses)
    }
}

impl Accesses {
    /// Uses the state until then, a turn in each `period` if they do not take longer.
    fn make(
        &mut self,
        address: SocketAddr,
        period: Duration,
        began: Instant,
        until: Duration,
    ) -> anyhow::Result<()> {
        let mut session = Session::connect(address)?;
        while began.elapsed() < until {
            let turn = began.elapsed();
            // The write first, so that there is something to be read.
            for access in 0..TURN {
                let asked = began.elapsed();
                if access == 0 {
                    session.command(&["SET", STATE, "x"])?;
                } else {
                    session.ask(&["GET", STATE], b"$1\r\nx\r\n")?;
                }
                self.at_us.push(asked.as_micros() as u64);
                self.took_us.push((began.elapsed() - asked).as_nanos() as f32 / 1e3);
            }
            thread::sleep((turn + period).saturating_sub(began.elapsed()));
        }
        Ok(())
    }

    /// Each access: when it began, and what it took, in microseconds.
    pub(crate) fn each(&self) -> impl Iterator<Item = (f64, f64)> {
        let times = self.at_us.iter().zip(&self.took_us);
        times.map(|(&at, &took)| (at as f64, f64::from(took)))
    }
}

impl Outcome {
    /// Returns the mean access time over all of them, in microseconds.
    pub(crate) fn mean_us(&self) -> f64 {
        let count: usize = self.accesses.iter().map(|function| function.took_us.len()).sum();
        let all = self.accesses.iter().flat_map(Accesses::each);
        all.map(|(_, took)| took).sum::<f64>() / count.max(1) as f64
    }

    /// Accesses that ended in each of the last `seconds`.
    pub(crate) fn rate_of_last(&self, seconds: f64) -> f64 {
        let (end, us) = (self.scenario.seconds * 1e6, seconds * 1e6);
        let all = self.accesses.iter().flat_map(Accesses::each).map(|(at, took)| at + took);
        all.filter(|at| (end - us..end).contains(at)).count() as f64 / seconds
    }
}

impl FromStr for Function {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let stay = |text: &str| {
            let (from, host) = text.split_once(':').context("expected SECONDS:HOST")?;
            let host: usize = host.parse().context("a host's number")?;
            let from: f64 = from.parse().context("seconds")?;
            ensure!(from >= 0.0 && from.is_finite(), "{from} seconds");
            Ok(Stay { from, host: host.checked_sub(1).context("hosts count from 1")? })
        };
        let stays = text.split(',').map(stay).collect::<anyhow::Result<Vec<Stay>>>()?;
        ensure!(stays.is_sorted_by_key(|stay| stay.from), "{text}: its times do not rise");
        Ok(Self(stays))
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Hash => "hash-placed",
            Self::Alone => "following without copies",
            Self::Following => "following",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_said_by_when_it_is_where() {
        let function: Function = "0:1,60:2".parse().expect("two stays");
        let stay = |from, host| Stay { from, host };
        assert_eq!(function, Function(vec![stay(0.0, 0), stay(60.0, 1)]));
        for wrong in ["", "1", "0:0", "x:1", "-1:1", "9:1,8:2"] {
            assert!(wrong.parse::<Function>().is_err(), "{wrong}");
        }
    }
}
