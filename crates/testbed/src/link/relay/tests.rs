//! The relay with real sockets on loopback.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use super::*;

const MS: Duration = Duration::from_millis(1);

/// A listener, and a running relay to it.
fn relay(change: impl FnOnce(&mut RelayConfig)) -> (TcpListener, RelayHandle) {
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = RelayConfig::new(origin.local_addr().unwrap());
    change(&mut config);
    (origin, Relay::start(config).unwrap())
}

fn pair(origin: &TcpListener, relay: &RelayHandle) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(relay.local_addr()).unwrap();
    client.set_nodelay(true).unwrap();
    let server = origin.accept().unwrap().0;
    server.set_nodelay(true).unwrap();
    (client, server)
}

/// Echoes each byte on each connection.
fn echo(origin: TcpListener) {
    thread::spawn(move || {
        for stream in origin.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut reader = stream.try_clone().unwrap();
                let _ = io::copy(&mut reader, &mut stream);
                let _ = stream.shutdown(Shutdown::Write);
            });
        }
    });
}

fn ping(client: &mut TcpStream) -> Duration {
    let sent = Instant::now();
    client.write_all(b"ping").unwrap();
    let mut answer = [0; 4];
    client.read_exact(&mut answer).unwrap();
    sent.elapsed()
}

fn pattern(length: usize) -> Vec<u8> {
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((*state >> 24) as u8)
    };
    (0..length).scan(1, |state, _| next(state)).collect()
}

#[test]
fn a_round_trip_takes_at_least_the_asked_time() {
    let (origin, relay) = relay(|config| {
        config.up.delay = 12 * MS;
        config.down.delay = 8 * MS;
    });
    echo(origin);
    let connecting = Instant::now();
    let mut client = TcpStream::connect(relay.local_addr()).unwrap();
    client.set_nodelay(true).unwrap();
    ping(&mut client);
    assert!(connecting.elapsed() >= 40 * MS, "the handshake costs a round trip of its own");
    for _ in 0..5 {
        assert!(ping(&mut client) >= 20 * MS);
    }
}

#[test]
fn without_handshake_the_first_bytes_do_not_wait_for_the_way_back() {
    let (origin, relay) = relay(|config| {
        config.down.delay = Duration::from_secs(3600);
        config.handshake = false;
    });
    let (mut client, mut server) = pair(&origin, &relay);
    client.write_all(b"x").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    server.read_exact(&mut [0; 1]).unwrap();
}

#[test]
fn a_server_that_speaks_first_waits_for_the_handshake_too() {
    let (origin, relay) = relay(|config| *config = config.clone().round_trip(20 * MS));
    let connecting = Instant::now();
    let (mut client, mut server) = pair(&origin, &relay);
    server.write_all(b"hello").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
    assert!(connecting.elapsed() >= 40 * MS);
}

#[test]
fn order_and_bytes_survive_jitter_loss_and_rate() {
    let (origin, relay) = relay(|config| {
        config.up = PathConfig {
            delay: 2 * MS,
            jitter: MS,
            // The stream has 1,400 segments. Which of them are lost depends on how the sockets
            // split the stream; some always are.
            loss: 0.02,
            bits_per_second: Some(200_000_000),
            ..PathConfig::default()
        };
        config.down = config.up.clone();
        config.seed = 3;
    });
    echo(origin);
    let sent = pattern(2_000_000);
    let mut client = TcpStream::connect(relay.local_addr()).unwrap();
    let mut reader = client.try_clone().unwrap();
    let reading = thread::spawn(move || {
        let mut received = Vec::new();
        reader.read_to_end(&mut received).unwrap();
        received
    });
    client.write_all(&sent).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert!(reading.join().unwrap() == sent, "bytes changed on the way");
    let stats = relay.stop();
    assert_eq!((stats.up.bytes, stats.down.bytes), (2_000_000, 2_000_000));
    assert_eq!((stats.up.queued_bytes, stats.down.queued_bytes), (0, 0));
    assert!(stats.up.lost > 0 && stats.down.lost > 0);
}

