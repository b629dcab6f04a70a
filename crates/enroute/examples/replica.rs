//! The scripted primary of a replica set that the tests use, as a server of its own: an origin with
//! a change stream of the whole deployment, for `make bench-cache`.
//!
//! It prints `listening on HOST:PORT` to standard error and serves until it is killed.

// It uses a part of what the tests do.
#![allow(dead_code, unreachable_pub, clippy::print_stderr)]

use std::thread;

#[path = "../tests/support/message.rs"]
mod message;
#[path = "../tests/support/process.rs"]
mod process;
#[path = "../tests/support/replica.rs"]
mod replica;
#[path = "../tests/support/replica_set.rs"]
mod replica_set;

fn main() {
    let replica = replica::Replica::start(replica::Kind::Primary);
    eprintln!("listening on {}", replica.address());
    loop {
        thread::park();
    }
}
