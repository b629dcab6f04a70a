//! Gets answered over a veth pair: a flood from inside the kernel on the first processor, the program
//! or memcached on the second.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Context, ensure};
use rustix::process::Pid;
use switch::{
    attach,
    flood::{Awaited, Flood, Question},
    frame::Frame,
};
use wire::memcache::frame::Frame as Datagram;

use super::{
    Reading,
    host::{KEYS, Memcached, PORT, beside, key, stay_on},
};
use crate::switch::{
    now,
    rack::namespaces::{End, GATEWAY, Namespaces, station},
};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
/// Rates asked at, a second: whoever is asked too much answers less than it could.
const RATES: [u32; 8] = [60_000, 90_000, 130_000, 200_000, 400_000, 700_000, 1_000_000, 4_000_000];
const STEP: Duration = Duration::from_millis(300);
const TICK: Duration = Duration::from_millis(1);

pub(super) fn measure(rounds: usize, show: impl Fn(&str) + Sync) -> anyhow::Result<Vec<Reading>> {
    let namespaces = Namespaces::build()?;
    let _memcached = Memcached::start(&namespaces, End::Switch, GATEWAY)?;
    let server: SocketAddr = (GATEWAY, PORT).into();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        show(&format!("round {} of {rounds}", round + 1));
        ours.push(beside(&namespaces, server, Some(KEYS), || best(&namespaces))?);
        // Frames go into a veth pair's end only where a program receives.
        let passing = accepting(&namespaces)?;
        theirs.push(beside(&namespaces, server, None, || best(&namespaces))?);
        drop(passing);
    }
    Ok(vec![
        Reading { name: "gets".into(), values: ours, unit: "1/s" },
        Reading { name: "memcached".into(), values: theirs, unit: "1/s" },
    ])
}

fn accepting(namespaces: &Namespaces) -> anyhow::Result<attach::Accepting> {
    thread::scope(|scope| {
        let accepting = scope.spawn(|| {
            namespaces.enter(End::Switch)?;
            anyhow::Ok(attach::accept("client0")?)
        });
        accepting.join().map_err(|_| anyhow::anyhow!("cannot accept"))?
    })
}

/// The most answers a second, over all rates.
fn best(namespaces: &Namespaces) -> anyhow::Result<f64> {
    let text = format!("get {}\r\n", key(0));
    let datagram = Datagram::whole(1, text.as_bytes()).bytes();
    let frame = Frame::udp((CLIENT, 40_000).into(), (GATEWAY, PORT).into());
    let mut frame = frame.bytes(&datagram);
    frame[..6].copy_from_slice(&station(End::Switch));
    frame[6..12].copy_from_slice(&station(End::Client));
    // Without a checksum, since the key changes.
    frame[40..42].copy_from_slice(&[0, 0]);
    // Ethernet, IPv4, UDP, memcached's datagram, "get key:".
    let question = Question { frame: &frame, key_offset: 14 + 20 + 8 + 8 + 8, keys: KEYS };
    let awaited = Awaited { port: PORT, offset: 8, word: *b"VALU" };
    let index = index_of("eth0").context("no eth0")?;
    let mut flood = Flood::at("eth0", index, question, awaited)?;
    apart(namespaces, End::Switch, "client0", 1)?;
    apart(namespaces, End::Client, "eth0", 0)?;
    let mut best = 0.0f64;
    for rate in RATES {
        flood.begin()?;
        let before = flood.tally()?;
        let began = now();
        let mut asked = 0;
        while now() < began + STEP {
            let due = ((now() - began).as_secs_f64() * f64::from(rate)) as u32;
            if due > asked {
                let some = (due - asked).min(8_192);
                flood.ask(some)?;
                asked += some;
            } else {
                thread::sleep(TICK / 4);
            }
        }
        let span = now() - began;
        let after = flood.tally()?;
        let (answers, found) = (after.answers - before.answers, after.found - before.found);
        ensure!(found == answers, "{} of {answers} answers do not have the value", answers - found);
        best = best.max(found as f64 / span.as_secs_f64());
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

/// Lets an interface's packets be received by a thread of their own, on one processor.
fn apart(
    namespaces: &Namespaces,
    end: End,
    interface: &str,
    processor: usize,
) -> anyhow::Result<()> {
    let name = namespaces.name(end);
    let script = format!("echo 1 > /sys/class/net/{interface}/threaded");
    let done = Command::new("ip").args(["netns", "exec", &name, "sh", "-c", &script]).status()?;
    ensure!(done.success(), "{interface} cannot be received by a thread of its own");
    let prefix = format!("napi/{interface}-");
    let mut threads: Vec<i32> = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        threads.extend(id.filter(|_| comm.starts_with(&prefix)));
    }
    // Others' interfaces may have the same name; this one's thread is the newest.
    let newest = threads.into_iter().max().and_then(Pid::from_raw);
    stay_on(processor, Some(newest.with_context(|| format!("no thread {prefix}"))?))
}
