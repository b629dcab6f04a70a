//! A memcached that takes seconds to apply a write whose segments have long arrived: what it says of the key
//! meanwhile is old, and nobody is told so once the write is acknowledged.
#![allow(clippy::print_stdout, reason = "a test says what it skips and what it saw")]

mod rack;
mod support;

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed},
    thread,
    time::Duration,
};

use rack::{Rack, SERVER, ask, wait};
use wire::memcache::frame::Frame;

/// So long that a key whose write is not answered leaves, and is asked for and stored anew.
const LATE: Duration = Duration::from_secs(6);
/// Where memcached really takes TCP; on its usual port there is who delays it.
const BEHIND: u16 = 11_212;

static REQUEST: AtomicU16 = AtomicU16::new(1);

/// What memcached, or the program, answers to `get k`.
fn get(socket: &UdpSocket) -> Option<String> {
    let request = REQUEST.fetch_add(1, Relaxed);
    let is_mine = |answer: &[u8]| Frame::decode(answer).is_ok_and(|frame| frame.request == request);
    let answer = ask(socket, &Frame::whole(request, b"get k\r\n").bytes(), is_mine)?;
    let frame = Frame::decode(&answer).expect("a frame");
    let text = String::from_utf8_lossy(frame.payload).into_owned();
    text.lines().nth(1).map(Into::into)
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect((SERVER, port)).expect("a server");
    stream.set_nodelay(true).expect("a socket");
    stream
}

fn set(stream: &mut TcpStream, value: &str) {
    let said = format!("set k 0 0 {}\r\n{value}\r\n", value.len());
    stream.write_all(said.as_bytes()).expect("to be heard");
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"STORED\r\n");
}

/// Stands for memcached at its TCP port: what is said there reaches it late.
fn delay(listener: &TcpListener, mut memcached: TcpStream, late: &AtomicBool) {
    let (mut client, _) = listener.accept().expect("a client");
    client.set_nodelay(true).expect("a socket");
    let mut buffer = [0; 4096];
    while let Ok(bytes @ 1..) = client.read(&mut buffer) {
        if late.load(Relaxed) {
            thread::sleep(LATE);
        }
        memcached.write_all(&buffer[..bytes]).expect("memcached");
        let bytes = memcached.read(&mut buffer).expect("memcached");
        client.write_all(&buffer[..bytes]).expect("the client");
    }
}

#[test]
fn a_write_that_is_answered_late_leaves_nothing_stale() {
    let Some(memcached) = rack::memcached() else { return };
    let Some(mut rack) = Rack::build() else { return };
    let behind = BEHIND.to_string();
    let listen = ["-u", "nobody", "-l", SERVER, "-p", &behind, "-U", "11211"];
    rack.start("d", memcached, &listen);
    rack.attach(&["--threshold", "20", "--sampled", "65536", "--entries", "1024"]);
    let late = AtomicBool::new(false);
    let (listener, memcached) = rack.within("d", || {
        wait("memcached listens", || TcpStream::connect((SERVER, BEHIND)).is_ok());
        (TcpListener::bind((SERVER, 11_211)).expect("a port"), connect(BEHIND))
    });
    let is_served = |rack: &Rack, value: &str| {
        let before = rack.count("hit");
        rack.as_client(|| {
            let socket = socket();
            (0..40).for_each(|_| assert_eq!(get(&socket).as_deref(), Some(value)));
        });
        rack.count("hit") > before
    };
    thread::scope(|scope| {
        scope.spawn(|| delay(&listener, memcached, &late));
        let mut stream = rack.as_client(|| {
            let mut stream = connect(11_211);
            set(&mut stream, "old");
            stream
        });
        wait("the kernel answers", || is_served(&rack, "old"));
        late.store(true, Relaxed);
        rack.as_client(|| {
            let written = AtomicBool::new(false);
            thread::scope(|scope| {
                // Somebody asks all the time, so that the key stays hot.
                let reader = scope.spawn(|| {
                    rack::enter(&rack.file("c"));
                    let socket = socket();
                    while !written.load(Relaxed) {
                        get(&socket);
                    }
                });
                set(&mut stream, "new");
                let socket = socket();
                let said = get(&socket);
                written.store(true, Relaxed);
                reader.join().expect("it reads");
                assert_eq!(said.as_deref(), Some("new"), "after the write was acknowledged");
            });
        });
        wait("the kernel answers", || is_served(&rack, "new"));
        drop(stream);
    });
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket.connect((SERVER, 11_211)).expect("an address");
    socket
}
