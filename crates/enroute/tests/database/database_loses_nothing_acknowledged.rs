//! With `--sync always` no acknowledged write is lost when the process is killed repeatedly while
//! clients write.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::database::Database;
use crate::support::seeds;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use redis::Connection;

const CLIENTS: usize = 8;
const KEYS: u64 = 40;
/// Minimum number of writes before a kill.
const ACKNOWLEDGED: u64 = 6;

/// A client's knowledge of its keys.
#[derive(Default)]
struct Known {
    /// The last acknowledged value; `None` if the removal of the key was acknowledged.
    acknowledged: HashMap<String, Option<Vec<u8>>>,
    /// The latest writes, if they were not acknowledged.
    doubtful: HashMap<String, Vec<Option<Vec<u8>>>>,
}

fn connect(address: SocketAddr) -> Option<Connection> {
    redis::Client::open(format!("redis://{address}/")).ok()?.get_connection().ok()
}

/// Writes until the server is killed.
fn write(address: SocketAddr, client: usize, seed: u64, known: &mut Known, count: &AtomicU64) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let Some(mut connection) = connect(address) else { return };
    loop {
        let key = format!("{client}:{}", random.random_range(0..KEYS));
        let deletes = random.random_range(0..8) == 0;
        let length = if random.random_range(0..10) == 0 { 20_000 } else { 200 };
        let value: Option<Vec<u8>> = (!deletes).then(|| {
            (0..random.random_range(1..length)).map(|_| random.random_range(0..=255)).collect()
        });
        let answer: redis::RedisResult<redis::Value> = match &value {
            Some(value) => redis::cmd("SET").arg(&key).arg(value).query(&mut connection),
            None => redis::cmd("DEL").arg(&key).query(&mut connection),
        };
        match answer {
            Ok(_) => {
                known.doubtful.remove(&key);
                known.acknowledged.insert(key, value);
                count.fetch_add(1, SeqCst);
            }
            Err(error) => {
                assert!(error.code().is_none(), "refused: {error}");
                known.doubtful.entry(key).or_default().push(value);
                return;
            }
        }
    }
}

/// Checks that all acknowledged writes are present. The values found resolve the doubtful ones.
fn check(address: SocketAddr, known: &mut Known) -> usize {
    let mut connection = connect(address).expect("the database is back");
    let mut keys: Vec<String> =
        known.acknowledged.keys().chain(known.doubtful.keys()).cloned().collect();
    keys.sort();
    keys.dedup();
    for key in &keys {
        let found: Option<Vec<u8>> =
            redis::cmd("GET").arg(key).query(&mut connection).expect("an answer");
        let acknowledged = known.acknowledged.get(key).cloned().flatten();
        let doubtful = known.doubtful.remove(key).unwrap_or_default();
        let length = |value: &Option<Vec<u8>>| value.as_ref().map(Vec::len);
        assert!(
            found == acknowledged || doubtful.contains(&found),
            "{key}: found {:?} bytes, acknowledged {:?}, doubtful {:?}",
            length(&found),
            length(&acknowledged),
            doubtful.iter().map(length).collect::<Vec<_>>()
        );
        known.acknowledged.insert(key.clone(), found);
    }
    keys.len()
}

/// Name under which failed seeds are stored.
const NAME: &str = "database_kills";

fn kill_again_and_again(runs: usize, seed: u64) -> Option<()> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut database = Database::start_with(&["--sync", "always", "--memory", "32MiB"]);
    let mut known: Vec<Known> = (0..CLIENTS).map(|_| Known::default()).collect();
    let (mut acknowledged, mut checked) = (0, 0);
    for run in 0..runs {
        let address = database.address();
        let count = AtomicU64::new(0);
        // Some writes are acknowledged, and the process is killed during others.
        let pause = Duration::from_micros(random.random_range(0..60_000));
        let seeds: Vec<u64> = known.iter().map(|_| random.random()).collect();
        thread::scope(|scope| {
            for (client, (known, seed)) in known.iter_mut().zip(seeds).enumerate() {
                let count = &count;
                scope.spawn(move || write(address, client, seed, known, count));
            }
            let began = Instant::now();
            while count.load(SeqCst) < ACKNOWLEDGED
                && began.elapsed() < crate::support::process::PATIENCE
            {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(pause);
            database.bring_down();
        });
        acknowledged += count.load(SeqCst);
        database.bring_up();
        checked += known.iter_mut().map(|known| check(database.address(), known)).sum::<usize>();
        if (run + 1) % 20 == 0 {
            eprintln!(
                "{} kills, {acknowledged} writes acknowledged, {checked} keys checked",
                run + 1
            );
        }
    }
    assert!(acknowledged >= runs as u64 * ACKNOWLEDGED, "only {acknowledged} were acknowledged");
    eprintln!(
        "{runs} kills, {acknowledged} writes acknowledged, {checked} keys checked, nothing lost"
    );
    Some(())
}

#[test]
fn nothing_acknowledged_is_lost_in_a_dozen_kills() {
    seeds::each(NAME, [1], |seed| kill_again_and_again(12, seed));
}

#[test]
#[ignore = "two minutes: make soak"]
fn nothing_acknowledged_is_lost_in_two_hundred_kills() {
    let seed = RandomState::new().hash_one(0_u8);
    seeds::each(NAME, [seed], |seed| kill_again_and_again(200, seed));
}
