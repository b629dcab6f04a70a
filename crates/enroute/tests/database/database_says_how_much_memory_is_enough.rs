//! `enroute db advise` reports the effect of each size; newly granted memory fills as configured.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::database::Database;
use crate::support::enroute::{admin, program};
use crate::support::process::{Ended, PATIENCE, Process};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const KEYS: u64 = 20_000;
const VALUE_BYTES: usize = 2_000;

fn filled(options: &[&str]) -> Database {
    let database = Database::start_with(options);
    let mut connection = database.connection();
    for first in (0..KEYS).step_by(500) {
        let mut pipeline = redis::pipe();
        for number in first..first + 500 {
            pipeline.cmd("SET").arg(number).arg(vec![b'x'; VALUE_BYTES]).ignore();
        }
        pipeline.exec(&mut connection).expect("they are stored");
    }
    database
}

fn advise(database: &Database, options: &[&str]) -> Ended {
    let address = database.address().to_string();
    let mut command = Command::new(program());
    Process::start(command.args(["db", "advise", "--connect", &address]).args(options)).wait()
}

/// The size on the line about the target, in MiB.
fn least_for(advice: &str, target: &str) -> f64 {
    let begin = format!("{target} needs at least ");
    let line = advice.lines().find_map(|line| line.strip_prefix(&begin));
    let line = line.unwrap_or_else(|| panic!("nothing about {target}:\n{advice}"));
    line.split(' ').next().and_then(|size| size.parse().ok()).expect("a size")
}

#[test]
fn advice_names_the_smallest_size_for_a_target() {
    let database = filled(&["--memory", "32MiB"]);
    let mut connection = database.connection();
    // Most keys are read from disk once and are in memory then: within seconds, not minutes.
    redis::cmd("RESCALE").arg("256MiB").exec(&mut connection).expect("OK");
    let mut random = Pcg64Mcg::seed_from_u64(1);
    // Nine of ten lookups go to a tenth of the keys.
    for _ in 0..100 {
        let mut pipeline = redis::pipe();
        for _ in 0..2_000 {
            let keys = if random.random_bool(0.9) { KEYS / 10 } else { KEYS };
            pipeline.cmd("GET").arg(random.random_range(0..keys)).ignore();
        }
        pipeline.exec(&mut connection).expect("values");
    }
    let told = advise(&database, &["--hit-ratio", "0.6"]);
    assert!(told.status.success(), "{}", told.stderr);
    eprintln!("{}", told.stdout);
    let rows: Vec<Vec<f64>> = told
        .stdout
        .lines()
        .map(|line| line.split_whitespace().filter_map(|word| word.parse().ok()).collect())
        .filter(|row: &Vec<f64>| row.len() == 3)
        .collect();
    assert!(rows.len() > 5, "{}", told.stdout);
    // More memory: more hits, less waiting.
    for pair in rows.windows(2) {
        assert!(pair[0][0] < pair[1][0] && pair[0][1] <= pair[1][1], "{}", told.stdout);
        assert!(pair[0][2] >= pair[1][2], "{}", told.stdout);
    }
    assert!(told.stdout.contains("memory beyond "), "{}", told.stdout);
    let few = least_for(&told.stdout, "0.6");
    let more = least_for(&advise(&database, &["--hit-ratio", "0.85"]).stdout, "0.85");
    assert!(few < more, "60 % from {few} MiB on, 85 % from {more}");
    let patient = least_for(&advise(&database, &["--latency", "1s"]).stdout, "1s");
    assert!(patient <= few, "no lookup takes a second, but that needs {patient} MiB");
    // Each key is read from disk at least once.
    let hasty = advise(&database, &["--latency", "1us"]).stdout;
    assert!(hasty.contains("1us cannot be reached with any size"), "{hasty}");
    let wrong = advise(&database, &["--latency", "soon"]);
    assert!(!wrong.status.success() && wrong.stderr.contains("such as 50us"), "{}", wrong.stderr);
}

#[test]
fn granted_memory_fills_by_the_paper_s_walk_where_it_is_told_to() {
    let options = ["--memory", "32MiB", "--warming", "sequential", "--admin", "127.0.0.1:0"];
    let database = filled(&options);
    let in_memory = || {
        let stats = admin(database.admin(), "/stats").body;
        let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
        stats["entries_in_memory"].as_u64().expect("a number")
    };
    assert!(in_memory() < KEYS, "all fit in memory from the beginning");
    redis::cmd("RESCALE").arg("256MiB").exec(&mut database.connection()).expect("OK");
    let began = Instant::now();
    // No client reads a key.
    while in_memory() < KEYS {
        assert!(began.elapsed() < PATIENCE, "{} of {KEYS} entries", in_memory());
        thread::sleep(Duration::from_millis(20));
    }
}
