//! Before a client has authenticated, `enroute db` limits it as redis-server does: ten arguments of
//! 16 KiB, and a few unread replies. Such clients therefore use very little memory.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Instant,
};

use crate::support::{database::Database, origins::Redis, process::PATIENCE};

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Returns the reply to `bytes`, until the server closes the connection or `count` bytes were
/// received.
fn answer(address: SocketAddr, bytes: &[u8], count: usize) -> String {
    let mut stream = connect(address);
    stream.write_all(bytes).expect("it reads");
    let mut heard = Vec::new();
    while heard.len() < count {
        let mut buffer = [0; 4_096];
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => heard.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}"),
        }
    }
    String::from_utf8_lossy(&heard).into_owned()
}

fn bulk(length: usize) -> Vec<u8> {
    [format!("${length}\r\n").as_bytes(), &vec![b'x'; length], b"\r\n"].concat()
}

#[test]
fn strangers_are_refused_what_redis_server_refuses() {
    let Some(redis) = Redis::start_with(&["--requirepass", "secret"]) else { return };
    let database = Database::start_with(&["--password", "secret"]);
    let eleven = [b"*11\r\n".to_vec(), bulk(1).repeat(11)].concat();
    let long = [b"*2\r\n$4\r\nECHO\r\n".to_vec(), bulk(16_385)].concat();
    let fits = [b"*2\r\n$4\r\nECHO\r\n".to_vec(), bulk(16_384)].concat();
    let login = b"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n".to_vec();
    // Data that follows a login in the same segment has the limits of authenticated clients.
    let behind = [login, long.clone(), b"*1\r\n$4\r\nQUIT\r\n".to_vec()].concat();
    for bytes in [&eleven, &long, &fits, &behind, &b"*1\r\n$16385\r\n".to_vec()] {
        let end = if bytes == &fits { 20 } else { usize::MAX };
        let [ours, theirs] =
            [database.address(), redis.address()].map(|address| answer(address, bytes, end));
        assert_eq!(ours, theirs, "{}", bytes[..40.min(bytes.len())].escape_ascii());
    }
    // Without a password every client is authenticated.
    let open = Database::start();
    assert!(answer(open.address(), &long, 16_390).starts_with("$16385\r\n"));
}

/// Number of unauthenticated clients, each of which sends up to its limit.
const STRANGERS: usize = 200;
const BYTES_MORE_MAX: usize = 24 << 20;

#[test]
fn strangers_take_little_memory() {
    let database = Database::start_with(&["--password", "secret", "--memory", "64MiB"]);
    let address = database.address();
    // The first connections allocate the buffers of the workers.
    drop((0..20).map(|_| answer(address, b"PING\r\n", 5)).collect::<Vec<_>>());
    let before = database.process().resident_bytes();
    let mut streams: Vec<TcpStream> = (0..STRANGERS).map(|_| connect(address)).collect();
    let mut refused = 0;
    for (number, stream) in streams.iter_mut().enumerate() {
        let request = match number % 4 {
            // 300 MiB are announced, and sent up to the limit.
            0 => [b"*2\r\n$4\r\nAUTH\r\n$314572800\r\n".to_vec(), vec![b'x'; 1 << 20]].concat(),
            // Up to the limit, never complete.
            1 => [b"*10\r\n".to_vec(), bulk(16_384).repeat(9)].concat(),
            // Unread replies.
            2 => b"*2\r\n$4\r\nAUTH\r\n$5\r\nwrong\r\n".repeat(20_000),
            _ => b"*1000000\r\n$1\r\nx\r\n".to_vec(),
        };
        stream.set_nonblocking(true).expect("a socket");
        refused += usize::from(stream.write(&request).is_err());
    }
    let started = Instant::now();
    let mut most = 0;
    // Waits until the last client was served: those that exceeded the limits are disconnected.
    loop {
        most = most.max(database.process().resident_bytes());
        let gone =
            (0..STRANGERS).filter(|number| number % 4 == 0 || number % 4 == 3).all(|number| {
                let mut buffer = [0; 4_096];
                matches!(streams[number].read(&mut buffer), Ok(0))
                    || streams[number]
                        .read(&mut buffer)
                        .is_err_and(|error| error.kind() != ErrorKind::WouldBlock)
            });
        if gone {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "clients above the limits are still connected");
    }
    most = most.max(database.process().resident_bytes());
    let more = most.saturating_sub(before);
    assert!(
        more < BYTES_MORE_MAX,
        "{STRANGERS} strangers made {before} bytes {most}; {refused} writes failed"
    );
    assert_eq!(
        answer(address, b"PING\r\n", 5),
        "-NOAU"[..5].to_owned() + "TH Authentication required.\r\n"
    );
}
