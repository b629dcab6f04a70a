//! The history of many MongoDB clients on few documents.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use bson::{Document, doc};
use mongodb::error::{Error, ErrorKind};
use mongodb::options::ClientOptions;
use mongodb::sync::Client;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::history::{self, GoesOn, Operation, Outcome, Recorder, What};
use super::process::PATIENCE;

const CLIENTS: usize = 8;
pub const KEYS: usize = 20;

/// Clients of `address` send one request after another while it `goes_on`.
pub fn work(address: SocketAddr, seed: u64, start: Instant, goes_on: GoesOn<'_>) -> Vec<Operation> {
    history::of_clients(CLIENTS, |number| client(number, address, seed, start, goes_on))
}

/// Waits until the origin answers a new client of the cache at `address`.
pub fn until_answered(address: SocketAddr) {
    let began = Instant::now();
    while client_of(address).database("admin").run_command(doc! { "ping": 1 }).run().is_err() {
        assert!(began.elapsed() < PATIENCE, "the origin is not reached again");
        thread::sleep(Duration::from_millis(20));
    }
}

fn client(
    number: usize,
    address: SocketAddr,
    seed: u64,
    start: Instant,
    goes_on: GoesOn<'_>,
) -> Vec<Operation> {
    let mut random = Pcg64Mcg::seed_from_u64(seed ^ (number as u64) << 32);
    let mut recorder = Recorder::new(number, start);
    let mut value = number as u64 * 1_000_000_000;
    let users = client_of(address).database("shop").collection::<Document>("users");
    while goes_on() {
        value += 1;
        let key = random.random_range(0..KEYS);
        let filter = doc! { "_id": format!("k{key}") };
        match random.random_range(0..100) {
            0..70 => recorder.record(key, || {
                let found = users.find_one(filter).run().ok()?;
                let value = found.map(|found| found.get_i64("v").expect("a number") as u64);
                Some((What::Read(value), Outcome::Succeeded))
            }),
            70..93 => recorder.record(key, || {
                let mut whole = filter.clone();
                whole.insert("v", value as i64);
                let written = users.replace_one(filter, whole).upsert(true).run();
                Some((What::Write(value), outcome(&written)))
            }),
            _ => recorder
                .record(key, || Some((What::Delete, outcome(&users.delete_one(filter).run())))),
        };
    }
    recorder.finish()
}

fn client_of(address: SocketAddr) -> Client {
    let url = format!("mongodb://{address}/?directConnection=true&retryWrites=false");
    let options = ClientOptions::parse(url).run().expect("a URL");
    Client::with_options(options).expect("good options")
}

/// The outcome of a write: any reply, even an error, determines it; a lost connection does not.
fn outcome<T>(written: &Result<T, Error>) -> Outcome {
    match written.as_ref().map_err(|error| &*error.kind) {
        Ok(_) => Outcome::Succeeded,
        Err(ErrorKind::Command(_) | ErrorKind::Write(_)) => Outcome::Failed,
        Err(_) => Outcome::Unknown,
    }
}
