//! Gets answered over a veth pair: a flood from inside the kernel on the first processor, the
//! program or memcached on the second.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Context, ensure};
use rustix::process::{Pid, setpriority_process};
use switch::{
    attach,
    flood::{Awaited, Flood, Question},
    frame::Frame,
    measure::Measure,
};
use wire::{
    memcache::frame::Frame as Datagram,
    netcache::{self, Message, Op},
};

use super::{
    Reading,
    host::{KEYS, Memcached, PORT, at_switch, beside, key, stay_on},
};
use crate::{
    clock::now,
    rack::namespaces::{End, GATEWAY, Namespaces, station},
    services::Switch,
};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
/// Request rates per second: an overloaded responder answers less than its maximum.
const RATES: [u32; 9] =
    [60_000, 90_000, 130_000, 200_000, 400_000, 700_000, 1_000_000, 1_500_000, 4_000_000];
const STEP: Duration = Duration::from_millis(300);
const TICK: Duration = Duration::from_micros(100);
/// Requests per call; each call builds its frames anew.
const AT_ONCE: u32 = 8_192;
/// Nice values of receiving and sending; 0 is the default of other processes.
const RECEIVES: i32 = -20;
const ASKS: i32 = -10;
/// Port of the smallest responder.
const SMALLEST_PORT: u16 = 50_000;

/// The responder, and the requests.
#[derive(Clone, Copy)]
enum Peer {
    /// memcached, or the program in front of it.
    Memcached,
    /// The smallest possible responder: the limit of the veth pair and the flood.
    Smallest,
}

/// Answers per second, and answers per second of processor time of the second processor; the latter
/// hardly depends on other load.
#[derive(Default)]
struct Speed {
    rate: f64,
    per_cpu_s: f64,
}

pub(super) fn measure<S: Switch>(
    rounds: usize,
    show: impl Fn(&str) + Sync,
) -> anyhow::Result<Vec<Reading>> {
    let namespaces = Namespaces::build()?;
    let memcached = Memcached::start(&namespaces, End::Switch, GATEWAY)?;
    let server: SocketAddr = (GATEWAY, PORT).into();
    let (mut ours, mut theirs, mut least) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        show(&format!("round {} of {rounds}", round + 1));
        let most = |peer| best(&namespaces, peer, memcached.id());
        ours.push(beside::<S, _>(&namespaces, server, Some(KEYS), || most(Peer::Memcached))?);
        // A veth pair accepts XDP frames at one end only if a program is attached to the other.
        let passing = at_switch(&namespaces, || Ok(attach::accept("client0")?))?;
        theirs.push(beside::<S, _>(&namespaces, server, None, || most(Peer::Memcached))?);
        drop(passing);
        let responding = at_switch(&namespaces, smallest)?;
        least.push(beside::<S, _>(&namespaces, server, None, || most(Peer::Smallest))?);
        drop(responding);
    }
    let readings = [("gets", ours), ("memcached", theirs), ("smallest responder", least)];
    Ok(readings
        .into_iter()
        .flat_map(|(name, speeds)| {
            let (rates, per_cpu) = speeds.iter().map(|speed| (speed.rate, speed.per_cpu_s)).unzip();
            let name_per_cpu = format!("{name}, of a CPU second");
            [
                Reading { name: name.into(), values: rates, unit: "1/s" },
                Reading { name: name_per_cpu, values: per_cpu, unit: "1/s" },
            ]
        })
        .collect())
}

fn smallest() -> anyhow::Result<Measure> {
    let mut measure = Measure::load(KEYS)?;
    for number in 0..KEYS {
        measure.store(name(number), [7; 16])?;
    }
    measure.attach("client0")?;
    Ok(measure)
}

/// A key of 16 bytes for the smallest responder.
fn name(number: u32) -> netcache::Key {
    let mut name = *b"key:............";
    name[4..12].copy_from_slice(format!("{number:08}").as_bytes());
    name
}

/// A get of the first key, the position of its 8 digits in the payload, and the expected answer.
fn get(peer: Peer) -> (u16, Vec<u8>, u32, Awaited) {
    match peer {
        Peer::Memcached => {
            let text = format!("get {}\r\n", key(0));
            let datagram = Datagram::whole(1, text.as_bytes()).bytes();
            // memcached's datagram header, "get key:".
            (PORT, datagram, 8 + 8, Awaited { port: PORT, offset: 8, word: *b"VALU" })
        }
        Peer::Smallest => {
            let message = Message::new(Op::Get, 1, name(0)).bytes();
            let awaited = Awaited { port: SMALLEST_PORT, offset: 32, word: [7, 0, 0, 0] };
            (SMALLEST_PORT, message, 8 + 4, awaited)
        }
    }
}

