//! Whoever moves slots does it alone. One that was stopped while it led, and wakes up when another has
//! gone on with its work, does nothing any more.

mod support;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use redis::cmd;
use support::cluster::{NODES, cluster, connection};
use support::origins::Redis;
use support::process::Process;
use support::state::{by_hand, owner, placer, said};

const SLOT: usize = 12_182; // of {foo}
/// Its move takes some three hundred steps of two commands: long enough to be stopped in the middle, mostly.
const KEYS: usize = 20_000;
/// A busy machine may need so many.
const TRIES: usize = 10;

#[test]
fn a_placer_that_was_stopped_finds_out_that_another_leads() {
    let Some((_running, nodes)) = loaded() else { return };
    let watch = Watch::default();
    let to = thread::scope(|scope| {
        let _end = watch.begin(scope, &nodes);
        let mut tries = (0..TRIES).map(|_| stopped_in_the_middle(&watch, &nodes));
        let (first, to) = tries.find_map(|stopped| stopped).expect("one is stopped in the middle");
        let second = watch.knows(placer(&nodes, "second"));
        assert!(second.stderr_line("a slot's move is over").is_some(), "{}", second.stderr());
        first.signal("CONT");
        let first = first.wait();
        assert!(!first.status.success(), "{}", first.stderr);
        assert!(first.stderr.contains("stopped in the middle of a move"), "{}", first.stderr);
        second.terminate();
        to
    });
    assert!(watch.actors_one_after_the_other() >= 2);
    assert_eq!(nodes[owner(&nodes, SLOT)], to);
    everything_is_there(&nodes);
}

/// A mover and where it was moving the slot to when it was stopped; none if it had moved it by then.
fn stopped_in_the_middle(watch: &Watch, nodes: &[SocketAddr]) -> Option<(Process, SocketAddr)> {
    let from = owner(nodes, SLOT);
    let to = nodes[(from + 1) % NODES];
    let mut source = connection(nodes[from]);
    let mut left = || -> usize {
        cmd("CLUSTER").arg("COUNTKEYSINSLOT").arg(SLOT).query(&mut source).expect("a count")
    };
    let first = watch.knows(mover(nodes, to));
    while left() == KEYS {
        assert!(!first.has_ended(), "{}", first.stderr());
    }
    first.stop();
    // What it had said by then is done before the second answer.
    left();
    if left() > 0 {
        return Some((first, to));
    }
    first.signal("CONT");
    let ended = first.wait();
    assert!(ended.status.success(), "{}", ended.stderr);
    None
}

#[test]
fn of_many_that_want_to_move_slots_one_does_at_a_time() {
    let Some((_running, nodes)) = loaded() else { return };
    let watch = Watch::default();
    thread::scope(|scope| {
        let _end = watch.begin(scope, &nodes);
        let from = owner(&nodes, SLOT);
        let (watch, nodes) = (&watch, &nodes);
        let targets = (0..4).map(|number| nodes[(from + 1 + number) % NODES]);
        let movers: Vec<_> = targets
            .map(|target| scope.spawn(move || moves_at_last(watch, nodes, target)))
            .collect();
        movers.into_iter().for_each(|mover| mover.join().expect("it moves"));
    });
    assert!(watch.actors_one_after_the_other() >= 2);
    everything_is_there(&nodes);
}

/// Who finds somebody else at work all the time gives up, and tries again.
fn moves_at_last(watch: &Watch, nodes: &[SocketAddr], target: SocketAddr) {
    let has_moved = |_| {
        let ended = watch.knows(mover(nodes, target)).wait();
        let gave_up = ended.stderr.contains("may move slots now");
        assert!(ended.status.success() || gave_up, "{}", ended.stderr);
        ended.status.success()
    };
    assert!((0..TRIES).any(has_moved), "it never was its turn");
}

/// Three nodes, and one slot with many keys.
fn loaded() -> Option<(Vec<Redis>, Vec<SocketAddr>)> {
    let nodes = cluster(&[])?;
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let mut home = connection(addresses[owner(&addresses, SLOT)]);
    let mut pipeline = redis::pipe();
    for number in 0..KEYS {
        pipeline.cmd("SET").arg(format!("{{foo}}{number}")).arg(number).ignore();
    }
    pipeline.query::<()>(&mut home).expect("the owner takes them");
    Some((nodes, addresses))
}

