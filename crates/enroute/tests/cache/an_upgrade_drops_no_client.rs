//! SIGUSR2 replaces the cache by a new process on the same port: clients are answered all the time,
//! and while both processes serve nothing is read that a write through the other has changed.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::support::directory::TemporaryDirectory;
use crate::support::enroute::{Cache, program};
use crate::support::origins::Redis;
use crate::support::process::{PATIENCE, raise_open_files, until};
use crate::support::raw::Raw;

/// The process that replaced another. Dropping it kills it.
struct Successor(Pid);

impl Successor {
    /// Of the cache that was sent SIGUSR2, once it serves.
    fn of(cache: &Cache) -> Self {
        let line = cache.process().stderr_line("upgrade: process").expect("it serves");
        let number = line.split(' ').nth(2).and_then(|word| word.parse().ok());
        Self(Pid::from_raw(number.expect("a number")).expect("not 0"))
    }

    fn path(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.0.as_raw_nonzero())
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
        until("it has ended", || {
            let stat = fs::read_to_string(self.path("stat")).unwrap_or_default();
            test_kill_process(self.0).is_err() || stat.contains(") Z")
        });
    }
}

fn upgraded(cache: &Cache) -> Successor {
    cache.process().signal("USR2");
    Successor::of(cache)
}

/// Reads until the answer comes from storage.
fn until_hits(cache: &Cache, client: &mut Raw) {
    until("reads are hits", || {
        client.ask("GET greeting", "$5\r\nhello\r\n");
        cache.statistics()["hits"] > 0.0
    });
}

#[test]
fn no_process_answers_what_a_write_through_the_other_has_changed() {
    let Some(redis) = Redis::start() else { return };
    // It is not waited for after an end without anything under way.
    let options = "drain_timeout = \"60s\"\n[storage]\nquarantine = \"10min\"\n";
    let cache = Cache::start("redis", redis.address(), options);
    let mut old = Raw::connect(cache.address());
    old.ask("SET greeting hello", "+OK\r\n");
    until_hits(&cache, &mut old);
    let successor = upgraded(&cache);
    let mut new = Raw::connect(cache.address());
    old.ask("SET key 0", "+OK\r\n");
    for round in 1..=6 {
        // Both have read the value of before.
        for client in [&mut old, &mut new] {
            client.ask("GET key", &format!("$1\r\n{}\r\n", round - 1));
        }
        let (writer, reader) =
            if round % 2 == 0 { (&mut old, &mut new) } else { (&mut new, &mut old) };
        writer.ask(&format!("SET key {round}"), "+OK\r\n");
        reader.ask("GET key", &format!("$1\r\n{round}\r\n"));
    }
    // Of three processes, two would not know of the writes through the first.
    kill_process(successor.0, Signal::USR2).expect("it runs");
    cache.log_line("no upgrade, the previous one has not ended");
    for client in [&mut old, &mut new] {
        client.ask("GET greeting", "$5\r\nhello\r\n");
        client.ask("GET greeting", "$5\r\nhello\r\n");
    }
    let statistics = cache.statistics_once(|each| each.contains_key("why-not.upgrading"));
    assert_eq!(statistics["hits"], 0.0, "{statistics:?}");

    drop(old);
    let stat = format!("/proc/{}/stat", cache.process().id());
    until("the old process has ended", || {
        fs::read_to_string(&stat).expect("it is not reaped").contains(") Z")
    });
    until_hits(&cache, &mut new);
    drop(successor);
}

/// What happened to the connections of one thread.
#[derive(Default)]
struct Load {
    answered: AtomicUsize,
    closed_idle: AtomicUsize,
    closed_unanswered: AtomicUsize,
}

fn connected(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("no client is refused");
    stream.set_nodelay(true).expect("an option of TCP");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// As drivers do: a connection that was closed while it was idle is replaced before a request.
fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("an option");
    let closed = match stream.peek(&mut [0]) {
        Err(error) => error.kind() != ErrorKind::WouldBlock,
        Ok(count) => count == 0,
    };
    stream.set_nonblocking(false).expect("an option");
    closed
}

/// Sends a request, and reads its reply; false if the connection ends before the reply begins.
fn asked(stream: &mut TcpStream, request: &str, reply: &str) -> bool {
    if stream.write_all(request.as_bytes()).is_err() {
        return false;
    }
    let mut heard = vec![0; reply.len()];
    match stream.read(&mut heard) {
        Ok(count @ 1..) => {
            stream.read_exact(&mut heard[count..]).expect("a reply is whole");
            assert_eq!(String::from_utf8_lossy(&heard), reply);
            true
        }
        Ok(_) => false,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
        Err(error) => panic!("{error} instead of a reply"),
    }
}

