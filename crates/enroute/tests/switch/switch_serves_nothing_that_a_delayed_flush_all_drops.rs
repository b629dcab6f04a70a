//! A real memcached gets a delayed `flush_all` in every form that it accepts: once it reports the
//! value as absent over TCP, the kernel does not serve it over UDP either. Writes after blanks are
//! noticed, too.

use std::{
    io::{Read, Write},
    net::{TcpStream, UdpSocket},
    sync::atomic::{AtomicU16, Ordering::Relaxed},
    thread,
    time::Duration,
};

use crate::rack::{Rack, SERVER, answered, ask, wait};
use wire::memcache::frame::Frame;

const ATTACHED: [&str; 6] = ["--threshold", "3", "--sampled", "65536", "--entries", "1024"];
const ITEM: &str = "VALUE k 0 3\r\nold\r\nEND\r\n";
const NONE: &str = "END\r\n";
/// Interval between two reads.
const PAUSE: Duration = Duration::from_millis(20);

static REQUEST: AtomicU16 = AtomicU16::new(1);

fn udp() -> UdpSocket {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket.connect((SERVER, 11_211)).expect("an address");
    socket
}

fn tcp() -> TcpStream {
    let stream = TcpStream::connect((SERVER, 11_211)).expect("memcached");
    stream.set_nodelay(true).expect("a socket");
    stream
}

/// The reply to a datagram, from memcached or from the kernel in its place.
fn asked(socket: &UdpSocket, said: &[u8]) -> String {
    let answer = answered("memcached answers", || {
        let request = REQUEST.fetch_add(1, Relaxed);
        let is_mine =
            |answer: &[u8]| Frame::decode(answer).is_ok_and(|frame| frame.request == request);
        ask(socket, &Frame::whole(request, said).bytes(), is_mine)
    });
    String::from_utf8_lossy(Frame::decode(&answer).expect("a frame").payload).into_owned()
}

/// The reply of memcached itself, up to `end`.
fn say(stream: &mut TcpStream, said: &str, end: &str) -> String {
    stream.write_all(said.as_bytes()).expect("to be heard");
    let mut answer = Vec::new();
    while !answer.ends_with(end.as_bytes()) {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        answer.extend(byte);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn serves(rack: &Rack, socket: &UdpSocket, item: &str) -> bool {
    let before = rack.count("hit");
    (0..20).for_each(|_| assert_eq!(asked(socket, b"get k\r\n"), item));
    rack.count("hit") > before
}

/// Stores `k`, and waits until the kernel serves it.
fn store(rack: &Rack) {
    rack.as_client(|| {
        let (mut stream, socket) = (tcp(), udp());
        assert_eq!(say(&mut stream, "set k 0 0 3\r\nold\r\n", "\r\n"), "STORED\r\n");
        wait("the kernel answers", || serves(rack, &socket, ITEM));
    });
}

/// Watches until memcached has dropped `k`, and for some seconds more.
fn watch(rack: &Rack, what: &str) {
    rack.as_client(|| {
        let (mut stream, socket) = (tcp(), udp());
        let mut looks = 0;
        wait(what, || {
            let at_server = say(&mut stream, "get k\r\n", NONE);
            // Once a client has read that the key is absent, the value is not served to it again.
            let served = asked(&socket, b"get k\r\n");
            assert!(at_server == ITEM || served == NONE, "{what}: memcached has it no more");
            looks += u32::from(at_server == NONE);
            thread::sleep(PAUSE);
            looks > 100
        });
    });
}

fn in_parts(parts: &[&str]) {
    let mut stream = tcp();
    for part in parts {
        stream.write_all(part.as_bytes()).expect("to be heard");
        thread::sleep(PAUSE);
    }
    // The connection stays open until the line was read.
    assert_eq!(say(&mut stream, "mn\r\n", "MN\r\n").lines().last(), Some("MN"));
}

fn binary() {
    let mut flush = vec![0; 28];
    (flush[0], flush[1], flush[4], flush[11], flush[27]) = (0x80, 0x08, 4, 4, 4);
    let mut stream = tcp();
    stream.write_all(&flush).expect("to be heard");
    let mut answer = [0; 24];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer[..8], [0x81, 0x08, 0, 0, 0, 0, 0, 0]);
}

fn two_at_once() {
    let (mut first, mut second) = (tcp(), tcp());
    // memcached applies the last.
    assert_eq!(say(&mut first, "flush_all 60\r\n", "\r\n"), "OK\r\n");
    assert_eq!(say(&mut second, "flush_all 4\r\n", "\r\n"), "OK\r\n");
}

/// A rack with a memcached behind the data plane; `None`, with the reason printed, where one of
/// them cannot be started.
fn attached() -> Option<Rack> {
    let memcached = crate::rack::memcached()?;
    let mut rack = Rack::build()?;
    rack.start("d", memcached, &["-u", "nobody", "-l", SERVER, "-p", "11211", "-U", "11211"]);
    rack.attach(&ATTACHED);
    rack.as_client(|| wait("memcached listens", || TcpStream::connect((SERVER, 11_211)).is_ok()));
    Some(rack)
}

#[test]
fn every_delayed_flush_all_is_seen() {
    let Some(rack) = attached() else { return };
    let ways: [(&str, fn()); 5] = [
        ("a line", || in_parts(&["flush_all 4\r\n"])),
        ("a quiet line in three segments", || in_parts(&[" flus", "h_all 4", " noreply\r\n"])),
        ("a datagram", || assert_eq!(asked(&udp(), b"flush_all 4\r\n"), "OK\r\n")),
        ("two at once", two_at_once),
        // Nothing is cached for a minute after these.
        ("the binary protocol, and then a second of the wall clock", || {
            binary();
            let second = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec + 5;
            in_parts(&[&format!("flush_all {second}\r\n")]);
        }),
    ];
    for (what, flush) in ways {
        store(&rack);
        rack.as_client(flush);
        watch(&rack, what);
    }
}

#[test]
fn blanks_before_a_quiet_command_hide_no_write() {
    let Some(rack) = attached() else { return };
    // Commands without a reply: a reply would reveal the write.
    for said in [
        " set k 0 0 3 noreply\r\nnew\r\n",
        "     append k 0 0 1 noreply\r\n!\r\n",
        " delete k noreply\r\n",
        "  ms k 3 q\r\nnew\r\n",
    ] {
        store(&rack);
        rack.as_client(|| {
            let (mut stream, socket) = (tcp(), udp());
            let stored = say(&mut stream, &format!("{said}get k\r\n"), NONE);
            assert_ne!(stored, ITEM, "{said:?}");
            assert_eq!(asked(&socket, b"get k\r\n"), stored, "after {said:?}");
        });
    }
}
