//! The data plane, loaded: its maps, its programs, its links.
//!
//! One of the two places below tier 2 that touch the kernel (ARCHITECTURE.md).

use std::{
    fs,
    os::fd::{AsFd, BorrowedFd},
    path::PathBuf,
};

use aya::{
    Ebpf, EbpfLoader,
    maps::{MapData, PerCpuArray, RingBuf},
    programs::{Program, SchedClassifier, TestRun, TestRunOptions, Xdp, links::FdLink},
};
use policy::hotkey;

use crate::{
    Error,
    layout::{
        COUNTERS, Entry, FLOWS, Flow, HOLDS, Holds, LEASES_MAX, Line, Processor, Report, Shared,
        Slot, UNITS_MAX, Unit,
    },
    loading,
    lookup::{self, Lookup},
    mapped::Mapped,
    object,
};

/// Parameters that are fixed before the programs are loaded.
#[derive(Debug, Clone)]
pub struct Config {
    /// UDP port of NetCache's protocol; 0 leaves it alone.
    pub netcache_port: u16,
    /// UDP and TCP port of memcached; 0 leaves it alone.
    pub memcache_port: u16,
    /// Keys cached at most, 32 to [`ENTRIES_LIMIT`]; a multiple of 32.
    pub entries: u32,
    /// The layout of values in memory.
    pub values: Values,
    /// Sizes, threshold and sampling of the query statistics.
    pub statistics: hotkey::Config,
    /// Keys the hashes and the sampling.
    pub seed: u64,
    /// Directory in which maps and links are pinned so that they outlive this process; `None` ends
    /// them with it.
    pub pins: Option<PathBuf>,
}

/// The layout of values in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Every key has room for the longest value.
    Slots,
    /// Units in register arrays of this number of rows each (NetCache's slides).
    Registers {
        /// Rows of each of the arrays.
        rows: u32,
    },
}

/// Cached keys at most.
pub const ENTRIES_LIMIT: u32 = 1 << 21;

impl Default for Config {
    fn default() -> Self {
        Self {
            netcache_port: 50_000,
            memcache_port: 11_211,
            entries: 65_536,
            values: Values::Slots,
            // A sample of a quarter of the accesses finds the same keys, and reduces the cost to a
            // quarter.
            statistics: hotkey::Config {
                threshold: 32,
                sampled_per_65536: 16_384,
                ..hotkey::Config::default()
            },
            seed: 0,
            pins: None,
        }
    }
}

/// Whether the driver runs the program itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The driver does, before it builds a packet of the kernel's.
    Native,
    /// The kernel does, for a driver that cannot: correct, and slower.
    Generic,
    /// As before: the program replaced an earlier one.
    Kept,
}

/// Result of one packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The program's return value.
    pub verdict: u32,
    /// The frame it left.
    pub frame: Vec<u8>,
    /// Nanoseconds a packet took, over all repetitions.
    pub ns: u64,
}

/// Verdict: dropped.
pub const DROP: u32 = 1;
/// Verdict: passes unchanged.
pub const PASS: u32 = 2;
/// Verdict: sent back from where it came.
pub const TRANSMIT: u32 = 3;

/// The data plane's memory, shared with the kernel.
pub struct DataPlane {
    /// Cached keys.
    pub entries: Mapped<Entry>,
    /// Values, in the fixed layout; one that is not used is small.
    pub slots: Mapped<Slot>,
    /// Values, in register arrays.
    pub units: Mapped<Unit>,
    /// Until when each server's keys may be served, in nanoseconds of the monotonic clock.
    pub leases: Mapped<std::sync::atomic::AtomicU64>,
    /// Accesses to each cached key, sampled.
    pub counters: Mapped<Line>,
    /// The count-min sketch.
    pub sketch: Mapped<Line>,
    /// The Bloom filter.
    pub filter: Mapped<Line>,
    /// The state of connections to memcached servers.
    pub flows: Mapped<Flow>,
    /// Which keys their writes hold.
    pub(crate) holds: Mapped<Holds>,
    /// The number of writes that hold each.
    pub(crate) held: Mapped<Line>,
    shared: Mapped<Shared>,
    /// Which entry stands for which name.
    pub lookup: Lookup,
    processors: PerCpuArray<MapData, Processor>,
    reports: RingBuf<MapData>,
    ebpf: Ebpf,
    config: Config,
    /// Attached without pins: they end with this.
    pub(crate) links: Vec<FdLink>,
}

impl std::fmt::Debug for DataPlane {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("DataPlane").field("config", &self.config).finish_non_exhaustive()
    }
}

const ARRAYS: [&str; 12] = [
    "entries", "slots", "units", "leases", "shared", "counters", "sketch", "filter", "lookup",
    "flows", "holds", "held",
];
const OTHERS: [&str; 2] = ["reports", "processors"];

