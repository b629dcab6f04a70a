//! Workloads: from trace files, packed or not, or drawn by name.

use std::{fs::File, io::Read, path::Path};

use ::fabric::{
    topology::Topology,
    workload::{Generator, Protocol, Workload},
};
use anyhow::{Context, bail};
use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};

use super::{memory, mistake::Mistake};

/// Maximum size of a trace in bytes, unpacked.
const TRACE_BYTES_MAX: u64 = 8 << 30;

/// Reads a trace, unpacking it if its name ends in `.gz`. `protocol` applies if the trace does not
/// name one.
///
/// # Errors
///
/// File and line of a mistake, and what was expected there.
pub fn read(path: &Path, protocol: Protocol, topology: &Topology) -> anyhow::Result<Workload> {
    Ok(Workload::parse(&unpacked(path)?, &path.display().to_string(), protocol, topology.vms())?)
}

/// A mistake in a row of a trace, with file and line.
pub fn misfit(path: &Path, error: ::fabric::Error) -> anyhow::Error {
    let ::fabric::Error::Flow { index, what, expected, got } = &error else { return error.into() };
    let line = unpacked(path).ok().and_then(|text| Workload::line_of(&text, *index));
    match line {
        Some(line) => {
            let place = format!("{}:{line}", path.display());
            Mistake::new(what, expected, got).at(place).into()
        }
        None => error.into(),
    }
}

/// The text of a trace.
fn unpacked(path: &Path) -> anyhow::Result<Vec<u8>> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot open the trace {name}"))?;
    let mut text = Vec::new();
    let most = TRACE_BYTES_MAX.min(memory::text_bytes_max());
    let read = if name.ends_with(".gz") {
        MultiGzDecoder::new(file).take(most + 1).read_to_end(&mut text)
    } else {
        file.take(most + 1).read_to_end(&mut text)
    };
    read.with_context(|| format!("cannot read the trace {name}"))?;
    if text.len() as u64 > most {
        let expected =
            format!("at most {most} bytes unpacked, which fit into the available memory");
        bail!(Mistake::new("size", expected, "more").at(name));
    }
    Ok(text)
}

/// Draws the workload of this name.
///
/// # Errors
///
/// The list of valid names, or what the topology lacks.
pub fn draw(name: &str, topology: &Topology, share: f64, seed: u64) -> anyhow::Result<Workload> {
    let Some(generator) = Generator::named(name) else {
        let expected = format!("one of {}", Generator::ALL.map(Generator::name).join(", "));
        bail!(Mistake::new("workload", expected, name));
    };
    memory::check_rows(generator.rows(topology) * share)?;
    Ok(generator.draw(topology, share, seed)?)
}

/// Writes a trace atomically, packed if its name ends in `.gz`.
///
/// # Errors
///
/// An error of the file system.
pub fn write(workload: &Workload, path: &Path) -> anyhow::Result<()> {
    let is_packed = path.extension().is_some_and(|extension| extension == "gz");
    super::write_whole(path, |file| {
        if !is_packed {
            return workload.write(file);
        }
        let mut packed = GzEncoder::new(file, Compression::default());
        workload.write(&mut packed).and_then(|()| packed.finish()).map(drop)
    })
}
