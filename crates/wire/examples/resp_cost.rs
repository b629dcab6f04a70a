//! Cost of a request in the codec, in nanoseconds: `cargo run --release --example resp_cost`.
//!
//! The rounds are short and the best one counts, so that a busy machine does not spoil the figure.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::hint::black_box;
use std::time::Instant;

use wire::resp::{Limits, Scanner, command, request, response};

const PIPELINED: usize = 1_000;
const ROUNDS: usize = 500;

fn main() {
    let limits = Limits::default();
    let key = "key:000000000042";
    let mut gets = Vec::new();
    let mut replies = Vec::new();
    for _ in 0..PIPELINED {
        request::write_command(&mut gets, &["GET", key]);
        response::write_bulk(&mut replies, &[b'v'; 100]);
    }

    report("decode GET of 16 bytes", || decode_all(&gets, |_| true, &limits));
    report("decode and find the command", || {
        decode_all(&gets, |request| command::find(request).is_some(), &limits);
    });
    report("decode, find and take the key", || {
        decode_all(&gets, |request| has_key(request).unwrap_or(false), &limits);
    });
    for name in ["GET", "get", "HGETALL", "GEORADIUSBYMEMBER_RO", "FT.SEARCH"] {
        report(&format!("look up {name}"), || {
            for _ in 0..PIPELINED {
                black_box(command::lookup(black_box(name.as_bytes())));
            }
        });
    }
    report("scan a reply of 100 bytes", || {
        let mut scanner = Scanner::new(&limits);
        let mut rest = black_box(&replies[..]);
        while let Ok(progress) = scanner.advance(rest)
            && progress.complete
        {
            rest = rest.get(progress.consumed..).unwrap_or_default();
        }
    });
    report("write a bulk reply of 100 bytes", || {
        let mut out = Vec::with_capacity(replies.len());
        for _ in 0..PIPELINED {
            response::write_bulk(&mut out, black_box(&[b'v'; 100]));
        }
        black_box(out);
    });
}

fn decode_all(bytes: &[u8], look: impl Fn(&request::Request<'_>) -> bool, limits: &Limits) {
    let mut rest = black_box(bytes);
    while let Ok(Some((request, taken))) = request::decode(rest, limits) {
        black_box(look(&request));
        black_box(&request);
        rest = rest.get(taken..).unwrap_or_default();
    }
}

fn has_key(request: &request::Request<'_>) -> Option<bool> {
    let mut keys = command::find(request)?.keys(request).ok()?;
    Some(black_box(keys.next()).is_some())
}

/// Prints the time of one of [`PIPELINED`] items in the best round.
fn report(what: &str, mut round: impl FnMut()) {
    let best = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        round();
        start.elapsed()
    });
    let nanoseconds = best.min().unwrap_or_default().as_secs_f64() * 1e9 / PIPELINED as f64;
    println!("{nanoseconds:7.1} ns  {what}");
}