/// Elements of each array, in the order of `ARRAYS`.
fn lengths(config: &Config) -> [u32; 12] {
    let statistics = &config.statistics;
    let (slots, units) = match config.values {
        Values::Slots => (config.entries, 1),
        Values::Registers { rows } => (1, rows * UNITS_MAX as u32),
    };
    let sketch = (statistics.sketch_rows as u32) << statistics.sketch_width_bits;
    let filter = (statistics.filter_rows as u32) << statistics.filter_width_bits;
    let lines = |bytes: u32| bytes.div_ceil(64);
    let counters = lines(2 * config.entries);
    [
        config.entries,
        slots,
        units,
        LEASES_MAX as u32,
        1,
        counters,
        lines(2 * sketch),
        lines(filter / 8),
        lookup::buckets(config.entries),
        FLOWS as u32,
        FLOWS as u32,
        HOLDS / 8,
    ]
}

impl DataPlane {
    /// Loads programs and maps. With `pins`, maps that are there already are used as they are.
    ///
    /// # Errors
    /// This build has no data plane, a size is out of range, or the kernel refuses.
    pub fn load(config: Config) -> Result<Self, Error> {
        let (mut ebpf, lengths) = Self::maps(&config)?;
        // Before the maps are taken out: a program is loaded with their descriptors.
        for name in ["serve", "answered"] {
            let program = ebpf.program_mut(name).ok_or(Error::Missing(name))?;
            let loaded = loading::uninterrupted(loading::is_interrupted, || match name {
                "serve" => <&mut Xdp>::try_from(&mut *program).and_then(Xdp::load),
                _ => {
                    <&mut SchedClassifier>::try_from(&mut *program).and_then(SchedClassifier::load)
                }
            });
            loaded.map_err(Error::kernel(format!("the kernel refuses program {name}")))?;
        }
        Self::over(ebpf, config, lengths)
    }

    /// The maps alone, to inspect an attached data plane: the kernel does not verify any program.
    ///
    /// # Errors
    /// As for [`DataPlane::load`].
    pub fn open(config: Config) -> Result<Self, Error> {
        let (ebpf, lengths) = Self::maps(&config)?;
        Self::over(ebpf, config, lengths)
    }

    fn maps(config: &Config) -> Result<(Ebpf, [u32; 12]), Error> {
        let object = object::SWITCH.ok_or(Error::NotBuilt)?;
        if !cfg!(target_arch = "x86_64") {
            return Err(Error::Processor(std::env::consts::ARCH));
        }
        check("cached keys", u64::from(config.entries), 32, u64::from(ENTRIES_LIMIT))?;
        if let Values::Registers { rows } = config.values {
            check("rows of a register array", u64::from(rows), 1, u64::from(ENTRIES_LIMIT))?;
        }
        let lengths = lengths(config);
        let mut loader = EbpfLoader::new();
        for (name, length) in ARRAYS.iter().zip(lengths) {
            loader.map_max_entries(name, length);
        }
        if let Some(pins) = &config.pins {
            fs::create_dir_all(pins)
                .map_err(Error::kernel(format!("cannot create {}", pins.display())))?;
            for name in ARRAYS.iter().chain(&OTHERS) {
                loader.map_pin_path(name, pins.join(name));
            }
        }
        let statistics = &config.statistics;
        let (registers, rows) = match config.values {
            Values::Slots => (0, 1),
            Values::Registers { rows } => (1, rows),
        };
        let ports = [config.netcache_port.to_be(), config.memcache_port.to_be()];
        let numbers: [(&str, u32); 9] = [
            ("registers", registers),
            ("rows", rows),
            ("lookup_shift", lookup::shift(config.entries)),
            ("sampled_per_65536", statistics.sampled_per_65536),
            ("threshold", u32::from(statistics.threshold)),
            ("sketch_rows", statistics.sketch_rows as u32),
            ("sketch_bits", statistics.sketch_width_bits),
            ("filter_rows", statistics.filter_rows as u32),
            ("filter_bits", statistics.filter_width_bits),
        ];
        loader.override_global("netcache_port", &ports[0], true);
        loader.override_global("memcache_port", &ports[1], true);
        loader.override_global("seed", &config.seed, true);
        for (name, number) in &numbers {
            loader.override_global(name, number, true);
        }
        let ebpf = loader.load(object).map_err(Error::kernel("cannot load the data plane"))?;
        Ok((ebpf, lengths))
    }

