//! Real traffic between machines: TCP streams, and datagrams that are echoed.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::Testbed;

const STREAM_PORT: u16 = 5_201;
const ECHO_PORT: u16 = 7;
/// Longest wait for an echo, after which it counts as lost.
const ECHO_WAIT: Duration = Duration::from_millis(500);
/// Longest that a write or read blocks, so that the end is seen.
const BLOCK: Duration = Duration::from_millis(200);

/// Received data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes of all streams, as received.
    pub stream_bytes: u64,
    /// Datagrams that were echoed.
    pub echoes: u64,
    /// Datagrams that were not echoed.
    pub lost: u64,
    /// Sum of the echoes' round trips, in nanoseconds.
    pub round_trip_ns: u64,
}

#[derive(Default)]
struct Totals {
    stream_bytes: AtomicU64,
    echoes: AtomicU64,
    lost: AtomicU64,
    round_trip_ns: AtomicU64,
}

/// One stream and one conversation of echoes, from one machine to another.
struct Pair {
    sink: TcpListener,
    stream: TcpStream,
    echo: UdpSocket,
    asks: UdpSocket,
    to: SocketAddrV4,
}

impl Pair {
    fn open(testbed: &Testbed, source: u32, destination: u32) -> anyhow::Result<Self> {
        let layout = testbed.layout();
        let (from, to) = (layout.machine(source), layout.machine(destination));
        let (sink, echo) = testbed.namespaces().inside(testbed.home(destination), || {
            let sink = TcpListener::bind((to, STREAM_PORT))?;
            sink.set_nonblocking(true)?;
            Ok((sink, UdpSocket::bind((to, ECHO_PORT))?))
        })?;
        let (stream, asks) = testbed
            .namespaces()
            .inside(testbed.home(source), || Ok((dial(from, to)?, UdpSocket::bind((from, 0))?)))?;
        echo.set_read_timeout(Some(BLOCK))?;
        asks.set_read_timeout(Some(ECHO_WAIT))?;
        stream.set_write_timeout(Some(BLOCK))?;
        Ok(Self { sink, stream, echo, asks, to: SocketAddrV4::new(to, ECHO_PORT) })
    }

    fn run(mut self, totals: &Totals, stop: &AtomicBool) {
        thread::scope(|scope| {
            let Self { sink, stream, echo, asks, to } = &mut self;
            scope.spawn(|| receive(sink, totals, stop));
            scope.spawn(|| send(stream, stop));
            scope.spawn(|| answer(echo, stop));
            ask(asks, *to, totals, stop);
        });
    }
}

/// Runs traffic for each pair of machines, for `duration` or until `stop` is set.
///
/// # Errors
/// A connection cannot be opened.
pub fn run(
    testbed: &Testbed,
    pairs: &[(u32, u32)],
    duration: Duration,
    stop: &AtomicBool,
) -> anyhow::Result<Load> {
    let open = |(source, destination): &(u32, u32)| Pair::open(testbed, *source, *destination);
    let pairs: Vec<Pair> = pairs.iter().map(open).collect::<anyhow::Result<_>>()?;
    let (totals, end) = (Totals::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        for pair in pairs {
            scope.spawn(|| pair.run(&totals, &end));
        }
        let until = Instant::now() + duration;
        while Instant::now() < until && !stop.load(Relaxed) {
            thread::sleep(Duration::from_millis(20));
        }
        end.store(true, Relaxed);
    });
    Ok(Load {
        stream_bytes: totals.stream_bytes.into_inner(),
        echoes: totals.echoes.into_inner(),
        lost: totals.lost.into_inner(),
        round_trip_ns: totals.round_trip_ns.into_inner(),
    })
}

/// A connection from the address of one machine; its server has several addresses.
fn dial(from: Ipv4Addr, to: Ipv4Addr) -> anyhow::Result<TcpStream> {
    let what = || format!("cannot connect from {from} to {to}:{STREAM_PORT}");
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).with_context(what)?;
    bind(&socket, &SocketAddrV4::new(from, 0)).with_context(what)?;
    connect(&socket, &SocketAddrV4::new(to, STREAM_PORT)).with_context(what)?;
    Ok(TcpStream::from(socket))
}

fn receive(sink: &TcpListener, totals: &Totals, stop: &AtomicBool) {
    let mut buffer = vec![0; 1 << 16];
    while !stop.load(Relaxed) {
        let Ok((mut stream, _)) = sink.accept() else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        if stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(BLOCK)))
            .is_err()
        {
            return;
        }
        while !stop.load(Relaxed) {
            if let Ok(bytes) = stream.read(&mut buffer) {
                totals.stream_bytes.fetch_add(bytes as u64, Relaxed);
            }
        }
    }
}

fn send(stream: &mut TcpStream, stop: &AtomicBool) {
    let bytes = vec![7; 1 << 16];
    while !stop.load(Relaxed) {
        // A write that times out is repeated: only its length matters.
        let _ = stream.write(&bytes);
    }
}

fn answer(echo: &UdpSocket, stop: &AtomicBool) {
    let mut buffer = [0; 64];
    while !stop.load(Relaxed) {
        if let Ok((bytes, from)) = echo.recv_from(&mut buffer) {
            let _ = echo.send_to(&buffer[..bytes], from);
        }
    }
}

fn ask(asks: &UdpSocket, to: SocketAddrV4, totals: &Totals, stop: &AtomicBool) {
    let mut number = 0u64;
    while !stop.load(Relaxed) {
        number += 1;
        let (sent, mut buffer) = (Instant::now(), [0; 64]);
        let _ = asks.send_to(&number.to_be_bytes(), to);
        let answered = loop {
            match asks.recv(&mut buffer) {
                Ok(8) if buffer[..8] == number.to_be_bytes() => break true,
                Ok(_) => {}
                Err(_) => break false,
            }
        };
        if answered {
            totals.echoes.fetch_add(1, Relaxed);
            totals.round_trip_ns.fetch_add(sent.elapsed().as_nanos() as u64, Relaxed);
        } else if !stop.load(Relaxed) {
            totals.lost.fetch_add(1, Relaxed);
        }
    }
}
