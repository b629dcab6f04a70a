//! A hit's round trip beside that of the least a server can do.

use super::redis::{filled, percentiles};
use crate::{
    figure::{Figure, Goal},
    load::Session,
    process::{self, CLIENT, SERVER},
    run::{Run, Side},
};

const KEYS: u64 = 1_000;

pub(super) fn hit(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let count = if run.short { 30_000 } else { 100_000 };
    let redis = run.servers.redis(CLIENT)?;
    let cache = filled(run, &redis, &["--workers", "1"], KEYS, 64, SERVER)?;
    let echo = run.servers.stub("echo", SERVER)?;
    let name = "hit-p50-vs-echo";
    let rounds = run.interleave(name, |side, _| {
        let server = if side == Side::Ours { &cache } else { &echo };
        let mut session = Session::connect(server.address)?;
        let taken =
            process::on(CLIENT, || session.round_trips(count, 64, |index| index * 7 % KEYS))??;
        Ok(percentiles(&taken))
    })?;
    let figure =
        Figure::compared(name, rounds.medians(), "µs", "blocking TCP echo", Goal::RatioMax(1.15));
    let note = "one connection, 64 B, server and client each on a core of its own; the echo reads and \
                writes as many bytes";
    Ok(vec![figure.note(note.to_owned())])
}
