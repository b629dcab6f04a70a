//! Clients that ask for random operations on few keys, in Redis's protocol, and record the replies.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::history::{Operation, Outcome, Recorder, What};
use super::process::PATIENCE;

/// Before an address is tried again at which nothing listens.
const PAUSE: Duration = Duration::from_millis(2);

/// The mix of requests that clients send.
#[derive(Debug)]
pub struct Mix {
    /// Of a hundred operations; what is left are deletes.
    pub reads: u32,
    pub writes: u32,
    pub keys: usize,
    /// Half of all operations are on this number of keys, the first ones: races need contention.
    pub busy_keys: usize,
    /// The name of a key.
    pub name: fn(usize) -> String,
    /// Once in this number of answers, a client closes its connection without waiting for the
    /// answer.
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

    /// Asks while `goes_on` says so; `recorded` hears of each operation that is part of the
    /// history.
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

    /// Reads every key once: whether each was answered, and what was read.
    pub fn read_all(mut self) -> (bool, Vec<Operation>) {
        let are_read = (0..self.mix.keys).all(|key| self.operate(key, What::Read(None), false));
        (are_read, self.recorder.finish())
    }

    /// Whether it is recorded.
    fn operate(&mut self, key: usize, what: What, leaves: bool) -> bool {
        let (address, connection) = (self.address, &mut self.connection);
        let command = command((self.mix.name)(key), what).get_packed_command();
        let reads = matches!(what, What::Read(_));
        self.recorder.record(key, || {
            let Some(mut used) = connection.take().or_else(|| connect(address)) else {
                // It is being started again, or out of room for a moment.
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
                // An answer, and it is no: the write had no effect. That is a promise of ours too,
                // where what is behind us cannot be reached.
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
