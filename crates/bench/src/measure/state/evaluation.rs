//! The evaluation of AnnaBellaDB (§III): a function that moves, the throughput of eighteen
//! functions, and the mean access within a data centre; with slots that follow the functions, and
//! with slots that stay where the hash put them.

use std::time::Duration;

use super::functions::{Accesses, Function, Outcome, Placement, Scenario, Stay, TURN};
use crate::{
    figure::{Figure, Goal, Reading},
    run::{Run, Side},
};

/// Round trip between hosts: 5 ms each way.
const INTER_DC: Duration = Duration::from_millis(10);
/// Round trip within a data centre: 300 µs each way.
const INTRA_DC: Duration = Duration::from_micros(600);
const PEER: &str = "the hash-placed cluster";
/// Accesses a second of a function that reads ten times and writes once: a turn in 200 ms, which is
/// time enough for as many at each host, however far the state is.
const RATE: f64 = 55.0;
/// 260 reads and 26 writes a second (§III-B).
const RATE_OF_MANY: f64 = 286.0;
/// Turns in a row that are local when the state has arrived.
const LOCAL_TURNS: usize = 3;

fn scenario(functions: Vec<Function>, seconds: f64, rtt: Duration) -> Scenario {
    let rtt = format!("{}us", rtt.as_micros());
    Scenario { functions, rate: RATE, seconds, rtt, placement: Placement::Hash }
}

/// Functions that start one after the other on these hosts, at this interval.
fn one_after_another(hosts: &[usize], seconds: f64) -> Vec<Function> {
    let start = |(index, &host)| Function(vec![Stay { from: index as f64 * seconds, host }]);
    hosts.iter().enumerate().map(start).collect()
}

/// Runs the scenario with slots that stay, then with slots that follow.
fn both(run: &Run, name: &str, scenario: &Scenario) -> anyhow::Result<(Outcome, Outcome)> {
    let part = |placement, before: f64| {
        let scenario = Scenario { placement, ..scenario.clone() };
        let show = |share| run.show(&format!("{placement}"), before + share / 2.0);
        let outcome = scenario.run(&run.servers, show)?;
        run.keep(&format!("{name}-{placement}"), &outcome)?;
        anyhow::Ok(outcome)
    };
    let hashed = part(Placement::Hash, 0.0)?;
    Ok((part(Placement::Following, 0.5)?, hashed))
}

/// A function that moves through four hosts (Figure 5).
pub(crate) fn moving(run: &Run) -> anyhow::Result<Vec<Figure>> {
    // Longer than the cool-down of a slot that goes back to the second host, where the hash had put
    // it.
    let stays = if run.short { 25.0 } else { 60.0 };
    let stay = |host| Stay { from: host as f64 * stays, host };
    let function = Function((0..4).map(stay).collect());
    let scenario = scenario(vec![function.clone()], 4.0 * stays, INTER_DC);
    let (ours, hashed) = both(run, "moving-function", &scenario)?;
    let late: Vec<f64> = function
        .0
        .iter()
        .skip(1)
        .map(|stay| local_after(&ours.accesses[0], stay.from, stay.from + stays))
        .collect();
    let worst = late.iter().copied().fold(0.0, f64::max);
    let note = format!(
        "four hosts in network namespaces, 5 ms each way by `enroute link`; {stays} s at each host, {RATE} \
         accesses a second, ten reads to a write"
    );
    Ok(vec![
        Figure::compared(
            "moving-function-mean",
            (ours.mean_us(), hashed.mean_us()),
            "µs",
            PEER,
            Goal::RatioMax(0.35),
        )
        .note(note.clone()),
        Figure::alone("local-after-move-s", worst, "s", 3.0)
            .note(format!("the worst of {late:.1?}; {note}")),
    ])
}

/// Returns the number of seconds from `from` until accesses became local and stayed so for some
/// turns.
fn local_after(accesses: &Accesses, from: f64, until: f64) -> f64 {
    let there: Vec<(f64, f64)> = accesses
        .each()
        .map(|(at, took)| (at / 1e6, took))
        .filter(|(at, _)| (from..until).contains(at))
        .collect();
    let turns: Vec<&[(f64, f64)]> = there.chunks_exact(TURN).collect();
    let is_local = |turn: &&[(f64, f64)]| {
        let mut times: Vec<f64> = turn.iter().map(|(_, took)| *took).collect();
        times.sort_by(f64::total_cmp);
        times[TURN / 2] < INTER_DC.as_secs_f64() * 1e6 / 2.0
    };
    let arrived = turns.windows(LOCAL_TURNS).find(|some| some.iter().all(is_local));
    arrived.map_or(until, |some| some[0][0].0) - from
}

/// Initial hosts of Figure 4's functions: one, two, six and nine functions.
const MANY: [usize; 18] = [0, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3];

/// Measures the final throughput of eighteen functions (Figure 4).
pub(crate) fn throughput_of_many(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let (apart, settle, last) = if run.short { (1.0, 12.0, 6.0) } else { (2.0, 20.0, 15.0) };
    let functions = one_after_another(&MANY, apart);
    let seconds = functions.len() as f64 * apart + settle + last;
    let scenario = Scenario { rate: RATE_OF_MANY, ..scenario(functions, seconds, INTER_DC) };
    let (ours, hashed) = both(run, "fig4-end-throughput", &scenario)?;
    let rates = (ours.rate_of_last(last), hashed.rate_of_last(last));
    run.keep("fig4-end-throughput", &rates)?;
    let note = format!(
        "1, 2, 6 and 9 functions on four hosts, 5 ms each way, start {apart} s apart; each wants 260 reads \
         and 26 writes a second of the one state, which the placer may move and have copied; the last {last} s"
    );
    let figure =
        Figure::compared("fig4-end-throughput", rates, "accesses/s", PEER, Goal::RatioMin(2.0));
    Ok(vec![figure.note(note)])
}

/// Initial hosts of Figure 3's functions.
const FEW: [usize; 9] = [0, 1, 1, 2, 2, 2, 2, 2, 2];

/// The mean of all accesses while nine functions start within a data centre (Table I).
pub(crate) fn mean_within(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let name = "intradc-mean";
    let apart = if run.short { 2.0 } else { 3.0 };
    let functions = one_after_another(&FEW, apart);
    let scenario = scenario(functions, (FEW.len() + 1) as f64 * apart, INTRA_DC);
    let rounds = run.interleave(name, |side, _| {
        let placement = if side == Side::Ours { Placement::Following } else { Placement::Hash };
        let scenario = Scenario { placement, ..scenario.clone() };
        Ok(Reading::new(scenario.run(&run.servers, |_| ())?.mean_us()))
    })?;
    let note = format!(
        "Figure 3's functions on four hosts, 300 µs each way, start {apart} s apart; {RATE} accesses a second \
         each"
    );
    let figure = Figure::compared(name, rounds.medians(), "µs", PEER, Goal::RatioMax(1.03));
    Ok(vec![figure.note(note)])
}
