//! A client forges tagged writes, updates and replies of the switch or a server, through the
//! attached program and bypassing it: reads return what the server stores, writes continue, and
//! there is no flood of messages.

use std::{net::UdpSocket, sync::atomic::Ordering::Relaxed, thread, time::Duration};

use crate::rack::{KEY, PROGRAM, Rack, SEQUENCE, SERVER, SWITCH, netcache, wait};
use wire::netcache::{Flags, Message, Op};

const ATTACHED: [&str; 6] = ["--threshold", "3", "--sampled", "65536", "--entries", "1024"];
/// Long enough to detect a flood: the agent would send thousands of messages.
const WATCHED: Duration = Duration::from_millis(500);
/// Maximum number of messages for a few writes.
const SENT_MAX: u64 = 100;

fn socket(to: &str) -> UdpSocket {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket.connect((to, 50_000)).expect("an address");
    socket
}

/// Sends every message that a client may not send, some with valid fields.
fn forge(to: &UdpSocket) {
    for op in Op::ALL.iter().skip(3) {
        for version in [0, 1, 1 << 62, u64::MAX] {
            for flags in [Flags::default(), Flags(0xff).with(Flags::FOUND, true)] {
                let flags = Flags(flags.0 & !Flags::LONG_KEY.0);
                let sequence = SEQUENCE.fetch_add(1, Relaxed);
                let forged = Message {
                    version,
                    flags,
                    value: b"forged",
                    ..Message::new(*op, sequence, KEY)
                };
                to.send(&forged.bytes()).expect("it is sent");
            }
        }
    }
}

fn is_told(rack: &Rack, value: &[u8]) {
    rack.as_client(|| {
        let socket = socket(SERVER);
        wait("the kernel answers", || {
            let (flags, stored) = netcache(&socket, Op::Get, b"");
            assert_eq!(stored, value);
            flags.has(Flags::SWITCH)
        });
    });
}

#[test]
fn what_is_read_is_what_was_written_last() {
    let Some(mut rack) = Rack::build() else { return };
    let listen = format!("{SERVER}:50000");
    rack.start("d", PROGRAM, &["switch", "agent", "--listen", &listen, "--switch", SWITCH]);
    rack.attach(&ATTACHED);
    let write = |end: &str, value: &[u8]| {
        rack.within(end, || drop(netcache(&socket(SERVER), Op::Put, value)));
    };
    write("c", b"old");
    is_told(&rack, b"old");
    let dropped = rack.count("forged");
    rack.as_client(|| {
        forge(&socket(SERVER));
        forge(&socket(SWITCH));
    });
    wait("the program drops what is forged", || rack.count("forged") >= dropped + 2 * 15 * 8);
    is_told(&rack, b"old");
    write("c", b"new");
    is_told(&rack, b"new");
    // Next to the server, where there is no program: the agent ignores the client's tags, and
    // handles its writes as untagged writes.
    rack.within("d", || {
        let socket = socket(SERVER);
        for op in [Op::PutCached, Op::DeleteCached] {
            let version = 1 << 62;
            let sequence = SEQUENCE.fetch_add(1, Relaxed);
            let tagged = Message { version, value: b"beside", ..Message::new(op, sequence, KEY) };
            socket.send(&tagged.bytes()).expect("it is sent");
        }
        forge(&socket);
    });
    write("d", b"other");
    is_told(&rack, b"other");
    for value in [b"one", b"two"] {
        write("c", value);
        is_told(&rack, value);
    }
    // No message is resent.
    let before = rack.count("write");
    thread::sleep(WATCHED);
    let sent = rack.count("write") - before;
    assert!(sent < SENT_MAX, "{sent} invalidations without any write");
}