/// Maximum number of answers per second over all rates.
fn best(namespaces: &Namespaces, peer: Peer, memcached: Pid) -> anyhow::Result<Speed> {
    let (port, payload, digits, awaited) = get(peer);
    let frame = Frame::udp((CLIENT, 40_000).into(), (GATEWAY, port).into());
    let mut frame = frame.bytes(&payload);
    frame[..6].copy_from_slice(&station(End::Switch));
    frame[6..12].copy_from_slice(&station(End::Client));
    // Without a checksum, since the key changes.
    frame[40..42].copy_from_slice(&[0, 0]);
    // After the Ethernet, IPv4 and UDP headers.
    let question = Question { frame: &frame, key_offset: 14 + 20 + 8 + digits, keys: KEYS };
    let index = index_of("eth0").context("the namespace has no interface eth0")?;
    let mut flood = Flood::at("eth0", index, question, awaited)?;
    let working = [apart(namespaces, End::Switch, "client0", 1)?, memcached];
    apart(namespaces, End::Client, "eth0", 0)?;
    // Waiting answers are received before further requests are sent: the buffer holds 256.
    setpriority_process(None, ASKS).context("cannot set a priority")?;
    let mut best = Speed::default();
    for rate in RATES {
        flood.begin()?;
        let (before, ran_before) = (flood.tally()?, ran(working)?);
        let began = now();
        let mut asked = 0;
        while now() < began + STEP {
            let due = ((now() - began).as_secs_f64() * f64::from(rate)) as u32;
            if due > asked {
                let some = (due - asked).min(AT_ONCE);
                flood.ask(some)?;
                asked += some;
            } else {
                thread::sleep(TICK);
            }
        }
        let span = now() - began;
        let after = flood.tally()?;
        let (answers, found) = (after.answers - before.answers, after.found - before.found);
        ensure!(found == answers, "{} of {answers} answers do not have the value", answers - found);
        let ran = ran(working)? - ran_before;
        best.rate = best.rate.max(found as f64 / span.as_secs_f64());
        best.per_cpu_s = best.per_cpu_s.max(found as f64 / ran.as_secs_f64().max(1e-6));
    }
    Ok(best)
}

/// The number of an interface of this thread's namespace.
fn index_of(interface: &str) -> Option<u32> {
    let text = fs::read_to_string("/proc/thread-self/net/igmp").ok()?;
    // "2\teth0      :     1      V3"
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let index = words.next()?.parse().ok()?;
        (words.next()? == interface).then_some(index)
    })
}

/// Makes a separate kernel thread, pinned to one processor, receive the packets of an interface.
fn apart(
    namespaces: &Namespaces,
    end: End,
    interface: &str,
    processor: usize,
) -> anyhow::Result<Pid> {
    let name = namespaces.name(end);
    let script = format!("echo 1 > /sys/class/net/{interface}/threaded");
    let done = Command::new("ip").args(["netns", "exec", &name, "sh", "-c", &script]).status()?;
    ensure!(done.success(), "cannot give {interface} its own receive thread");
    let prefix = format!("napi/{interface}-");
    let mut threads: Vec<i32> = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        threads.extend(id.filter(|_| comm.starts_with(&prefix)));
    }
    // Interfaces in other namespaces may have the same name; this one has the newest thread.
    let newest = threads.into_iter().max().and_then(Pid::from_raw);
    let newest = newest.with_context(|| format!("found no kernel thread {prefix}*"))?;
    setpriority_process(Some(newest), RECEIVES).context("cannot set a priority")?;
    stay_on(processor, Some(newest))?;
    Ok(newest)
}

/// Processor time of the threads of these processes.
fn ran(processes: [Pid; 2]) -> anyhow::Result<Duration> {
    let mut sum = 0;
    for process in processes {
        for thread in fs::read_dir(format!("/proc/{process}/task"))?.flatten() {
            let text = fs::read_to_string(thread.path().join("schedstat"))?;
            let ran = text.split(' ').next().context("a file schedstat is empty")?;
            sum += ran.parse::<u64>()?;
        }
    }
    Ok(Duration::from_nanos(sum))
}
