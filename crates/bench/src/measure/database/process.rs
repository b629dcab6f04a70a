//! The engine alone, called in process: its example programs measure themselves.

use anyhow::Context;

use crate::{
    figure::{Figure, Goal, Reading},
    run::Run,
};

/// Runs an example of crate `store` in a directory of its own and returns its output.
pub(super) fn example(run: &Run, name: &str, numbers: &[u64]) -> anyhow::Result<String> {
    let directory = run.servers.directory(name)?;
    let mut program = run.servers.example("store", name)?;
    program.arg(&directory).args(numbers.iter().map(u64::to_string));
    let output = run.output(name, &mut program);
    std::fs::remove_dir_all(&directory)?;
    output
}

/// Lookups of values of 4 KiB by one thread, all in memory; and by eight with next to nothing but
/// the index in memory, beside bare reads of the same files by as many.
pub(in crate::measure) fn lookups(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let entries: u64 = if run.short { 25_000 } else { 100_000 };
    let said = example(run, "elastic_lookups", &[entries, run.rounds as u64])?;
    let value = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|text| text.parse::<f64>().ok()).with_context(|| format!("no {name}: {said}"))
    };
    let (copied, one_by_one) = (value("copied")?, value("one-by-one")?);
    let two_pages = value("cold-bare-two")?;
    let bare = value("cold-bare")?;
    let cold = Reading::new(value("cold")?).with("bare", bare).with("bare_two", two_pages);
    let without_index = value("cold-without-index")? / value("cold-without-index-bare")?;
    let in_memory = 100.0 * value("cold-in-memory")?;
    run.keep("in-process", &cold)?;
    let lookups = Figure::at_least("in-process-lookups", value("in-memory")?, "lookups/s", 2e6);
    let beside = Figure::compared(
        "cold-vs-pread",
        (cold.value, bare),
        "lookups/s",
        "preads of 4 KiB past the page cache",
        Goal::RatioMin(0.8),
    );
    Ok(vec![
        lookups.note(format!(
            "{entries} × 4 KiB, one thread, by its processor time, sixteen keys known together as of a pipeline; with every \
             value copied out {copied:.0}/s; one by one {one_by_one:.0}/s"
        )),
        beside.note(format!(
            "{entries} × 4 KiB, four stores as in a database, 8 threads each; a value and its header lie \
             across two pages: {:.3} of {two_pages:.0} preads of both; the index in memory, and {in_memory:.1} % of what \
             was asked for; without room for the index {without_index:.3}",
            cold.value / two_pages
        )),
    ])
}
