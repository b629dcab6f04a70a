//! `flush_all` with a delay, in every notation and segmentation: replies sent before the flush
//! takes effect are not served after it. The table has the behaviour of memcached 1.6.
#![allow(clippy::print_stdout, reason = "a test says what it skips and what it saw")]

mod support;

use std::{
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use support::{FLAGS, SYN, at, data_plane, small};
use switch::{
    frame::{Frame, Transport},
    layout::{FLUSHES_MAX, Shared},
    plane::DataPlane,
};
use wire::memcache::frame::Frame as Datagram;

const SERVER: &str = "10.0.0.2:11211";
const DAY: u64 = 86_400;

fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32).as_nanos() as u64
}

fn forget(shared: &Shared) {
    for flush in &shared.flushes {
        flush.until_ns.store(0, Relaxed);
        flush.from_ns.store(0, Relaxed);
    }
}

/// A new connection, seen from its SYN on.
fn connection(plane: &mut DataPlane) -> Frame {
    static PORTS: AtomicU32 = AtomicU32::new(1_000);
    let client = format!("10.0.0.1:{}", PORTS.fetch_add(1, Relaxed) % 60_000 + 1_000);
    let frame =
        Frame { transport: Transport::Tcp, sequence: 0, ..Frame::udp(at(&client), at(SERVER)) };
    let mut begins = frame.bytes(b"");
    begins[FLAGS] = SYN;
    plane.run(&begins, 1).expect("it runs");
    Frame { sequence: 1, ..frame }
}

fn say(plane: &mut DataPlane, connection: &mut Frame, said: &[u8]) {
    plane.run(&connection.bytes(said), 1).expect("it runs");
    connection.sequence += said.len() as u32;
}

/// Seconds until entries that are cached now are flushed; `None` if no flush is pending.
fn seconds(plane: &DataPlane) -> Option<u64> {
    let now = now_ns();
    let from = plane.shared().flushed_from(now)?;
    Some(from.saturating_sub(now).div_ceil(1_000_000_000))
}

/// The server's clock advances in whole seconds and may lag.
fn is_about(remembered: Option<u64>, delay: Option<u64>) -> bool {
    match (remembered, delay) {
        (Some(remembered), Some(delay)) => (delay.saturating_sub(4)..=delay).contains(&remembered),
        (remembered, delay) => remembered == delay,
    }
}

/// Lines, and the delay that memcached applies; a line that memcached refuses may count as no
/// flush, or as its number.
const LINES: [(&str, Option<u64>); 15] = [
    ("flush_all\r\n", None),
    ("flush_all 0\r\n", None),
    ("flush_all -1\r\n", None),
    ("flush_all noreply\r\n", None),
    ("flush_all abc\r\n", None),
    ("flush_all 100\r\n", Some(100)),
    ("flush_all 100\n", Some(100)),
    ("flush_all 100 noreply\r\n", Some(100)),
    ("   flush_all   100\r\n", Some(100)),
    ("flush_all +100\r\n", Some(100)),
    ("flush_all \t100\r\n", Some(100)),
    ("flush_all 100\t9\r\n", Some(100)),
    ("flush_all 4294967396\r\n", Some(100)),
    ("flush_all 2592000\r\n", Some(30 * DAY)),
    ("flush_alle 100\r\n", None),
];

#[test]
fn of_every_line_cut_anywhere() {
    let Some(mut plane) = data_plane(small()) else { return };
    for (line, delay) in LINES {
        for cut in 0..line.len() {
            forget(plane.shared());
            let mut connection = connection(&mut plane);
            let (first, rest) = line.as_bytes().split_at(cut);
            for part in [first, rest].into_iter().filter(|part| !part.is_empty()) {
                say(&mut plane, &mut connection, part);
            }
            let remembered = seconds(&plane);
            assert!(is_about(remembered, delay), "{line:?} cut at {cut}: in {remembered:?} s");
        }
        forget(plane.shared());
        let mut connection = connection(&mut plane);
        line.bytes().for_each(|byte| say(&mut plane, &mut connection, &[byte]));
        let remembered = seconds(&plane);
        assert!(is_about(remembered, delay), "{line:?} byte by byte: in {remembered:?} s");
    }
}

