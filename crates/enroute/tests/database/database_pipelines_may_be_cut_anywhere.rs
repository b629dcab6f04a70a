//! Pipelined requests in arbitrary segments, some of which wait for the disk: each is answered
//! once, in order.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use crate::support::database::Database;
use crate::support::process::PATIENCE;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Twice as many keys as fit into memory.
const KEYS: u64 = 16_000;
const VALUE_BYTES: usize = 8 << 10;

fn value(key: u64) -> Vec<u8> {
    let mut value = vec![b'v'; VALUE_BYTES];
    value[..8].copy_from_slice(&key.to_le_bytes());
    value
}

fn request(words: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

#[test]
fn every_request_of_a_pipeline_is_answered_in_its_place() {
    // A single worker keeps shards locked between the commands of a pipeline.
    for workers in ["1", "2"] {
        converse(workers);
    }
}

fn converse(workers: &str) {
    let options = ["--memory", "64MiB", "--sync", "no", "--workers", workers];
    let database = Database::start_with(&options);
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let (mut sent, mut expected) = (Vec::new(), Vec::new());
    for key in 0..KEYS {
        request(&[b"SET", format!("k{key}").as_bytes(), &value(key)], &mut sent);
        expected.extend_from_slice(b"+OK\r\n");
    }
    for _ in 0..2_000 {
        let key = random.random_range(0..KEYS);
        let name = format!("k{key}");
        match random.random_range(0..13) {
            10 => {
                request(&[b"CONFIG", b"SET", b"appendfsync", b"no"], &mut sent);
                expected.extend_from_slice(b"+OK\r\n");
            }
            11 => {
                request(&[b"DBSIZE"], &mut sent);
                expected.extend_from_slice(format!(":{KEYS}\r\n").as_bytes());
            }
            12 => {
                let names = [0, 1, 2].map(|next| format!("k{}", (key + next) % KEYS));
                let [one, two, three] = names.each_ref().map(String::as_bytes);
                request(&[b"MULTI"], &mut sent);
                request(&[b"EXISTS", one, two, three], &mut sent);
                request(&[b"EXEC"], &mut sent);
                expected.extend_from_slice(b"+OK\r\n+QUEUED\r\n*1\r\n:3\r\n");
            }
            0 => {
                sent.extend_from_slice(b"PING typed\r\n");
                expected.extend_from_slice(b"$5\r\ntyped\r\n");
            }
            1 | 2 => {
                request(&[b"SET", name.as_bytes(), &value(key)], &mut sent);
                expected.extend_from_slice(b"+OK\r\n");
            }
            3 => {
                request(&[b"STRLEN", name.as_bytes()], &mut sent);
                expected.extend_from_slice(format!(":{VALUE_BYTES}\r\n").as_bytes());
            }
            _ => {
                request(&[b"GET", name.as_bytes()], &mut sent);
                expected.extend_from_slice(format!("${VALUE_BYTES}\r\n").as_bytes());
                expected.extend_from_slice(&value(key));
                expected.extend_from_slice(b"\r\n");
            }
        }
    }
    let mut stream = TcpStream::connect(database.address()).expect("the database listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_nodelay(true).expect("a socket option");
    let mut writer = stream.try_clone().expect("a second handle");
    let writing = thread::spawn(move || {
        let mut rest = &sent[..];
        while !rest.is_empty() {
            // Usually a few requests and a part of the next, sometimes a few bytes.
            let most = if random.random_range(0..4) == 0 { 40 } else { 200_000 };
            let (part, behind) = rest.split_at(random.random_range(1..=most).min(rest.len()));
            writer.write_all(part).expect("the server keeps reading");
            rest = behind;
        }
    });
    let mut answered = vec![0; expected.len()];
    stream.read_exact(&mut answered).expect("an answer to each");
    writing.join().expect("all was sent");
    let wrong = answered.iter().zip(&expected).position(|(got, expected)| got != expected);
    assert_eq!(wrong, None, "the first byte that differs, of {}", expected.len());
}