fn mover(nodes: &[SocketAddr], to: SocketAddr) -> Process {
    let to = to.to_string();
    Process::start(&mut by_hand(nodes, &["move", "{foo}", "--to", &to, "--log", "debug"]))
}

fn everything_is_there(nodes: &[SocketAddr]) {
    let (output, text) = said(nodes, &["doctor"]);
    assert!(output.status.success() && text.contains("no slot is open"), "{text}");
    let count = |node: &SocketAddr| -> usize {
        let keys = cmd("CLUSTER").arg("COUNTKEYSINSLOT").arg(SLOT).clone();
        keys.query(&mut connection(*node)).expect("a count")
    };
    assert_eq!(count(&nodes[owner(nodes, SLOT)]), KEYS);
    assert_eq!(nodes.iter().map(count).sum::<usize>(), KEYS);
}

/// Who told nodes to MIGRATE when, by what the nodes themselves saw (MONITOR).
#[derive(Default)]
struct Watch {
    /// Processes that may move slots.
    known: Mutex<Vec<u32>>,
    /// When each began and when it last did so.
    acted: Mutex<HashMap<Actor, (f64, f64)>>,
    over: AtomicBool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Actor {
    Process(u32),
    /// Of a process that had ended before its port was looked up. Whoever moves one slot and ends has one
    /// connection to where that comes from.
    Connection(u16),
}

impl Watch {
    /// Watches these nodes until what it returns is dropped.
    fn begin<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        nodes: &[SocketAddr],
    ) -> End<'scope> {
        for node in nodes {
            let mut stream = TcpStream::connect(node).expect("the node listens");
            stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a time");
            stream.write_all(b"MONITOR\r\n").expect("it is heard");
            scope.spawn(move || self.listen(stream));
        }
        End(&self.over)
    }

    fn knows(&self, process: Process) -> Process {
        self.known.lock().unwrap().push(process.id());
        process
    }

    fn listen(&self, stream: TcpStream) {
        let (mut lines, mut line) = (BufReader::new(stream), String::new());
        let mut actors = HashMap::new();
        loop {
            match lines.read_line(&mut line) {
                Ok(0) => return,
                Ok(_) => {
                    self.notice(&line, &mut actors);
                    line.clear();
                }
                // Nothing was said for a while; what came of a line is kept.
                Err(_) if self.over.load(Ordering::Relaxed) => return,
                Err(_) => {}
            }
        }
    }

    /// As in `+1763730000.123456 [0 127.0.0.1:40000] "EVAL" … 'MIGRATE' …`.
    fn notice(&self, line: &str, actors: &mut HashMap<u16, Actor>) {
        if !line.contains("] \"EVAL\" ") || !line.contains("'MIGRATE'") {
            return;
        }
        let at: f64 = line[1..].split(' ').next().and_then(|at| at.parse().ok()).expect("a time");
        let client = line.split(['[', ']']).nth(1).and_then(|client| client.rsplit(':').next());
        let port: u16 = client.and_then(|port| port.parse().ok()).expect("a port");
        let known = self.known.lock().unwrap().clone();
        let actor = *actors.entry(port).or_insert_with(|| {
            let who = known.into_iter().find(|&process| uses(process, port));
            who.map_or(Actor::Connection(port), Actor::Process)
        });
        let mut acted = self.acted.lock().unwrap();
        let (first, last) = acted.entry(actor).or_insert((at, at));
        (*first, *last) = (first.min(at), last.max(at));
    }

    /// How many there were; panics if one began before another had ended.
    fn actors_one_after_the_other(&self) -> usize {
        let mut spans: Vec<(f64, f64)> = self.acted.lock().unwrap().values().copied().collect();
        spans.sort_by(|one, other| one.0.total_cmp(&other.0));
        for pair in spans.windows(2) {
            assert!(pair[0].1 < pair[1].0, "two acted at once: {spans:?}");
        }
        spans.len()
    }
}

/// The end of watching.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether one of the process's sockets has this local port.
fn uses(process: u32, port: u16) -> bool {
    let table = fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let local = fields.get(1).and_then(|local| local.rsplit(':').next());
        (local == Some(&format!("{port:04X}"))).then(|| format!("socket:[{}]", fields[9]))
    };
    let sockets: Vec<String> = table.lines().filter_map(socket).collect();
    let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    files
        .filter_map(|file| fs::read_link(file.path()).ok())
        .any(|file| sockets.iter().any(|socket| file.to_string_lossy() == *socket))
}