#[test]
fn of_datagrams_and_of_the_binary_protocol() {
    let Some(mut plane) = data_plane(small()) else { return };
    let udp = Frame::udp(at("10.0.0.1:9"), at(SERVER));
    for (number, (line, delay)) in (0..).zip(LINES) {
        forget(plane.shared());
        let datagram = Datagram::whole(number, line.as_bytes()).bytes();
        plane.run(&udp.bytes(&datagram), 1).expect("it runs");
        let remembered = seconds(&plane);
        assert!(is_about(remembered, delay), "{line:?}: in {remembered:?} s");
    }
    for operation in [0x08, 0x18] {
        forget(plane.shared());
        let mut flush = vec![0; 28];
        (flush[0], flush[1], flush[4], flush[11], flush[27]) = (0x80, operation, 4, 4, 100);
        // After a no-op.
        let mut both = vec![0x80, 0x0a];
        both.resize(24, 0);
        both.extend(flush);
        let mut connection = connection(&mut plane);
        say(&mut plane, &mut connection, &both);
        assert!(is_about(seconds(&plane), Some(100)), "{operation:#x}");
    }
}

#[test]
fn at_a_second_of_the_wall_clock() {
    let Some(mut plane) = data_plane(small()) else { return };
    let wall = clock_gettime(ClockId::Realtime).tv_sec as u64;
    plane.shared().wall_ns.store(wall * 1_000_000_000 - now_ns(), Relaxed);
    let mut one = connection(&mut plane);
    say(&mut plane, &mut one, format!("flush_all {}\r\n", wall + 100).as_bytes());
    assert!(is_about(seconds(&plane), Some(100)), "{:?}", seconds(&plane));
    // A time in the past.
    forget(plane.shared());
    say(&mut plane, &mut one, format!("flush_all {}\r\n", 31 * DAY).as_bytes());
    assert_eq!(seconds(&plane), None);
}

#[test]
fn one_of_which_a_part_is_not_read_is_taken_for_any() {
    let Some(mut plane) = data_plane(small()) else { return };
    let mut one = connection(&mut plane);
    say(&mut plane, &mut one, b"flush_all 1");
    one.sequence += 1;
    say(&mut plane, &mut one, b"0\r\n");
    assert_eq!(seconds(&plane), Some(0), "a byte is missing");
    forget(plane.shared());
    let mut long = connection(&mut plane);
    say(&mut plane, &mut long, format!("flush_all {}9\r\n", " ".repeat(300)).as_bytes());
    assert_eq!(seconds(&plane), Some(0), "a line that is too long");
}

#[test]
fn several_at_once_and_until_the_last_is_over() {
    let Some(mut plane) = data_plane(small()) else { return };
    let mut one = connection(&mut plane);
    for delay in (1..=2 * FLUSHES_MAX as u64).rev() {
        say(&mut plane, &mut one, format!("flush_all {}\r\n", delay * 100).as_bytes());
    }
    assert!(is_about(seconds(&plane), Some(100)), "{:?}", seconds(&plane));
    let later = now_ns() + 1_000_000_000 * 100 * 2 * FLUSHES_MAX as u64;
    assert!(plane.shared().flushed_from(later - 1_000_000_000).is_some(), "the last is to come");
    let minutes = 120_000_000_000;
    assert!(plane.shared().flushed_from(later + minutes).is_none(), "the last is over");
}

#[test]
fn an_answer_tells_when_it_is_over_at_the_latest() {
    let Some(mut plane) = data_plane(small()) else { return };
    let mut one = connection(&mut plane);
    say(&mut plane, &mut one, b"flush_all 10\r\n");
    let until = |plane: &DataPlane| plane.shared().flushes[0].until_ns.load(Relaxed);
    assert!(
        until(&plane) > now_ns() + 50_000_000_000,
        "the time at which it is applied is unknown"
    );
    let back = Frame { source: one.destination, destination: one.source, sequence: 1, ..one };
    plane.leave(&back.bytes(b"OK\r\n")).expect("it runs");
    let left = until(&plane).saturating_sub(now_ns());
    assert!((10_000_000_000..=13_000_000_000).contains(&left), "{left} ns");
}