#[test]
fn a_rate_bounds_the_throughput() {
    let (origin, relay) = relay(|config| {
        config.down.bits_per_second = Some(8_000_000);
        config.handshake = false;
    });
    let (mut client, mut server) = pair(&origin, &relay);
    let started = Instant::now();
    let sending = thread::spawn(move || server.write_all(&[7; 200_000]).unwrap());
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    sending.join().unwrap();
    assert_eq!(received.len(), 200_000);
    assert!(started.elapsed() >= 200 * MS, "1 MB/s takes 200 ms for 200 kB");
}

#[test]
fn a_reader_that_stops_holds_its_sender_back() {
    let (origin, relay) = relay(|config| config.window_bytes = Some(100_000));
    let (mut client, mut server) = pair(&origin, &relay);
    let sent = pattern(30_000_000);
    let expected = sent.clone();
    let sending = thread::spawn(move || client.write_all(&sent).unwrap());
    // The relay reads only what its window and the sockets hold.
    let mut before = relay.stats().up.packets;
    loop {
        thread::sleep(50 * MS);
        let after = relay.stats().up.packets;
        if after == before && after > 0 {
            break;
        }
        before = after;
    }
    assert!(relay.stats().up.queued_bytes <= 100_000);
    assert!(!sending.is_finished());
    let mut received = Vec::new();
    server.read_to_end(&mut received).unwrap();
    sending.join().unwrap();
    assert!(received == expected, "bytes changed on the way");
}

#[test]
fn a_cut_stalls_and_restore_resumes() {
    let (origin, relay) = relay(|config| config.up.delay = 5 * MS);
    let (mut client, mut server) = pair(&origin, &relay);
    client.write_all(b"before").unwrap();
    server.read_exact(&mut [0; 6]).unwrap();

    client.write_all(b"on the way").unwrap();
    relay.cut();
    client.write_all(b", behind").unwrap();
    let delivered = relay.stats().up.bytes;
    server.set_read_timeout(Some(50 * MS)).unwrap();
    // Data that was sent before the cut may still arrive; nothing after it does.
    let mut received = vec![0; (delivered - 6) as usize];
    server.read_exact(&mut received).unwrap();
    let error = server.read(&mut [0; 100]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);

    relay.restore();
    server.set_read_timeout(None).unwrap();
    let mut rest = vec![0; 18 - received.len()];
    server.read_exact(&mut rest).unwrap();
    assert_eq!([received, rest].concat(), b"on the way, behind");
}

#[test]
fn what_a_cut_caught_on_the_way_pays_the_delay_again() {
    let (origin, relay) = relay(|config| {
        config.up.delay = 1000 * MS;
        config.handshake = false;
    });
    let (mut client, mut server) = pair(&origin, &relay);
    client.write_all(b"x").unwrap();
    while relay.stats().up.queued_bytes == 0 {
        thread::sleep(MS);
    }
    relay.cut();
    thread::sleep(100 * MS);
    let restoring = Instant::now();
    relay.restore();
    server.read_exact(&mut [0; 1]).unwrap();
    assert!(restoring.elapsed() >= 1000 * MS);
}

#[test]
fn a_connection_opened_during_a_cut_works_after_it() {
    let (origin, relay) = relay(|config| *config = config.clone().round_trip(4 * MS));
    echo(origin);
    relay.cut();
    let mut client = TcpStream::connect(relay.local_addr()).unwrap();
    client.write_all(b"x").unwrap();
    client.set_read_timeout(Some(30 * MS)).unwrap();
    assert_eq!(client.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
    client.set_read_timeout(None).unwrap();
    relay.restore();
    client.read_exact(&mut [0; 1]).unwrap();
}

#[test]
fn a_cut_schedule_heals_by_itself() {
    let started = Instant::now();
    let (origin, relay) = relay(|config| config.cuts = vec![Duration::ZERO..100 * MS]);
    echo(origin);
    let mut client = TcpStream::connect(relay.local_addr()).unwrap();
    ping(&mut client);
    assert!(started.elapsed() >= 100 * MS);
}

#[test]
fn a_half_close_arrives_after_the_bytes_and_the_other_way_stays_open() {
    let (origin, relay) = relay(|config| config.up.delay = 5 * MS);
    let (mut client, mut server) = pair(&origin, &relay);
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut question = Vec::new();
    server.read_to_end(&mut question).unwrap();
    assert_eq!(question, b"question");
    server.write_all(b"answer").unwrap();
    drop(server);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"answer");
}

fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
}

#[test]
fn a_reset_arrives_after_the_bytes_on_either_side() {
    let (origin, relay) = relay(|config| {
        *config = config.clone().round_trip(10 * MS);
    });
    for client_resets in [true, false] {
        let (client, server) = pair(&origin, &relay);
        let (mut gone, mut left) = if client_resets { (client, server) } else { (server, client) };
        let before = relay.stats();
        gone.write_all(b"last words").unwrap();
        // Linux discards unread data of a reset socket; wait until it is read.
        while relay.stats().up.bytes + relay.stats().down.bytes
            == before.up.bytes + before.down.bytes
        {
            thread::sleep(MS);
        }
        reset(gone);
        let mut words = [0; 10];
        left.read_exact(&mut words).unwrap();
        assert_eq!(&words, b"last words");
        let error = left.read(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
fn a_reset_passes_a_reader_that_stopped() {
    let (origin, relay) = relay(|config| config.window_bytes = Some(10_000));
    let (mut client, server) = pair(&origin, &relay);
    client.set_nonblocking(true).unwrap();
    // Until the whole path is full.
    let mut refused = 0;
    while refused < 20 {
        match client.write(&[1; 65_536]) {
            Ok(written) if written > 0 => refused = 0,
            _ => {
                refused += 1;
                thread::sleep(5 * MS);
            }
        }
    }
    reset(client);
    while relay.stats().connections_open > 0 {
        thread::sleep(MS);
    }
    drop(server);
}

#[test]
fn a_refused_connection_is_reset() {
    let (origin, relay) = relay(|config| *config = config.clone().round_trip(10 * MS));
    drop(origin);
    let asked = Instant::now();
    let mut client = TcpStream::connect(relay.local_addr()).unwrap();
    let error = client.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(asked.elapsed() >= 10 * MS);
}

#[test]
fn many_connections_keep_their_bytes_apart() {
    let (origin, relay) = relay(|config| {
        *config = config.clone().round_trip(6 * MS);
        config.up.jitter = 2 * MS;
        config.connections_max = 50;
    });
    echo(origin);
    let mut clients: Vec<TcpStream> =
        (0..40).map(|_| TcpStream::connect(relay.local_addr()).unwrap()).collect();
    for round in 0..5_u32 {
        for (index, client) in clients.iter_mut().enumerate() {
            client.write_all(&(index as u32 * 1000 + round).to_be_bytes()).unwrap();
        }
        for (index, client) in clients.iter_mut().enumerate() {
            let mut answer = [0; 4];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(u32::from_be_bytes(answer), index as u32 * 1000 + round);
        }
    }
    drop(clients);
    while relay.stats().connections_open > 0 {
        thread::sleep(MS);
    }
    assert_eq!(relay.stop().connections, 40);
}

#[test]
fn connections_over_the_limit_wait_for_a_place() {
    let (origin, relay) = relay(|config| config.connections_max = 1);
    echo(origin);
    let mut first = TcpStream::connect(relay.local_addr()).unwrap();
    ping(&mut first);
    let mut second = TcpStream::connect(relay.local_addr()).unwrap();
    second.write_all(b"later").unwrap();
    second.set_read_timeout(Some(30 * MS)).unwrap();
    assert_eq!(second.read(&mut [0; 5]).unwrap_err().kind(), ErrorKind::WouldBlock);
    second.set_read_timeout(None).unwrap();
    drop(first);
    second.read_exact(&mut [0; 5]).unwrap();
}

#[test]
fn the_delay_can_be_changed_while_it_runs() {
    let (origin, relay) = relay(|_| ());
    echo(origin);
    let mut client = TcpStream::connect(relay.local_addr()).unwrap();
    ping(&mut client);
    relay.set_delay(10 * MS, 20 * MS);
    assert!(ping(&mut client) >= 30 * MS);
}
