//! memcached's replies carry the request IDs of other requests of the controller, as late replies
//! do after the IDs have wrapped around: no key is served with another key's value.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering::Relaxed},
    thread,
    time::Duration,
};

use crate::rack::{Rack, SERVER, answered, ask, enter, wait};
use wire::memcache::frame::Frame;

const ATTACHED: [&str; 6] = ["--threshold", "3", "--sampled", "65536", "--entries", "1024"];
const KEYS: [&str; 2] = ["k0", "k1"];
/// Number of swapped pairs of replies.
const PAIRS: usize = 5;

fn value_of(key: &str) -> String {
    format!("value of {key}")
}

/// A pending request of the controller.
struct Asked {
    from: SocketAddr,
    request: u16,
    key: String,
    text: Vec<u8>,
}

/// Answers gets; swaps the replies to two requests for different keys, a given number of times.
fn serve(socket: &UdpSocket, exchanged: &AtomicUsize, over: &AtomicBool) {
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket");
    let mut waits: Option<Asked> = None;
    let mut buffer = [0; 4096];
    while !over.load(Relaxed) {
        let Ok((bytes, from)) = socket.recv_from(&mut buffer) else { continue };
        let frame = Frame::decode(&buffer[..bytes]).expect("a frame");
        let said = std::str::from_utf8(frame.payload).expect("text");
        let mut words = said.split_whitespace();
        let (word, key) = (words.next().expect("a command"), words.next().expect("a key"));
        let value = value_of(key);
        let send = |request: u16, text: &[u8], to: SocketAddr| {
            socket.send_to(&Frame::whole(request, text).bytes(), to).expect("it is sent");
        };
        if word == "get" {
            let text = format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len());
            send(frame.request, text.as_bytes(), from);
            continue;
        }
        let returned = words.filter_map(|flag| match flag {
            "t" => Some(" t-1".to_owned()),
            "f" => Some(" f0".to_owned()),
            "v" => None,
            other => Some(format!(" {other}")),
        });
        let flags: String = returned.collect();
        let text = format!("VA {}{flags}\r\n{value}\r\n", value.len()).into_bytes();
        let asked = Asked { from, request: frame.request, key: key.to_owned(), text };
        match waits.take() {
            _ if exchanged.load(Relaxed) >= PAIRS => send(asked.request, &asked.text, from),
            Some(other) if other.key != asked.key => {
                send(asked.request, &other.text, asked.from);
                send(other.request, &asked.text, other.from);
                exchanged.fetch_add(1, Relaxed);
            }
            _ => waits = Some(asked),
        }
    }
}

fn get(socket: &UdpSocket, key: &str) -> String {
    static REQUEST: AtomicU16 = AtomicU16::new(1);
    let answer = answered("the server or the kernel answers", || {
        let request = REQUEST.fetch_add(1, Relaxed);
        let is_mine = |answer: &[u8]| Frame::decode(answer).is_ok_and(|it| it.request == request);
        ask(socket, &Frame::whole(request, format!("get {key}\r\n").as_bytes()).bytes(), is_mine)
    });
    let frame = Frame::decode(&answer).expect("a frame");
    let text = String::from_utf8_lossy(frame.payload).into_owned();
    text.lines().nth(1).expect("a value").to_owned()
}

#[test]
fn no_key_is_answered_with_another_ones_value() {
    let Some(mut rack) = Rack::build() else { return };
    rack.attach(&ATTACHED);
    let (exchanged, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let server = rack.within("d", || UdpSocket::bind((SERVER, 11_211)).expect("a port"));
    thread::scope(|scope| {
        scope.spawn(|| {
            enter(&rack.file("d"));
            serve(&server, &exchanged, &over);
        });
        let read = || {
            rack.as_client(|| {
                let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
                socket.connect((SERVER, 11_211)).expect("an address");
                for key in (0..20).flat_map(|_| KEYS) {
                    assert_eq!(get(&socket, key), value_of(key), "of {key}");
                }
            });
        };
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait("answers are exchanged", || {
                read();
                exchanged.load(Relaxed) >= PAIRS
            });
            let before = rack.count("hit");
            wait("the kernel answers", || {
                read();
                rack.count("hit") > before
            });
        }));
        over.store(true, Relaxed);
        if let Err(error) = seen {
            std::panic::resume_unwind(error);
        }
    });
}
