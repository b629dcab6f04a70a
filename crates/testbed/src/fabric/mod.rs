//! Experiments with the simulator: files in, runs on all cores, results out.
//!
//! `::fabric` simulates packets. This module adds what that crate must not depend on: files,
//! memory, time, threads, and a solver.
//!
//! Read first: [`experiment`], one run; then [`sweep`], many.
//!
//! | module | what it is |
//! |---|---|
//! | [`topology`] | the built-in fabrics, and others from small TOML files |
//! | [`trace`] | traces from files, packed or not, and workloads drawn by name |
//! | [`setting`] | from user input to a checked experiment |
//! | [`experiment`] | one run: inputs, progress and cancellation |
//! | [`mistake`] | invalid inputs, with their position |
//! | [`memory`] | whether a run fits, before it starts |
//! | [`controller`] | the Controller's integer program (Appendix A.1) and its solver |
//! | [`results`] | results of a run, as JSON lines and CSV |
//! | [`series`] | a run over time, as JSON lines |
//! | [`sweep`] | a grid of runs: on all cores, resumed after a stop |
//! | [`page`] | a run as one HTML page that plays it |

pub mod controller;
pub mod experiment;
pub mod memory;
pub mod mistake;
pub mod page;
pub mod results;
pub mod series;
pub mod setting;
pub mod sweep;
pub mod topology;
pub mod trace;

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
};

use anyhow::Context;

/// Writes a file completely, or leaves the one that is there.
fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".part");
    let written = File::create(&unfinished).and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush()
    });
    written
        .and_then(|()| fs::rename(&unfinished, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
