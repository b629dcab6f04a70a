//! A memcached that applies a write seconds after its segments have arrived: its replies for the
//! key in between are old, and are not served after the write was acknowledged.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use crate::rack::{Rack, SERVER, answered, ask, wait};
use rustix::net::sockopt::set_socket_linger;
use wire::memcache::frame::Frame;

/// Delay after which a key with an unanswered write is evicted from the cache, and is requested and
/// stored again.
const LATE: Duration = Duration::from_secs(6);
/// TCP port of the real memcached; a proxy on its usual port delays the traffic.
const BEHIND: u16 = 11_212;

static REQUEST: AtomicU16 = AtomicU16::new(1);

/// The reply of memcached, or of the program, to `get k`.
fn get(socket: &UdpSocket) -> Option<String> {
    let answer = answered("memcached answers", || {
        let request = REQUEST.fetch_add(1, Relaxed);
        let is_mine =
            |answer: &[u8]| Frame::decode(answer).is_ok_and(|frame| frame.request == request);
        ask(socket, &Frame::whole(request, b"get k\r\n").bytes(), is_mine)
    });
    let frame = Frame::decode(&answer).expect("a frame");
    let text = String::from_utf8_lossy(frame.payload).into_owned();
    text.lines().nth(1).map(Into::into)
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect((SERVER, port)).expect("a server");
    stream.set_nodelay(true).expect("a socket");
    stream
}

fn begin_to_set(stream: &mut TcpStream, value: &str) {
    let said = format!("set k 0 0 {}\r\n{value}\r\n", value.len());
    stream.write_all(said.as_bytes()).expect("to be heard");
}

fn hear(stream: &mut TcpStream, answer: &str) {
    let mut said = vec![0; answer.len()];
    stream.read_exact(&mut said).expect("an answer");
    assert_eq!(said, answer.as_bytes());
}

fn set(stream: &mut TcpStream, value: &str) {
    begin_to_set(stream, value);
    hear(stream, "STORED\r\n");
}

/// Segments that are held back on the way to memcached, by the end of the client's data.
const HELD: [&[u8]; 2] = [b"x\r\n", b"new\r\n"];

/// Proxy at the TCP port of memcached that holds back the first `held` elements of `HELD`.
fn pass_on(mut client: TcpStream, held: &AtomicUsize) {
    let mut memcached = connect(BEHIND);
    client.set_nodelay(true).expect("a socket");
    let mut buffer = [0; 4096];
    while let Ok(bytes @ 1..) = client.read(&mut buffer) {
        while HELD[..held.load(Relaxed)].iter().any(|said| buffer[..bytes].ends_with(said)) {
            thread::sleep(Duration::from_millis(1));
        }
        memcached.write_all(&buffer[..bytes]).expect("memcached");
        let bytes = memcached.read(&mut buffer).expect("memcached");
        // The client may be gone.
        let _ = client.write_all(&buffer[..bytes]);
    }
}

/// A rack whose memcached has `k`, which the kernel serves as `old`.
struct Slow {
    rack: Rack,
    controller: u32,
    /// The connection of the writer.
    stream: TcpStream,
    /// The number of elements of `HELD` that are held.
    held: Arc<AtomicUsize>,
}

const ATTACHED: [&str; 6] = ["--threshold", "20", "--sampled", "65536", "--entries", "1024"];

impl Slow {
    fn build() -> Option<Self> {
        let memcached = crate::rack::memcached()?;
        let mut rack = Rack::build()?;
        let behind = BEHIND.to_string();
        let listen = ["-u", "nobody", "-l", SERVER, "-p", &behind, "-U", "11211"];
        rack.start("d", memcached, &listen);
        let controller = rack.attach(&ATTACHED);
        let listener = rack.within("d", || {
            wait("memcached listens", || TcpStream::connect((SERVER, BEHIND)).is_ok());
            TcpListener::bind((SERVER, 11_211)).expect("a port")
        });
        let held = Arc::new(AtomicUsize::new(HELD.len()));
        let (namespace, passed_on) = (rack.file("d"), held.clone());
        // They end with the process.
        thread::spawn(move || {
            crate::rack::enter(&namespace);
            for client in listener.incoming().flatten() {
                let held = passed_on.clone();
                thread::spawn(move || pass_on(client, &held));
            }
        });
        let stream = rack.as_client(|| {
            let mut stream = connect(11_211);
            set(&mut stream, "old");
            stream
        });
        wait("the kernel answers", || is_served(&rack, "old"));
        Some(Self { rack, controller, stream, held })
    }
}

/// Whether the kernel serves the key. Every reply must be this value.
fn is_served(rack: &Rack, value: &str) -> bool {
    let before = rack.count("hit");
    rack.as_client(|| {
        let socket = socket();
        (0..40).for_each(|_| assert_eq!(get(&socket).as_deref(), Some(value)));
    });
    rack.count("hit") > before
}

#[test]
fn a_write_that_is_answered_late_leaves_nothing_stale() {
    let Some(Slow { rack, mut stream, held, .. }) = Slow::build() else { return };
    rack.as_client(|| {
        let written = AtomicBool::new(false);
        thread::scope(|scope| {
            // A client reads continually, so that the key stays hot.
            let reader = scope.spawn(|| {
                crate::rack::enter(&rack.file("c"));
                let socket = socket();
                while !written.load(Relaxed) {
                    get(&socket);
                }
            });
            begin_to_set(&mut stream, "new");
            thread::sleep(LATE);
            held.store(0, Relaxed);
            hear(&mut stream, "STORED\r\n");
            let socket = socket();
            let said = get(&socket);
            written.store(true, Relaxed);
            reader.join().expect("it reads");
            assert_eq!(said.as_deref(), Some("new"), "after the write was acknowledged");
        });
    });
    wait("the kernel answers", || is_served(&rack, "new"));
}

/// The program is restarted between the write and its reply, or was attached after the write; its
/// client has sent another request in between.
#[test]
fn a_write_that_was_on_its_way_leaves_nothing_stale() {
    for is_seen in [true, false] {
        let Some(Slow { mut rack, controller, mut stream, held }) = Slow::build() else {
            return;
        };
        rack.kill(controller);
        if !is_seen {
            rack.enroute("s", &["detach"]);
        }
        rack.as_client(|| begin_to_set(&mut stream, "new"));
        rack.attach(&ATTACHED);
        rack.as_client(|| stream.write_all(b"get x\r\n").expect("to be heard"));
        wait("the kernel answers", || is_served(&rack, "old"));
        held.store(1, Relaxed);
        rack.as_client(|| {
            hear(&mut stream, "STORED\r\n");
            assert_eq!(get(&socket()).as_deref(), Some("new"), "it was seen: {is_seen}");
            held.store(0, Relaxed);
            hear(&mut stream, "END\r\n");
        });
        wait("the kernel answers", || is_served(&rack, "new"));
    }
}

/// The server applies a write of a client that has disconnected after it answered another client's
/// write of the same key.
#[test]
fn a_write_whose_client_is_gone_leaves_nothing_stale() {
    let Some(Slow { rack, mut stream, held, .. }) = Slow::build() else { return };
    rack.as_client(|| {
        begin_to_set(&mut stream, "new");
        set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
        drop(stream);
        set(&mut connect(11_211), "other");
        let socket = socket();
        (0..200).for_each(|_| assert_eq!(get(&socket).as_deref(), Some("other")));
        held.store(0, Relaxed);
        wait("it is applied", || get(&socket).as_deref() == Some("new"));
    });
    wait("the kernel answers", || is_served(&rack, "new"));
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket.connect((SERVER, 11_211)).expect("an address");
    socket
}
