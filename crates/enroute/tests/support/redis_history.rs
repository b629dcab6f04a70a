//! The history of many Redis clients on few keys while the path to the origin breaks and the origin
//! is killed.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use testbed::link::{Relay, RelayConfig, RelayHandle};

use super::clients::{Client, Mix};
use super::database::Database;
use super::history::{self, GoesOn, Operation};
use super::origins::Redis;

const CLIENTS: usize = 16;
const MIX: Mix = Mix {
    reads: 70,
    writes: 23,
    keys: 50,
    busy_keys: 10,
    name: |key| format!("key:{key}"),
    leaves_of: Some(1_000),
};

/// A server that is killed. Its acknowledged writes must survive that.
pub trait Origin: Send {
    fn address(&self) -> SocketAddr;
    fn connection(&self) -> redis::Connection;
    fn bring_down(&mut self);
    fn bring_up(&mut self);
}

macro_rules! origins {
    ($($server:ty),+) => {$(
        impl Origin for $server {
            fn address(&self) -> SocketAddr {
                self.address()
            }

            fn connection(&self) -> redis::Connection {
                self.connection()
            }

            fn bring_down(&mut self) {
                self.bring_down();
            }

            fn bring_up(&mut self) {
                self.bring_up();
            }
        }
    )+};
}

origins!(Redis, Database);

/// A path to `origin` that may break.
pub fn path_to(origin: &impl Origin, seed: u64) -> RelayHandle {
    let mut config = RelayConfig::new(origin.address()).round_trip(Duration::from_micros(200));
    config.up.jitter = Duration::from_millis(1);
    config.down.jitter = Duration::from_millis(1);
    config.handshake = false;
    config.seed = seed;
    Relay::start(config).expect("a relay")
}

/// Clients of `address` make `operations` requests in total, while `relay` and `origin` have
/// faults.
pub fn record(
    address: SocketAddr,
    origin: &mut impl Origin,
    relay: &RelayHandle,
    operations: usize,
    seed: u64,
) -> Vec<Operation> {
    let start = Instant::now();
    let trouble = |over: &AtomicBool| make_trouble(origin, relay, over, seed);
    let (history, (cuts, restarts)) =
        history::record(operations, trouble, |goes_on| work(address, seed, start, goes_on));
    eprintln!("seed {seed}: {cuts} cuts, {restarts} restarts in {:?}", start.elapsed());
    history
}

/// Clients of `address` send one request after another while it `goes_on`.
pub fn work(address: SocketAddr, seed: u64, start: Instant, goes_on: GoesOn<'_>) -> Vec<Operation> {
    history::of_clients(CLIENTS, |number| {
        Client::new(number, address, &MIX, seed, start).run(goes_on, || ())
    })
}

/// Breaks the path and the origin occasionally; returns how often.
fn make_trouble(
    origin: &mut impl Origin,
    relay: &RelayHandle,
    over: &AtomicBool,
    seed: u64,
) -> (usize, usize) {
    let mut random = Pcg64Mcg::seed_from_u64(!seed);
    let sleep = |limit: u64, random: &mut Pcg64Mcg| {
        thread::sleep(Duration::from_millis(random.random_range(0..limit)));
    };
    let (mut cuts, mut restarts) = (0, 0);
    while !over.load(Ordering::Relaxed) {
        sleep(400, &mut random);
        match random.random_range(0..10) {
            0..4 => {
                let delay = || {
                    Duration::from_micros(
                        Pcg64Mcg::seed_from_u64(seed ^ cuts as u64).random_range(0..3_000),
                    )
                };
                relay.set_delay(delay(), delay());
            }
            4..6 => {
                relay.cut();
                sleep(50, &mut random);
                relay.restore();
                cuts += 1;
            }
            6..9 => {
                let kill = redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").clone();
                let _: Result<i64, _> = kill.query(&mut origin.connection());
                cuts += 1;
            }
            _ => {
                origin.bring_down();
                sleep(50, &mut random);
                origin.bring_up();
                restarts += 1;
            }
        }
    }
    (cuts, restarts)
}
