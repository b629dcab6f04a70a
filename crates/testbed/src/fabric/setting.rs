//! Checks user input (names, sizes, moves) and makes an [`Experiment`] of it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use ::fabric::{
    Config, Migration, Scheme, Simulation, Transport,
    topology::Topology,
    workload::{Generator, Protocol, Workload},
};
use anyhow::bail;
use notation::parse_duration;

use super::{
    controller,
    experiment::{self, Experiment, Inputs},
    mistake::Mistake,
    topology, trace,
};

/// Default interval of the controller: the shorter one of the paper.
pub const CONTROLLER_INTERVAL_US: f64 = 150.0;

/// Maximum number of cache entries of all switches together.
const CACHE_ENTRIES_MAX: u64 = 1 << 36;

/// A fabric and a workload on it, with their names.
#[derive(Debug, Clone)]
pub struct Source {
    topology_name: String,
    topology: Arc<Topology>,
    trace_name: String,
    /// The trace's file, if it is one.
    file: Option<PathBuf>,
    workload: Arc<Workload>,
    digest: String,
}

/// All other options of a run, as given.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the options of the command line say it")]
pub struct Setting {
    pub scheme: String,
    pub cache: String,
    pub model: String,
    pub quirks: BTreeMap<String, bool>,
    pub transport: String,
    pub migrations: Vec<String>,
    pub learn_probability: Option<f64>,
    pub controller_interval_us: f64,
    pub seed: u64,
}

/// All options of one run, as given.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the options of the command line say it")]
pub struct Options {
    pub topology: String,
    pub trace: String,
    pub protocol: String,
    pub share: f64,
    pub setting: Setting,
}

impl Options {
    /// Reads and checks all options; names of files are relative to the current directory.
    ///
    /// # Errors
    ///
    /// As [`Source::topology`], [`Source::trace`] and [`Setting::experiment`].
    pub fn experiment(&self) -> anyhow::Result<Experiment> {
        let here = Path::new("");
        let topology = Source::topology(&self.topology, here)?;
        let Self { trace, protocol, share, setting, .. } = self;
        let source = Source::trace(topology, trace, here, protocol, *share, setting.seed)?;
        setting.experiment(&source)
    }
}

impl Source {
    /// The fabric of this name, or in this file beside `base`.
    ///
    /// # Errors
    ///
    /// See [`topology::find`].
    pub fn topology(name: &str, base: &Path) -> anyhow::Result<(String, Arc<Topology>)> {
        let place = if name.ends_with(".toml") {
            base.join(name).to_string_lossy().into_owned()
        } else {
            name.to_owned()
        };
        Ok((name.to_owned(), Arc::new(topology::find(&place)?)))
    }

    /// A trace file beside `base`, or a workload drawn from `seed`.
    ///
    /// # Errors
    ///
    /// File and line of a mistake, or the list of valid names.
    pub fn trace(
        (topology_name, topology): (String, Arc<Topology>),
        name: &str,
        base: &Path,
        protocol: &str,
        share: f64,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let protocol = Protocol::named(protocol)
            .ok_or_else(|| Mistake::new("protocol", "tcp or udp", protocol))?;
        let is_file = name.ends_with(".csv") || name.ends_with(".gz") || name.contains('/');
        let file = is_file.then(|| base.join(name));
        let workload = match &file {
            Some(path) => trace::read(path, protocol, &topology)?,
            None if Generator::named(name).is_none() => {
                let known = Generator::ALL.map(Generator::name).join(", ");
                let expected =
                    format!("one of {known}, or a trace's file, which ends in .csv or .csv.gz");
                bail!(Mistake::new("trace", expected, name));
            }
            None => trace::draw(name, &topology, share, seed)?,
        };
        let digest = experiment::digest(&topology, &workload);
        let workload = Arc::new(workload);
        Ok(Self { topology_name, topology, trace_name: name.to_owned(), file, workload, digest })
    }
}

impl Setting {
    /// The run of this setting on `source`.
    ///
    /// # Errors
    ///
    /// The invalid name or number, and what was expected.
    pub fn experiment(&self, source: &Source) -> anyhow::Result<Experiment> {
        let scheme: Scheme = self.scheme.parse()?;
        let topology = &source.topology;
        let cached = !matches!(scheme, Scheme::NoCache | Scheme::OnDemand | Scheme::Direct);
        let (cache, cache_entries) = if cached {
            (self.cache.clone(), entries(&self.cache, topology.vms())?)
        } else {
            ("0".to_owned(), 0)
        };
        let transport = self.transport(source.workload.protocol)?;
        let migrations = self
            .migrations
            .iter()
            .map(|text| migration(text, topology))
            .collect::<Result<_, _>>()?;
        let learn_probability =
            self.learn_probability.unwrap_or(Config::default().learn_probability);
        if !(0.0..=1.0).contains(&learn_probability) {
            let expected = "a probability from 0 to 1";
            bail!(Mistake::new("learn_probability", expected, learn_probability));
        }
        let controlled = scheme == Scheme::Controller;
        if controlled && !controller::SOLVER {
            bail!(
                "the controller solves integer programs by HiGHS, which this build lacks: cargo \
                 build --release -p enroute --features highs (needs cmake, a C++ compiler and \
                 libclang)"
            );
        }
        if controlled && !(1.0..).contains(&self.controller_interval_us) {
            let found = self.controller_interval_us;
            bail!(Mistake::new("controller_interval", "at least 1 µs", format!("{found} µs")));
        }
        let config = Config {
            model: experiment::model(&self.model, &self.quirks)?,
            cache_entries,
            transport,
            migrations,
            learn_probability,
            ..Config::default()
        };
        Simulation::check(&config, topology, &source.workload.flows, scheme).map_err(|error| {
            match &source.file {
                Some(path) => trace::misfit(path, error),
                None => error.into(),
            }
        })?;
        let transport = match transport {
            Transport::Udp => "udp",
            Transport::Cubic => "cubic",
            Transport::Dctcp => "dctcp",
        };
        let inputs = Inputs {
            scheme: self.scheme.clone(),
            topology: source.topology_name.clone(),
            trace: source.trace_name.clone(),
            digest: source.digest.clone(),
            cache,
            cache_entries,
            model: self.model.clone(),
            quirks: self.quirks.clone(),
            transport: transport.to_owned(),
            migrations: self.migrations.clone(),
            learn_probability,
            controller_interval_us: if controlled { self.controller_interval_us } else { 0.0 },
            seed: self.seed,
        };
        let (topology, workload) = (Arc::clone(topology), Arc::clone(&source.workload));
        Ok(Experiment { inputs, config, scheme, topology, workload })
    }

