//! The binary, a rack in network namespaces, a real memcached and the reference server.

use std::{
    io::{Read, Write},
    net::{TcpStream, UdpSocket},
    sync::atomic::Ordering::Relaxed,
};

use crate::rack::{PROGRAM, Rack, SEQUENCE, SERVER, SWITCH, answered, ask, netcache, wait};
use crate::support::directory::TemporaryDirectory;
use wire::{
    memcache::frame::Frame,
    netcache::{Flags, Op},
};

/// A key that is requested three times in a second is hot, so that keys become hot on a busy
/// machine too.
const ATTACHED: [&str; 6] = ["--threshold", "3", "--sampled", "65536", "--entries", "1024"];

fn udp(port: u16) -> UdpSocket {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket.connect((SERVER, port)).expect("an address");
    socket
}

#[test]
fn a_hot_item_is_served_by_the_kernel_and_never_stale() {
    let Some(mut rack) = Rack::build() else { return };
    rack.start(
        "d",
        PROGRAM,
        &["switch", "agent", "--listen", "10.2.0.2:50000", "--switch", SWITCH],
    );
    let controller = rack.attach(&ATTACHED);
    rack.as_client(|| {
        let socket = udp(50_000);
        netcache(&socket, Op::Put, b"0");
        for round in 1..20u32 {
            wait("the kernel answers", || netcache(&socket, Op::Get, b"").0.has(Flags::SWITCH));
            let value = round.to_string().into_bytes();
            netcache(&socket, Op::Put, &value);
            for _ in 0..20 {
                assert_eq!(netcache(&socket, Op::Get, b"").1, value, "round {round}");
            }
        }
        wait("the kernel answers", || netcache(&socket, Op::Get, b"").0.has(Flags::SWITCH));
    });
    assert!(rack.enroute("s", &["top", "--seconds", "1"]).contains("0123456789abcdef"));
    assert!(rack.count("update") >= 10, "values came by update");

    // The program continues without its controller; a new controller starts with an empty state.
    rack.kill(controller);
    rack.as_client(|| assert!(netcache(&udp(50_000), Op::Get, b"").0.has(Flags::SWITCH)));
    rack.attach(&ATTACHED);
    rack.as_client(|| {
        let socket = udp(50_000);
        wait("the kernel answers", || netcache(&socket, Op::Get, b"").0.has(Flags::SWITCH));
        assert_eq!(netcache(&socket, Op::Get, b"").1, b"19");
        netcache(&socket, Op::Delete, b"");
        assert!(!netcache(&socket, Op::Get, b"").0.has(Flags::FOUND));
    });
    rack.enroute("s", &["detach"]);
    rack.as_client(|| assert!(!netcache(&udp(50_000), Op::Get, b"").0.has(Flags::SWITCH)));
}

#[test]
fn the_database_is_a_server_behind_the_switch() {
    let Some(mut rack) = Rack::build() else { return };
    let files = TemporaryDirectory::create();
    let directory = files.path().to_str().expect("a path");
    let listen = format!("{SERVER}:6379");
    let database = ["db", "--dir", directory, "--listen", &listen, "--sync", "always"];
    let options = ["--memory", "64MiB", "--netcache", "10.2.0.2:50000", "--switch", SWITCH];
    let database = [&database[..], &options].concat();
    let first = rack.start("d", PROGRAM, &database);
    rack.attach(&ATTACHED);
    let is_served = |socket: &UdpSocket, value: &[u8]| {
        let (flags, said) = netcache_get(socket);
        flags.has(Flags::SWITCH) && said == value
    };
    rack.as_client(|| {
        let socket = udp(50_000);
        for round in 0..10u32 {
            let value = round.to_string().into_bytes();
            netcache(&socket, Op::Put, &value);
            for _ in 0..20 {
                assert_eq!(netcache_get(&socket).1, value, "round {round}");
            }
            wait("the kernel answers", || is_served(&socket, &value));
        }
        // Redis clients see the same keys, and their writes are propagated.
        let mut redis = TcpStream::connect(&listen).expect("the database");
        assert_eq!(say(&mut redis, "GET netcache:0123456789abcdef\r\n"), "$1\r\n9\r\n");
        assert_eq!(say(&mut redis, "SET netcache:0123456789abcdef other\r\n"), "+OK\r\n");
        wait("the kernel answers anew", || is_served(&socket, b"other"));
        netcache(&socket, Op::Put, b"last");
    });
    // After a kill the server has all acknowledged writes; the entries in the switch are dropped
    // before writes continue.
    rack.kill(first);
    rack.start("d", PROGRAM, &database);
    rack.as_client(|| {
        let socket = udp(50_000);
        assert_eq!(netcache_get(&socket).1, b"last");
        netcache(&socket, Op::Put, b"after");
        for _ in 0..50 {
            assert_eq!(netcache_get(&socket).1, b"after");
        }
        wait("the kernel answers", || is_served(&socket, b"after"));
    });
}

fn netcache_get(socket: &UdpSocket) -> (Flags, Vec<u8>) {
    netcache(socket, Op::Get, b"")
}

