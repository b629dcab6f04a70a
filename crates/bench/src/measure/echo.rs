//! Round trip of a hit, compared with that of a minimal server.

use super::redis::{filled, percentiles};
use crate::{
    figure::{Figure, Goal, Rounds},
    load::Session,
    process::{self, CLIENT, Cores, SERVER},
    run::{Run, Side},
};

const KEYS: u64 = 1_000;

pub(super) fn hit(run: &Run) -> anyhow::Result<Vec<Figure>> {
    // On one core only work is measured; on two, both mostly wait for a core to wake up.
    let together = round_trips(run, "hit-p50-vs-echo", SERVER)?;
    let apart = round_trips(run, "hit-p50-vs-echo-apart", CLIENT)?;
    let figure = Figure::compared(
        "hit-p50-vs-echo",
        together.medians(),
        "µs",
        "blocking TCP echo",
        Goal::RatioMax(1.15),
    );
    let (hit, echo) = apart.medians();
    let note = format!(
        "one connection, 64 B, server and client on one core; each on its own: {hit:.1} against \
         {echo:.1} µs, ratio {:.3}; the echo reads and writes as many bytes",
        hit / echo
    );
    Ok(vec![figure.note(note)])
}

fn round_trips(run: &Run, name: &str, client: Cores) -> anyhow::Result<Rounds> {
    let count = if run.short { 20_000 } else { 50_000 };
    let redis = run.servers.redis(CLIENT)?;
    let cache = filled(run, &redis, &["--workers", "1"], KEYS, 64, SERVER)?;
    let echo = run.servers.stub(&["echo"], SERVER)?;
    run.interleave(name, |side, _| {
        let server = if side == Side::Ours { &cache } else { &echo };
        let mut session = Session::connect(server.address)?;
        let taken =
            process::on(client, || session.round_trips(count, 64, |index| index * 7 % KEYS))??;
        Ok(percentiles(&taken))
    })
}