    fn over(mut ebpf: Ebpf, config: Config, lengths: [u32; 12]) -> Result<Self, Error> {
        let processors = PerCpuArray::try_from(take(&mut ebpf, "processors")?)
            .map_err(Error::kernel("processors"))?;
        let reports =
            RingBuf::try_from(take(&mut ebpf, "reports")?).map_err(Error::kernel("reports"))?;
        Ok(Self {
            entries: array(&mut ebpf, "entries", lengths[0])?,
            slots: array(&mut ebpf, "slots", lengths[1])?,
            units: array(&mut ebpf, "units", lengths[2])?,
            leases: array(&mut ebpf, "leases", lengths[3])?,
            shared: array(&mut ebpf, "shared", lengths[4])?,
            counters: array(&mut ebpf, "counters", lengths[5])?,
            sketch: array(&mut ebpf, "sketch", lengths[6])?,
            filter: array(&mut ebpf, "filter", lengths[7])?,
            lookup: Lookup::new(array(&mut ebpf, "lookup", lengths[8])?, config.seed),
            flows: array(&mut ebpf, "flows", lengths[9])?,
            holds: array(&mut ebpf, "holds", lengths[10])?,
            held: array(&mut ebpf, "held", lengths[11])?,
            processors,
            reports,
            ebpf,
            config,
            links: Vec::new(),
        })
    }

    pub(crate) fn serve_fd(&self) -> Result<&aya::programs::ProgramFd, Error> {
        let program = self.ebpf.program("serve").ok_or(Error::Missing("serve"))?;
        let program = <&Xdp>::try_from(program).map_err(Error::kernel("not an XDP program"))?;
        program.fd().map_err(Error::kernel("not loaded"))
    }

    pub(crate) fn program(&mut self, name: &'static str) -> Result<&mut Program, Error> {
        self.ebpf.program_mut(name).ok_or(Error::Missing(name))
    }

    /// Becomes readable when there is a report.
    pub fn reports_fd(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }

    /// Returns the configuration it was loaded with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the state common to all memcached entries.
    ///
    /// # Panics
    /// Never: the array has one element.
    pub fn shared(&self) -> &Shared {
        &self.shared[0]
    }

    /// The next report, if there is one.
    pub fn report(&mut self) -> Option<Report> {
        self.reports.next().and_then(|bytes| Report::read(&bytes))
    }

    /// Returns the sum of each of [`COUNTERS`] over all processors.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn counts(&self) -> Result<[u64; COUNTERS.len()], Error> {
        let mut counts = [0; COUNTERS.len()];
        for processor in self.processors.get(&0, 0).map_err(Error::kernel("counters"))?.iter() {
            for (sum, count) in counts.iter_mut().zip(processor.counts) {
                *sum += count;
            }
        }
        Ok(counts)
    }

    /// Runs one frame through the program, without any network: `repeat` times, and tells of the
    /// last.
    ///
    /// # Errors
    /// The kernel refuses, for example a frame shorter than 14 bytes.
    pub fn run(&mut self, frame: &[u8], repeat: u32) -> Result<Outcome, Error> {
        let program = self.ebpf.program("serve").ok_or(Error::Missing("program"))?;
        run(program, frame, repeat)
    }

    /// Shows one frame that leaves to the program where answers do.
    ///
    /// # Errors
    /// As for [`DataPlane::run`].
    pub fn leave(&mut self, frame: &[u8]) -> Result<(), Error> {
        let program = self.ebpf.program("answered").ok_or(Error::Missing("program"))?;
        let program = <&SchedClassifier>::try_from(program)
            .map_err(Error::kernel("not a program of the traffic control"))?;
        let options = TestRunOptions { data_in: Some(frame), ..TestRunOptions::new() };
        program.test_run(options).map(drop).map_err(Error::kernel("cannot run a packet"))
    }
}

/// Runs one frame through an XDP program.
///
/// # Errors
/// As for [`DataPlane::run`].
pub fn run(program: &Program, frame: &[u8], repeat: u32) -> Result<Outcome, Error> {
    let program = <&Xdp>::try_from(program).map_err(Error::kernel("not an XDP program"))?;
    let mut out = vec![0; 4096];
    let options = TestRunOptions {
        data_in: Some(frame),
        data_out: Some(&mut out),
        repeat,
        ..TestRunOptions::new()
    };
    let result = program.test_run(options).map_err(Error::kernel("cannot run a packet"))?;
    out.truncate(result.data_size_out as usize);
    Ok(Outcome { verdict: result.return_value, frame: out, ns: result.duration.as_nanos() as u64 })
}

fn check(what: &'static str, got: u64, min: u64, max: u64) -> Result<(), Error> {
    if (min..=max).contains(&got) { Ok(()) } else { Err(Error::Size { what, min, max, got }) }
}

fn take(ebpf: &mut Ebpf, name: &'static str) -> Result<aya::maps::Map, Error> {
    ebpf.take_map(name).ok_or(Error::Missing(name))
}

fn array<T: crate::mapped::Plain>(
    ebpf: &mut Ebpf,
    name: &'static str,
    length: u32,
) -> Result<Mapped<T>, Error> {
    let aya::maps::Map::Array(data) = take(ebpf, name)? else { return Err(Error::Missing(name)) };
    Mapped::new(data.fd().as_fd(), length as usize)
}