#[test]
fn a_driver_that_cannot_is_helped_by_the_kernel_which_is_said() {
    let Some(mut rack) = Rack::build() else { return };
    rack.start(
        "d",
        PROGRAM,
        &["switch", "agent", "--listen", "10.2.0.2:50000", "--switch", SWITCH],
    );
    rack.attach(&[&["--generic"], &ATTACHED[..]].concat());
    rack.as_client(|| {
        let socket = udp(50_000);
        for round in 0..5u32 {
            let value = [round.to_string().into_bytes(), vec![b'x'; 100]].concat();
            netcache(&socket, Op::Put, &value);
            wait("the kernel answers", || netcache(&socket, Op::Get, b"").0.has(Flags::SWITCH));
            assert_eq!(netcache(&socket, Op::Get, b"").1, value);
        }
    });
    // The driver of the loopback interface cannot run XDP programs.
    let said = rack.said_by("d", &["attach", "--interface", "lo", "--netcache-port", "50002"]);
    assert!(said.contains("attached to lo in generic mode: its driver cannot"), "{said}");
}

fn say(stream: &mut TcpStream, said: &str) -> String {
    stream.write_all(said.as_bytes()).expect("to be heard");
    let mut buffer = [0; 4096];
    let bytes = stream.read(&mut buffer).expect("an answer");
    String::from_utf8_lossy(&buffer[..bytes]).into_owned()
}

fn get(socket: &UdpSocket, said: &str) -> String {
    let answer = answered("memcached answers", || {
        let request = SEQUENCE.fetch_add(1, Relaxed) as u16;
        let is_mine =
            |answer: &[u8]| Frame::decode(answer).is_ok_and(|frame| frame.request == request);
        ask(socket, &Frame::whole(request, said.as_bytes()).bytes(), is_mine)
    });
    let frame = Frame::decode(&answer).expect("a frame");
    String::from_utf8_lossy(frame.payload).into_owned()
}

#[test]
fn memcached_clients_gain_and_notice_nothing_else() {
    let Some(memcached) = crate::rack::memcached() else { return };
    let Some(mut rack) = Rack::build() else { return };
    rack.start(
        "d",
        memcached,
        &["-u", "nobody", "-l", SERVER, "-p", "11211", "-U", "11211", "-t", "1"],
    );
    rack.attach(&ATTACHED);
    let hits_grow = |rack: &Rack, said: &str| {
        wait("the kernel answers", || {
            let before = rack.count("hit");
            rack.as_client(|| {
                let socket = udp(11_211);
                (0..40).for_each(|_| drop(get(&socket, said)));
            });
            rack.count("hit") > before
        });
    };
    rack.as_client(|| {
        wait("memcached listens", || TcpStream::connect((SERVER, 11_211)).is_ok());
        let mut stream = TcpStream::connect((SERVER, 11_211)).expect("memcached");
        assert_eq!(say(&mut stream, "set k 7 0 5\r\nfirst\r\n"), "STORED\r\n");
        assert_eq!(say(&mut stream, "set other 0 0 1\r\nx\r\n"), "STORED\r\n");
    });
    hits_grow(&rack, "get k\r\n");
    hits_grow(&rack, "get k other\r\n");
    hits_grow(&rack, "mg k v\r\n");
    rack.as_client(|| {
        let (socket, mut stream) =
            (udp(11_211), TcpStream::connect((SERVER, 11_211)).expect("memcached"));
        assert_eq!(get(&socket, "get k\r\n"), "VALUE k 7 5\r\nfirst\r\nEND\r\n");
        assert_eq!(get(&socket, "mg k v\r\n"), "VA 5\r\nfirst\r\n");
        for round in 0..50 {
            let text = format!("round {round:02}");
            assert_eq!(say(&mut stream, &format!("set k 7 0 8\r\n{text}\r\n")), "STORED\r\n");
            assert_eq!(get(&socket, "get k\r\n"), format!("VALUE k 7 8\r\n{text}\r\nEND\r\n"));
        }
        assert_eq!(say(&mut stream, "set n 0 0 1\r\n1\r\n"), "STORED\r\n");
    });
    // A value with a TTL: it is served no longer than by the server. On a busy machine a short TTL
    // may expire before the kernel serves the value.
    hits_grow(&rack, "get k\r\n");
    let is_served = |lives_s: u32| {
        let hits = rack.count("hit");
        rack.as_client(|| {
            let (socket, mut stream) =
                (udp(11_211), TcpStream::connect((SERVER, 11_211)).expect("memcached"));
            assert_eq!(say(&mut stream, &format!("set k 0 {lives_s} 1\r\nx\r\n")), "STORED\r\n");
            wait("it ends at the server", || {
                get(&socket, "get k\r\n");
                say(&mut stream, "get k\r\n") == "END\r\n"
            });
            assert_eq!(get(&socket, "get k\r\n"), "END\r\n");
        });
        rack.count("hit") > hits
    };
    assert!([4, 8, 40].into_iter().any(is_served), "the kernel never serves what ends");
    // A single packet, explained.
    let frame = switch::frame::Frame::udp(
        "10.1.0.2:4000".parse().expect("an address"),
        format!("{SERVER}:11211").parse().expect("an address"),
    );
    let frame = frame.bytes(&Frame::whole(1, b"get other\r\n").bytes());
    let digits: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
    let told = rack.enroute("s", &["explain", &digits]);
    assert!(told.contains("get other") && told.contains("verdict"), "{told}");
}
