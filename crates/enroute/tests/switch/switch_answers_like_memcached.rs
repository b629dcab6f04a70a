//! Random conversations of two clients with a memcached behind the data plane, and with one that is
//! not: all replies, including those of the kernel, are identical byte for byte.

use std::{
    io::{Read, Write},
    net::{TcpStream, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wire::memcache::frame::Frame;

use crate::{
    rack::{Rack, SERVER, memcached, wait},
    support::seeds,
};

const ATTACHED: [&str; 6] = ["--threshold", "3", "--sampled", "65536", "--entries", "1024"];
/// The port that the data plane serves, and one that it does not.
const PORTS: [u16; 2] = [11_211, 11_311];
const KEYS: u64 = 4;
/// Number of rounds. At the start of a round most keys are cached, and its steps change some.
const ROUNDS: u64 = 120;
/// Rounds between two `flush_all`: for a second after it the kernel answers nothing.
const FLUSHED_EVERY: u64 = 40;
const STEPS: u32 = 15;
/// Reads before each round, with pauses in which the controller requests values from the server.
const WARMING: u32 = 25;
const PAUSE: Duration = Duration::from_millis(2);
/// Minimum number of the kernel's replies for a meaningful comparison.
const HITS_MIN: u64 = 300;
const PATIENCE: Duration = Duration::from_secs(60);

/// One client of one server: a connection, and datagrams.
struct Client {
    stream: TcpStream,
    socket: UdpSocket,
    request: u16,
}

impl Client {
    fn of(port: u16) -> Self {
        let stream = TcpStream::connect((SERVER, port)).expect("memcached");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        socket.connect((SERVER, port)).expect("an address");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Self { stream, socket, request: 0 }
    }

    /// The replies to commands over TCP, up to that to the `mn` that follows them.
    fn say(&mut self, said: &str) -> String {
        self.stream.write_all(format!("{said}mn\r\n").as_bytes()).expect("to be heard");
        let mut answer = Vec::new();
        while answer != b"MN\r\n" && !answer.ends_with(b"\nMN\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).expect("an answer");
            answer.extend(byte);
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The reply to a datagram, which is sent once. memcached answers a `get` of several keys with
    /// a datagram for each, all numbered 0 of 1, so that only `END` marks the last.
    fn send(&mut self, said: &str) -> String {
        self.request = self.request.wrapping_add(1);
        self.socket.send(&Frame::whole(self.request, said.as_bytes()).bytes()).expect("sent");
        let (mut answer, mut buffer) = (Vec::new(), vec![0; 65_536]);
        loop {
            let bytes = self.socket.recv(&mut buffer).expect("an answer within a minute");
            let frame = Frame::decode(&buffer[..bytes]).expect("a frame");
            if frame.request == self.request {
                answer.extend(frame.payload);
                let is_whole = !said.starts_with("get") || answer.ends_with(b"END\r\n");
                if is_whole && !answer.is_empty() {
                    return String::from_utf8_lossy(&answer).into_owned();
                }
            }
        }
    }
}

/// Random numbers below an end.
struct Random(Pcg64Mcg);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0.random_range(0..end)
    }

    fn read(&mut self) -> String {
        let (key, other) = (self.below(KEYS), self.below(KEYS));
        match self.below(5) {
            0 => format!("mg k{key} v\r\n"),
            1 => format!("gets k{key}\r\n"),
            2 => format!("get k{key} k{other}\r\n"),
            _ => format!("get k{key}\r\n"),
        }
    }

    fn write(&mut self) -> String {
        let (key, flags) = (self.below(KEYS), self.below(3));
        let value = self.below(1000).to_string().repeat(1 + self.below(3) as usize);
        let bytes = value.len();
        match self.below(14) {
            0..4 => format!("set k{key} {flags} 0 {bytes}\r\n{value}\r\n"),
            4 => format!("set k{key} {flags} -1 {bytes}\r\n{value}\r\n"),
            5 => format!("add k{key} {flags} 0 {bytes}\r\n{value}\r\n"),
            6 => format!("replace k{key} {flags} 0 {bytes}\r\n{value}\r\n"),
            7 => format!("append k{key} 0 0 {bytes}\r\n{value}\r\n"),
            8 => format!("prepend k{key} 0 0 {bytes}\r\n{value}\r\n"),
            9 => format!("incr k{key} 7\r\n"),
            10 => format!("ms k{key} {bytes} F{flags}\r\n{value}\r\n"),
            11 => format!("md k{key}\r\n"),
            12 => format!("cas k{key} 0 0 {bytes} {}\r\n{value}\r\n", self.below(400)),
            _ => format!("delete k{key}\r\n"),
        }
    }
}

/// One step of the conversation, by one of the two clients.
fn step(random: &mut Random, sides: &mut [[Client; 2]; 2], done: &mut Vec<String>) {
    let at = random.below(2) as usize;
    let (said, by_udp) = match random.below(40) {
        0..7 => (random.write(), false),
        // memcached accepts writes in datagrams, too.
        7..9 => (random.write(), true),
        9..11 => (format!("{}{}", random.write(), random.write()), false),
        11..14 => (random.read(), false),
        _ => (random.read(), true),
    };
    say(sides, at, &said, by_udp, done);
}

/// Sends the same to both servers, by client `at` of each.
fn say(sides: &mut [[Client; 2]; 2], at: usize, said: &str, by_udp: bool, done: &mut Vec<String>) {
    done.push(format!("client {at}, {}: {said:?}", if by_udp { "UDP" } else { "TCP" }));
    let [ours, theirs] = sides.each_mut().map(|clients| {
        let client = &mut clients[at];
        if by_udp { client.send(said) } else { client.say(said) }
    });
    let since = &done[done.len().saturating_sub(30)..];
    assert_eq!(ours, theirs, "not as memcached answers:\n{}", since.join("\n"));
}

#[test]
fn two_clients_are_answered_as_by_memcached() {
    seeds::each("switch_conversations", [1], converse);
}

/// A random conversation from `seed`; `None` if it cannot run.
fn converse(seed: u64) -> Option<()> {
    let memcached = memcached()?;
    let mut rack = Rack::build()?;
    for port in PORTS.map(|port| port.to_string()) {
        let options = ["-u", "nobody", "-l", SERVER, "-p", &port, "-U", &port, "-t", "1"];
        rack.start("d", memcached, &options);
    }
    rack.attach(&ATTACHED);
    let mut random = Random(Pcg64Mcg::seed_from_u64(seed));
    let began = Instant::now();
    let rounds = rack.as_client(|| {
        for port in PORTS {
            wait("memcached listens", || TcpStream::connect((SERVER, port)).is_ok());
        }
        let mut sides = PORTS.map(|port| [Client::of(port), Client::of(port)]);
        let (mut done, mut rounds) = (Vec::new(), 0);
        while rounds < ROUNDS || (rack.count("hit") < HITS_MIN && began.elapsed() < PATIENCE) {
            let warmed = format!("get k{}\r\n", rounds % KEYS);
            for _ in 0..WARMING {
                say(&mut sides, 0, &warmed, true, &mut done);
                thread::sleep(PAUSE);
            }
            if rounds % FLUSHED_EVERY == FLUSHED_EVERY - 1 {
                say(&mut sides, 1, "flush_all\r\n", false, &mut done);
                say(&mut sides, 0, &warmed, true, &mut done);
            }
            for _ in 0..STEPS {
                step(&mut random, &mut sides, &mut done);
            }
            rounds += 1;
        }
        rounds
    });
    let hits = rack.count("hit");
    println!("{hits} answers of the kernel in {rounds} rounds, {:?}", began.elapsed());
    assert!(hits >= HITS_MIN, "the kernel answered {hits} times");
    Some(())
}
