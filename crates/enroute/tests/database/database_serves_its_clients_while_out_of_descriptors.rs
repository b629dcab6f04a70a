//! While `enroute db` has no file descriptor left for a new client, connected clients are served
//! without delay; a waiting client is accepted once there is a descriptor.

use std::time::{Duration, Instant};

use crate::support::{database::Database, raw::Raw};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// Round trips of one attempt. A worker that paused after each failed accept would take at least as
/// many pauses.
const ROUND_TRIPS: u32 = 20;
/// The pause after a failed accept.
const REST: Duration = Duration::from_millis(50);
/// Number of attempts: on a busy machine, one of them is undisturbed.
const ATTEMPTS: u32 = 100;

#[test]
fn database_serves_its_clients_while_out_of_descriptors() {
    // A single worker, which accepts and serves.
    let database = Database::start_with(&["--workers", "1"]);
    let mut served = Raw::connect(database.address());
    served.ask("PING", "+PONG\r\n");
    let process = i32::try_from(database.process().id()).ok().and_then(Pid::from_raw);
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let set = |limit| prlimit(process, Resource::Nofile, limit).expect("a soft limit");
    set(Rlimit { current: Some(0), ..limit });
    let mut waiting = Raw::connect(database.address());
    waiting.command("PING");
    database.process().stderr_line("cannot accept").expect("the limit is reached");

    let undisturbed = (0..ATTEMPTS).any(|_| {
        let began = Instant::now();
        (0..ROUND_TRIPS).for_each(|_| served.ask("PING", "+PONG\r\n"));
        began.elapsed() < REST * ROUND_TRIPS / 2
    });
    assert!(undisturbed, "served clients waited for each failed accept, in {ATTEMPTS} attempts");

    set(limit);
    waiting.hear("+PONG\r\n");
}
