//! `enroute demo edge`: the paper's Figure 1 on one machine, and the effect of a failure of the key
//! server.
//!
//! An origin site, a database with the private keys of 100,000 domains, a key server and an edge
//! ([`stage`]), each except the origin a separate process. A returning visitor (one curl that keeps
//! its TLS session) and new visitors (a curl each) fetch pages during the whole demonstration
//! ([`visitors`]); the key server is killed and restarted.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::report::Table;

mod filling;
mod stage;
mod visitors;

use stage::Stage;
use visitors::Returning;

/// Duration of each phase.
const PHASE: Duration = Duration::from_secs(5);
/// Interval between new visitors.
const VISIT_INTERVAL: Duration = Duration::from_millis(250);

/// Legend of the table.
pub const EXPLANATION: &str = "
returning: pages to a visitor that resumes its TLS session (each page over its own connection); new:
pages to new visitors, each of which needs the private key; a failure is the TLS alert internal_error.
full, resumed, refused: handshakes that the edge counted; hits: pages that it had stored.";

/// Runs the demonstration with this many keys in the database; `stop` ends it early.
///
/// # Errors
/// A process could not be started, or did not behave as expected.
pub fn run(keys: usize, stop: &AtomicBool) -> anyhow::Result<Table<9>> {
    visitors::look_for_curl()?;
    let mut stage = Stage::set(keys, stop)?;
    eprintln!("first page of a browser:\n  {}", visitors::first_look(&stage)?);
    let mut table = Table::new([
        "key_server",
        "returning_ok",
        "returning_failed",
        "new_ok",
        "new_failed",
        "full",
        "resumed",
        "refused",
        "hits",
    ]);
    let returning = Returning::start(&stage, 3 * PHASE)?;
    for phase in ["up", "killed", "back"] {
        match phase {
            "killed" => stage.kill_key_server(),
            "back" => stage.start_key_server()?,
            _ => {}
        }
        eprintln!("the key server is {phase}");
        let (before, seen) = (stage.counted()?, returning.pages());
        let (mut good, mut failed, mut last_failure) = (0, 0, None);
        let began = Instant::now();
        while began.elapsed() < PHASE && !stop.load(Relaxed) {
            match visitors::visit(&stage)? {
                Ok(()) => good += 1,
                Err(said) => {
                    failed += 1;
                    last_failure = Some(said);
                }
            }
            thread::sleep(VISIT_INTERVAL);
        }
        if let Some(said) = last_failure {
            eprintln!("  a new visitor got: {said}");
        }
        let (after, pages) = (stage.counted()?, returning.pages());
        let counted = |name: &str| after(name) - before(name);
        table.row([
            json!(phase),
            json!(pages.0 - seen.0),
            json!(pages.1 - seen.1),
            json!(good),
            json!(failed),
            json!(counted("handshakes_full")),
            json!(counted("handshakes_resumed")),
            json!(counted("handshakes_without_key")),
            json!(counted("hits")),
        ]);
    }
    Ok(table)
}
