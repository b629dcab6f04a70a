//! Workloads drawn at random from one seed, after the statistics that the paper states (§5).
//!
//! Logarithms and powers come from `libm`, so a seed gives the same bytes on any machine.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::{ROWS_MAX, Workload};
use crate::{Error, topology::Topology};

mod incast;
mod microbursts;
mod rpc;
mod sizes;
mod traffic;
mod video;

/// Two VMs on two servers, drawn uniformly.
fn pair(topology: &Topology, random: &mut Pcg64) -> (u32, u32) {
    let source = random.random_range(0..topology.vms());
    (source, other(topology, source, random))
}

/// A VM on another server than `vm`, drawn uniformly.
fn other(topology: &Topology, vm: u32, random: &mut Pcg64) -> u32 {
    loop {
        let other = random.random_range(0..topology.vms());
        if topology.placement[other as usize] != topology.placement[vm as usize] {
            return other;
        }
    }
}

/// The numbers below `count` in random order.
fn shuffled(count: u32, random: &mut Pcg64) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count).collect();
    for last in (1..numbers.len()).rev() {
        numbers.swap(last, random.random_range(0..=last));
    }
    numbers
}

/// Maximum length of a workload, as a factor of the paper's.
pub const SHARE_MAX: f64 = 1_000.0;

/// A workload that can be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generator {
    /// Mostly short flows between uniformly drawn VMs; destinations recur.
    Hadoop,
    /// Heavy flows; destinations hardly recur.
    WebSearch,
    /// Calls between microservices as in Alibaba's traces: few services take most of them.
    Rpc,
    /// UDP bursts of tens of microseconds.
    Microbursts,
    /// 64 UDP streams of 8K video.
    Video,
    /// 64 UDP senders to one VM, for 1 ms (§5.2).
    Incast,
}

impl Generator {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Hadoop, Self::WebSearch, Self::Rpc, Self::Microbursts, Self::Video, Self::Incast];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hadoop => "hadoop",
            Self::WebSearch => "websearch",
            Self::Rpc => "rpc",
            Self::Microbursts => "microbursts",
            Self::Video => "video",
            Self::Incast => "incast",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.name() == name)
    }

    /// Minimum number of servers with VMs.
    #[must_use]
    pub fn servers_min(self) -> u32 {
        match self {
            Self::Hadoop | Self::WebSearch | Self::Rpc | Self::Microbursts => 2,
            Self::Video => 2 * video::STREAMS,
            Self::Incast => incast::SENDERS + 2,
        }
    }

    /// Approximate number of rows at the paper's length.
    #[must_use]
    pub fn rows(self, topology: &Topology) -> f64 {
        match self {
            Self::Hadoop => traffic::rows(&sizes::HADOOP, topology),
            Self::WebSearch => traffic::rows(&sizes::WEB_SEARCH, topology),
            Self::Rpc => rpc::calls(topology),
            Self::Microbursts => microbursts::rows(topology),
            Self::Video => f64::from(video::STREAMS) * video::DATAGRAMS,
            Self::Incast => f64::from(incast::SENDERS) * incast::DATAGRAMS,
        }
    }

    /// Draws it for the VMs of `topology`. `share` shortens it: 1 is the paper's length, 0.1 a
    /// tenth of that.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the topology is too small, the share is not above 0, or it would have
    /// more than [`ROWS_MAX`] rows.
    pub fn draw(self, topology: &Topology, share: f64, seed: u64) -> Result<Workload, Error> {
        let mut servers = topology.placement.clone();
        servers.sort_unstable();
        servers.dedup();
        if servers.len() < self.servers_min() as usize {
            let expected = format!("{} servers with VMs for {}", self.servers_min(), self.name());
            let got = servers.len().to_string();
            return Err(Error::Config { what: "topology", expected, got });
        }
        if !(share > 0.0 && share <= SHARE_MAX) {
            let expected = format!("above 0 and at most {SHARE_MAX}");
            return Err(Error::Config { what: "share", expected, got: share.to_string() });
        }
        let rows = self.rows(topology) * share;
        if rows > ROWS_MAX as f64 {
            let expected = format!("at most {ROWS_MAX} rows");
            return Err(Error::Config { what: "share", expected, got: format!("{rows:.0}") });
        }
        let mut random = Pcg64::seed_from_u64(seed);
        Ok(match self {
            Self::Hadoop => traffic::draw(&sizes::HADOOP, topology, share, &mut random),
            Self::WebSearch => traffic::draw(&sizes::WEB_SEARCH, topology, share, &mut random),
            Self::Rpc => rpc::draw(topology, share, &mut random),
            Self::Microbursts => microbursts::draw(topology, share, &mut random),
            Self::Video => video::draw(topology, share, &mut random),
            Self::Incast => incast::draw(topology, &servers, share),
        })
    }
}

/// A time or length whose mean is `mean`, exponentially distributed.
fn exponential(mean: f64, random: &mut Pcg64) -> f64 {
    -mean * libm::log(1.0 - random.random::<f64>())
}

#[cfg(test)]
mod tests;
