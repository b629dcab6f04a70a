//! Experiments with the simulator: files in, runs on all cores, results out.
//!
//! What a packet does is `::fabric`'s business. Here is what it must not know: files, memory, time,
//! threads, and a solver.
//!
//! Read first: [`experiment`], one run; then [`sweep`], many.
//!
//! | module | what it is |
//! |---|---|
//! | [`topology`] | the built-in fabrics, and others from small TOML files |
//! | [`trace`] | traces from files, packed or not, and workloads drawn by name |
//! | [`setting`] | what people write, checked, as an experiment |
//! | [`experiment`] | one run: what goes in, how it is watched and stopped |
//! | [`memory`] | whether a run fits, before it starts |
//! | [`controller`] | the Controller's integer program (Appendix A.1) and its solver |
//! | [`results`] | what a run found, as JSON lines and CSV |
//! | [`series`] | a run over time, as JSON lines |
//! | [`sweep`] | a grid of runs: on all cores, resumed after a stop |
//! | [`page`] | a run as one HTML page that plays it |

pub mod controller;
pub mod experiment;
pub mod memory;
pub mod page;
pub mod results;
pub mod series;
pub mod setting;
pub mod sweep;
pub mod topology;
pub mod trace;

/// What is wrong with the text of a file, and where: `name:line:column: message`.
fn mistake(name: &str, text: &str, error: &toml::de::Error) -> anyhow::Error {
    anyhow::anyhow!("{name}:{}: {}", notation::place(text, error.span()), error.message())
}
