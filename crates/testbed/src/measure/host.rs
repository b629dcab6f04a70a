//! A memcached in a namespace, with and without the XDP program in front of it.

use std::{
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket},
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};

use anyhow::{Context, anyhow, ensure};
use rustix::{
    process::Pid,
    thread::{CpuSet, sched_setaffinity},
};
use switch::{
    attach::Side,
    install::Key,
    layout::Protocol,
    name,
    plane::{Config, DataPlane},
};
use wire::memcache::frame::Frame;

use crate::{
    clock::now,
    rack::namespaces::{End, Namespaces},
    services::Switch,
};

pub(super) const PORT: u16 = 11_211;
/// Keys stored; a power of two.
pub(super) const KEYS: u32 = 1024;
const VALUE_BYTES: usize = 64;
const START_MAX: Duration = Duration::from_secs(10);

/// `key:` and eight digits.
pub(super) fn key(number: u32) -> String {
    format!("key:{number:08}")
}

/// Pins a thread to one processor; `None` is the current thread.
pub(super) fn stay_on(processor: usize, thread: Option<Pid>) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(thread, &set).context("cannot pin the thread to a processor")
}

/// memcached; dropping this ends it.
pub(super) struct Memcached(Child);

impl Memcached {
    /// Starts one on the second processor, with all keys stored.
    pub(super) fn start(
        namespaces: &Namespaces,
        end: End,
        address: Ipv4Addr,
    ) -> anyhow::Result<Self> {
        let (listen, port) = (address.to_string(), PORT.to_string());
        let child = Command::new("ip")
            .args(["netns", "exec", &namespaces.name(end), "memcached", "-u", "nobody", "-t", "1"])
            .args(["-l", &listen, "-p", &port, "-U", &port])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start memcached; ./deps.sh installs it")?;
        let memcached = Self(child);
        stay_on(1, Some(memcached.id()))?;
        thread::scope(|scope| {
            let storing = scope.spawn(|| {
                namespaces.enter(end)?;
                store((address, PORT).into())
            });
            storing.join().map_err(|_| anyhow!("cannot store"))?
        })?;
        Ok(memcached)
    }

    /// Its process.
    pub(super) fn id(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn store(server: SocketAddr) -> anyhow::Result<()> {
    let until = now() + START_MAX;
    let mut stream = loop {
        match TcpStream::connect(server) {
            Ok(stream) => break stream,
            Err(error) if now() > until => return Err(error).context("memcached does not listen"),
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    };
    let mut answers = BufReader::new(stream.try_clone()?);
    for number in 0..KEYS {
        let value = "v".repeat(VALUE_BYTES);
        // In one write: a second one would wait for the acknowledgement of the first.
        let command = format!("set {} 0 0 {VALUE_BYTES}\r\n{value}\r\n", key(number));
        stream.write_all(command.as_bytes())?;
        let mut line = String::new();
        answers.read_line(&mut line)?;
        ensure!(line == "STORED\r\n", "memcached: expected STORED after a set, got {line:?}");
    }
    Ok(())
}

/// Attaches the program to `client0` of this thread's namespace, caches the first `keys` keys,
/// signals that, and runs the controller until it is stopped.
fn control<S: Switch>(
    server: SocketAddr,
    keys: u32,
    ready: impl FnOnce(),
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let mut config = Config { netcache_port: 0, memcache_port: PORT, ..Config::default() };
    if keys == 0 {
        // No further key becomes hot enough to be cached.
        config.statistics.threshold = u16::MAX;
    }
    let mut plane = DataPlane::load(config)?;
    plane.attach("client0", Side::Clients, false)?;
    let seed = plane.config().seed;
    let mut switch = S::new(plane)?;
    let keys: Vec<Key> = (0..keys)
        .map(|number| {
            let bytes = key(number).into_bytes();
            let name = name::memcache(&bytes, server, false, seed);
            Key { name, bytes, server, protocol: Protocol::Memcache, lease: 0 }
        })
        .collect();
    let valid = switch.warm(&keys, START_MAX)?;
    ensure!(valid == keys.len(), "only {valid} of {} keys could be cached", keys.len());
    ready();
    switch.run(Duration::ZERO, stop)
}

/// Gets `at_once` keys at a time for `span`; returns the microseconds of each round.
pub(super) fn gets(server: SocketAddr, at_once: u16, span: Duration) -> anyhow::Result<Vec<f64>> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    let (mut times, mut lost, mut request) = (Vec::new(), 0, 0u16);
    let mut buffer = [0; 2048];
    let until = now() + span;
    while now() < until {
        let first = request;
        let began = now();
        for _ in 0..at_once {
            let said = format!("get {}\r\n", key(u32::from(request) % KEYS));
            socket.send(&Frame::whole(request, said.as_bytes()).bytes())?;
            request = request.wrapping_add(1);
        }
        let mut answers = 0;
        while answers < at_once {
            let Ok(bytes) = socket.recv(&mut buffer) else { break };
            let frame = Frame::decode(&buffer[..bytes]);
            let of_round = frame.is_ok_and(|frame| frame.request.wrapping_sub(first) < at_once);
            answers += u16::from(of_round);
        }
        if answers == at_once {
            times.push((now() - began).as_secs_f64() * 1e6);
        } else {
            lost += 1;
        }
    }
    ensure!(lost * 100 <= times.len(), "{lost} of {} gets were not answered", times.len() + lost);
    Ok(times)
}

/// Runs `client` in the clients' namespace on the first processor, with the program attached and
/// `keys` cached, or without it.
pub(super) fn beside<S: Switch, T: Send>(
    namespaces: &Namespaces,
    server: SocketAddr,
    keys: Option<u32>,
    client: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    let stop = AtomicBool::new(false);
    let (ready, is_ready) = mpsc::channel();
    thread::scope(|scope| {
        let stop = &stop;
        let controlled = scope.spawn(move || {
            namespaces.enter(End::Switch)?;
            let is_ready = || {
                let _ = ready.send(());
            };
            let Some(keys) = keys else {
                is_ready();
                return Ok(());
            };
            control::<S>(server, keys, is_ready, stop)
        });
        let done = scope.spawn(move || {
            // If it fails, the other thread reports the error.
            is_ready.recv().context("the program is not attached")?;
            namespaces.enter(End::Client)?;
            stay_on(0, None)?;
            client()
        });
        let done = done.join().map_err(|_| anyhow!("the client panicked"));
        stop.store(true, Relaxed);
        controlled.join().map_err(|_| anyhow!("the controller panicked"))??;
        done?
    })
}

/// Attaches the program in the server's namespace and returns the result.
pub(super) fn at_switch<T: Send>(
    namespaces: &Namespaces,
    attach: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    thread::scope(|scope| {
        let attached = scope.spawn(|| {
            namespaces.enter(End::Switch)?;
            attach()
        });
        attached.join().map_err(|_| anyhow!("cannot attach"))?
    })
}

/// The 10th percentile: other load on the machine makes a round longer, never shorter.
pub(super) fn tenth(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 10).copied().unwrap_or(f64::NAN)
}

/// The median.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
