//! A relay that was stopped or dropped leaves no thread and no descriptor open.

use std::fs::read_dir;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use testbed::link::{Relay, RelayConfig};

const PATIENCE: Duration = Duration::from_secs(60);

fn threads_and_descriptors() -> (usize, usize) {
    let count = |path| read_dir(path).unwrap().count();
    (count("/proc/self/task"), count("/proc/self/fd"))
}

#[test]
fn stopped_relay_leaves_nothing_behind() {
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let before = threads_and_descriptors();
    for stopped in [true, false] {
        let relay = Relay::start(RelayConfig::new(origin.local_addr().unwrap())).unwrap();
        let mut client = TcpStream::connect(relay.local_addr()).unwrap();
        let mut server = origin.accept().unwrap().0;
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0; 1]).unwrap();
        if stopped {
            relay.stop();
        } else {
            drop(relay);
        }
        // Both ends see the connection closed.
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
        assert_eq!(server.read(&mut [0; 1]).unwrap(), 0);
    }
    // A joined thread stays in the kernel's list for a moment.
    let stopped = Instant::now();
    while threads_and_descriptors() != before {
        assert!(stopped.elapsed() < PATIENCE, "{:?}, not {before:?}", threads_and_descriptors());
        thread::yield_now();
    }
}
