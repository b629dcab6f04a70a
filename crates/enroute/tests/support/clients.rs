//! Clients that execute random operations on few keys with Redis's protocol, and record the
//! replies.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::history::{Operation, Outcome, Recorder, What};
use super::process::PATIENCE;

/// Pause before another attempt to connect to an address without a listener.
const PAUSE: Duration = Duration::from_millis(2);

/// The mix of requests that clients send.
#[derive(Debug)]
pub struct Mix {
    /// Percentage of reads; the remaining operations are deletes.
    pub reads: u32,
    pub writes: u32,
    pub keys: usize,
    /// Half of all operations are on this number of keys, the first ones: races need contention.
    pub busy_keys: usize,
    /// The name of a key.
    pub name: fn(usize) -> String,
    /// One in this many requests, after which the client closes its connection without waiting for
    /// the reply.
    pub leaves_of: Option<u32>,
}

pub struct Client {
    number: usize,
    address: SocketAddr,
    mix: &'static Mix,
    random: Pcg64Mcg,
    connection: Option<redis::Connection>,
    recorder: Recorder,
}

impl Client {
    /// All clients of a history have the same `start`.
    pub fn new(
        number: usize,
        address: SocketAddr,
        mix: &'static Mix,
        seed: u64,
        start: Instant,
    ) -> Self {
        let random = Pcg64Mcg::seed_from_u64(seed ^ (number as u64) << 32);
        let recorder = Recorder::new(number, start);
        Self { number, address, mix, random, connection: None, recorder }
    }

    /// Executes operations while `goes_on` is true; calls `recorded` for each operation that
    /// becomes part of the history.
    pub fn run(mut self, goes_on: impl Fn() -> bool, recorded: impl Fn()) -> Vec<Operation> {
        let mut value = self.number as u64 * 1_000_000_000;
        let Mix { reads, writes, keys, busy_keys, leaves_of, .. } = *self.mix;
        while goes_on() {
            value += 1;
            let what = match self.random.random_range(0..100) {
                number if number < reads => What::Read(None),
                number if number < reads + writes => What::Write(value),
                _ => What::Delete,
            };
            let keys = if self.random.random_bool(0.5) { busy_keys } else { keys };
            let key = self.random.random_range(0..keys);
            let leaves = leaves_of.is_some_and(|of| self.random.random_ratio(1, of));
            if self.operate(key, what, leaves) {
                recorded();
            }
        }
        self.recorder.finish()
    }

    /// Reads every key once; returns whether all reads were answered, and the reads.
    pub fn read_all(mut self) -> (bool, Vec<Operation>) {
        let are_read = (0..self.mix.keys).all(|key| self.operate(key, What::Read(None), false));
        (are_read, self.recorder.finish())
    }

    /// Executes an operation; returns whether it is recorded.
    fn operate(&mut self, key: usize, what: What, leaves: bool) -> bool {
        let (address, connection) = (self.address, &mut self.connection);
        let command = command((self.mix.name)(key), what).get_packed_command();
        let reads = matches!(what, What::Read(_));
        self.recorder.record(key, || {
            let Some(mut used) = connection.take().or_else(|| connect(address)) else {
                // The server is restarting, or out of memory for a moment.
                thread::sleep(PAUSE);
                return None;
            };
            let unknown = (!reads).then_some((what, Outcome::Unknown));
            if used.send_packed_command(&command).is_err() || leaves {
                return unknown;
            }
            let answer = used.recv_response().map(redis::Value::extract_error);
            let told = match &answer {
                Ok(Ok(reply)) => Some((answered(what, reply), Outcome::Succeeded)),
                Ok(Err(error)) if error.code() == Some("UNCERTAIN") => unknown,
                // An error reply: the write had no effect. This is also what `enroute` promises if
                // it cannot reach the origin.
                Ok(Err(_)) => {
                    thread::sleep(PAUSE);
                    (!reads).then_some((what, Outcome::Failed))
                }
                Err(_) => return unknown,
            };
            *connection = Some(used);
            told
        })
    }
}

fn connect(address: SocketAddr) -> Option<redis::Connection> {
    let client = redis::Client::open(format!("redis://{address}/")).ok()?;
    let connection = client.get_connection().ok()?;
    connection.set_read_timeout(Some(PATIENCE)).ok()?;
    Some(connection)
}

fn command(key: String, what: What) -> redis::Cmd {
    let (name, value) = match what {
        What::Read(_) => ("GET", None),
        What::Write(value) => ("SET", Some(value)),
        What::Delete => ("DEL", None),
    };
    redis::cmd(name).arg(key).arg(value).clone()
}

fn answered(what: What, reply: &redis::Value) -> What {
    match what {
        What::Read(_) => {
            What::Read(redis::from_redis_value_ref(reply).expect("a number or nothing"))
        }
        other => other,
    }
}