    fn transport(&self, protocol: Protocol) -> anyhow::Result<Transport> {
        Ok(match (protocol, self.transport.as_str()) {
            (Protocol::Udp, _) => Transport::Udp,
            (Protocol::Tcp, "cubic") => Transport::Cubic,
            (Protocol::Tcp, "dctcp") => Transport::Dctcp,
            (Protocol::Tcp, other) => bail!(Mistake::new("transport", "cubic or dctcp", other)),
        })
    }
}

/// Cache entries of all switches together: a share of all addresses, or a number.
pub(super) fn entries(text: &str, vms: u32) -> anyhow::Result<u64> {
    let entries = match text.strip_suffix('%') {
        Some(percent) => percent
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|percent| *percent >= 0.0)
            .map(|percent| (f64::from(vms) * percent / 100.0) as u64),
        None => text.parse().ok(),
    };
    let within = entries.filter(|&entries| entries <= CACHE_ENTRIES_MAX);
    Ok(within.ok_or_else(|| {
        let expected = format!(
            "a size as a share of all addresses, for example 50%, or in entries of all switches \
             together, at most {CACHE_ENTRIES_MAX}"
        );
        Mistake::new("cache", expected, text)
    })?)
}

/// `VM:SERVER@TIME`.
fn migration(text: &str, topology: &Topology) -> anyhow::Result<Migration> {
    let parts = || {
        let (what, at) = text.split_once('@')?;
        let (vm, server) = what.split_once(':')?;
        let at_ns = u64::try_from(parse_duration(at).ok()?.as_nanos()).ok()?;
        Some(Migration { vm: vm.parse().ok()?, server: server.parse().ok()?, at_ns })
    };
    let valid =
        parts().filter(|move_| move_.vm < topology.vms() && move_.server < topology.servers());
    Ok(valid.ok_or_else(|| {
        let expected = format!(
            "VM:SERVER@TIME, for example 5200:100@500us, with a VM below {} and a server below {}",
            topology.vms(),
            topology.servers()
        );
        Mistake::new("migration", expected, text)
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_sizes_are_shares_or_entries() {
        assert_eq!(entries("50%", 10_240).unwrap(), 5_120);
        assert_eq!(entries("1%", 10_240).unwrap(), 102);
        assert_eq!(entries("150000%", 10_240).unwrap(), 15_360_000);
        assert_eq!(entries("960", 10_240).unwrap(), 960);
        for wrong in ["", "half", "-1%", "1.5", "99999999999999"] {
            assert!(entries(wrong, 10_240).unwrap_err().to_string().contains("50%"), "{wrong}");
        }
    }

    #[test]
    fn migrations_name_vm_server_and_time() {
        let topology = Topology::ft8_10k();
        let expected = Migration { vm: 5_200, server: 100, at_ns: 500_000 };
        assert_eq!(migration("5200:100@500us", &topology).unwrap(), expected);
        for wrong in ["5200:100", "5200@500us", "10240:1@1us", "1:128@1us", "1:2@soon"] {
            assert!(migration(wrong, &topology).is_err(), "{wrong}");
        }
    }

    #[test]
    fn unknown_names_list_the_known() {
        let base = Path::new(".");
        let topology = Source::topology("ft8-10k", base).unwrap();
        let source = Source::trace(topology, "incast", base, "tcp", 0.01, 1).unwrap();
        let good = Setting {
            scheme: "switchv2p".to_owned(),
            cache: "50%".to_owned(),
            model: "paper".to_owned(),
            quirks: BTreeMap::new(),
            transport: "cubic".to_owned(),
            migrations: Vec::new(),
            learn_probability: None,
            controller_interval_us: CONTROLLER_INTERVAL_US,
            seed: 1,
        };
        assert_eq!(good.experiment(&source).unwrap().config.cache_entries, 5_120);
        let wrong = |change: &dyn Fn(&mut Setting)| {
            let mut setting = good.clone();
            change(&mut setting);
            format!("{:#}", setting.experiment(&source).unwrap_err())
        };
        assert!(wrong(&|each| each.scheme = "v2p".into()).contains("nocache, locallearning"));
        assert!(wrong(&|each| each.model = "ns3".into()).contains("paper or published"));
        let quirks = wrong(&|each| each.quirks = [("x".into(), true)].into());
        assert!(quirks.contains("spines-only-promote"), "{quirks}");
    }
}