/// `count` connections in turn, each with a key of its own that it writes and reads.
fn load(address: SocketAddr, thread: usize, count: usize, stop: &AtomicBool, seen: &Load) {
    let mut clients: Vec<TcpStream> = (0..count).map(|_| connected(address)).collect();
    let mut round = 0;
    while !stop.load(Relaxed) {
        round += 1;
        for (number, stream) in clients.iter_mut().enumerate() {
            let key = format!("k{thread:02}-{number:03}");
            let value = format!("{round:08}");
            let set = format!("*3\r\n$3\r\nSET\r\n$7\r\n{key}\r\n$8\r\n{value}\r\n");
            let get = format!("*2\r\n$3\r\nGET\r\n$7\r\n{key}\r\n");
            let stored = format!("$8\r\n{value}\r\n");
            for (request, reply) in [(&set, "+OK\r\n"), (&get, &stored), (&get, &stored)] {
                if is_closed(stream) {
                    seen.closed_idle.fetch_add(1, Relaxed);
                    *stream = connected(address);
                }
                while !asked(stream, request, reply) {
                    seen.closed_unanswered.fetch_add(1, Relaxed);
                    *stream = connected(address);
                }
                seen.answered.fetch_add(1, Relaxed);
            }
        }
    }
}

const CLIENTS: usize = 1_000;
const THREADS: usize = 8;

#[test]
fn a_thousand_clients_under_load_are_answered_all_the_time() {
    let Some(redis) = Redis::start() else { return };
    raise_open_files();
    let cache = Cache::start("redis", redis.address(), "drain_timeout = \"2s\"\n");
    let (stop, seen) = (AtomicBool::new(false), Load::default());
    let _successor = thread::scope(|scope| {
        for thread in 0..THREADS {
            let (address, stop, seen) = (cache.address(), &stop, &seen);
            scope.spawn(move || load(address, thread, CLIENTS / THREADS, stop, seen));
        }
        let answered = |more: usize| {
            let before = seen.answered.load(Relaxed);
            until("clients are answered", || seen.answered.load(Relaxed) > before + more);
        };
        answered(2 * CLIENTS);
        let successor = upgraded(&cache);
        answered(CLIENTS);
        until("the old process closes its clients", || {
            seen.closed_idle.load(Relaxed) + seen.closed_unanswered.load(Relaxed) >= CLIENTS
        });
        answered(6 * CLIENTS);
        stop.store(true, Relaxed);
        successor
    });
    let (idle, unanswered) = (seen.closed_idle.load(Relaxed), seen.closed_unanswered.load(Relaxed));
    // A request may cross the end of a connection that is idle when the drain ends.
    assert_eq!(idle + unanswered, CLIENTS, "{unanswered} with a request");
    assert!(unanswered <= CLIENTS / 50, "{unanswered} of {CLIENTS} closed with a request");
}

#[test]
fn a_program_that_cannot_start_changes_nothing() {
    let Some(redis) = Redis::start() else { return };
    let directory = TemporaryDirectory::create();
    let copy = directory.path().join("enroute");
    fs::copy(program(), &copy).expect("room on the disk");
    let cache = Cache::run(&copy, &[("redis", redis.address(), "")], "");
    let mut client = Raw::connect(cache.address());
    client.ask("SET greeting hello", "+OK\r\n");
    until_hits(&cache, &mut client);

    // As a package replaces it.
    let broken = directory.path().join("new");
    fs::write(&broken, "#!/bin/sh\nexit 7\n").expect("room on the disk");
    let whole = fs::metadata(&copy).expect("it is there").permissions();
    fs::set_permissions(&broken, whole).expect("our own file");
    fs::rename(&broken, &copy).expect("one directory");
    cache.process().signal("USR2");
    cache.log_line("no upgrade, nothing changed: the new process ended (exit status: 7)");
    let hits = cache.hits();
    client.ask("GET greeting", "$5\r\nhello\r\n");
    assert!(cache.hits() > hits, "what is stored was dropped");

    fs::copy(program(), directory.path().join("new")).expect("room on the disk");
    fs::rename(directory.path().join("new"), &copy).expect("one directory");
    let successor = upgraded(&cache);
    assert_eq!(fs::read_link(successor.path("exe")).expect("it runs"), copy);
    Raw::connect(cache.address()).ask("GET greeting", "$5\r\nhello\r\n");
}

#[test]
fn what_a_killed_process_left_under_way_is_waited_for() {
    let Some(redis) = Redis::start() else { return };
    let options = "drain_timeout = \"60s\"\n[storage]\nquarantine = \"2s\"\n";
    let cache = Cache::start("redis", redis.address(), options);
    let mut old = Raw::connect(cache.address());
    old.ask("SET greeting hello", "+OK\r\n");
    let _successor = upgraded(&cache);
    let mut new = Raw::connect(cache.address());
    cache.process().signal("KILL");
    let killed = std::time::Instant::now();
    until_hits(&cache, &mut new);
    assert!(killed.elapsed() >= Duration::from_millis(1_900), "{:?}", killed.elapsed());
}
