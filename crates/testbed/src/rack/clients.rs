//! Open-loop clients with one total rate. They search the rate at which a rack loses little: the
//! throughput as the paper defines it (section 6.1).

use std::{
    net::{SocketAddr, UdpSocket},
    thread,
    time::Duration,
};

use anyhow::{Context, bail};
use fabric::rack::key;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use serde::Serialize;
use wire::netcache::{Flags, Message, Op};

use super::{Config, Popularity, servers::SOCKET_BYTES};
use crate::clock::now;

/// Length of a counting window, and the interval at which the rate is set.
pub const WINDOW: Duration = Duration::from_millis(100);
/// Number of windows after the query's in which an answer counts; a later one counts as lost. A
/// query waits for at most 128 ms in the queue of its server.
const LATE_WINDOWS: usize = 2;
/// Timeout until the servers accept writes.
const WRITES_MAX: Duration = Duration::from_secs(20);
const TICK: Duration = Duration::from_micros(500);
/// Maximum number of queries that are caught up after a pause; more would be an unintended burst.
const BEHIND_MAX: Duration = Duration::from_millis(20);
/// Loss range in which the rate is kept: the lower half of the paper's 0.5 % to 1 %, so that a
/// second of random excess stays within it.
const LOSS: (f64, f64) = (0.005, 0.0075);
/// Number of queries that makes the loss significant: four lost at the lower bound.
const JUDGED: u64 = 800;
/// Maximum number of outstanding queries; a power of two.
const QUESTIONS: usize = 1 << 18;
/// Increment by which consecutive raises grow, and by which consecutive cuts grow.
const RAISED: f64 = 0.002;
const CUT: f64 = 0.01;
/// Maximum change of the rate at once, unless more was lost.
const STEP_MAX: f64 = 0.2;
/// Above this share of the last sustained rate, raises do not grow: full queues show loss late.
const NEAR: f64 = 0.95;
/// Share by which each cut reduces the last sustained rate.
const FORGOTTEN: f64 = 0.05;
/// Initial rate, as a share of the total rate of the servers.
const FIRST: f64 = 0.25;

/// Results of the queries of some period.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Second {
    /// Queries sent.
    pub asked: u64,
    /// Answered by the switch.
    pub switch: u64,
    /// Answered by a server.
    pub servers: u64,
}

impl Second {
    /// Share of queries that were lost.
    pub fn loss(&self) -> f64 {
        let answered = self.switch + self.servers;
        self.asked.saturating_sub(answered) as f64 / self.asked.max(1) as f64
    }

    pub(super) fn and(self, other: &Self) -> Self {
        Self {
            asked: self.asked + other.asked,
            switch: self.switch + other.switch,
            servers: self.servers + other.servers,
        }
    }
}

struct Clients {
    socket: UdpSocket,
    reads: Popularity,
    writes: Popularity,
    share_of_writes: f64,
    value: Vec<u8>,
    sequence: u32,
    /// The window of each query.
    asked_in: Vec<u32>,
    /// Start of the first window.
    began: Duration,
    windows: Vec<Second>,
}

/// Runs for the configured time; returns the results of each window.
pub(super) fn ask(
    servers: SocketAddr,
    config: &Config,
    show: &impl Fn(&Second),
) -> anyhow::Result<Vec<Second>> {
    let mut clients = Clients::new(servers, config)?;
    set_socket_recv_buffer_size_force(&clients.socket, SOCKET_BYTES)?;
    if config.writes > 0.0 {
        clients.wait_for_writes()?;
    }
    clients.began = now();
    let seconds = config.settle_s + config.seconds;
    let count = (Duration::from_secs(seconds.into()).as_nanos() / WINDOW.as_nanos()) as usize;
    let per_change = (config.change.every().as_nanos() / WINDOW.as_nanos()) as usize;
    let per_second = (Duration::from_secs(1).as_nanos() / WINDOW.as_nanos()) as usize;
    let settled = config.settle_s as usize * per_second;
    let mut rate = Rate::new(f64::from(config.servers * config.server_qps) * FIRST);
    for window in 0..count + LATE_WINDOWS + 1 {
        if window < count {
            if per_change > 0 && window > settled && (window - settled).is_multiple_of(per_change) {
                clients.reads.change(config.change);
            }
            clients.window(rate.qps);
        } else {
            clients.window(0.0);
        }
        if let Some(whole) = window.checked_sub(LATE_WINDOWS) {
            rate.follow(&clients.windows, whole);
            if whole % per_second == per_second - 1 {
                let second = &clients.windows[whole + 1 - per_second..=whole];
                show(&second.iter().fold(Second::default(), Second::and));
            }
        }
    }
    clients.windows.truncate(count);
    Ok(clients.windows)
}

struct Rate {
    qps: f64,
    /// Last relative change.
    step: f64,
    /// Current growth of consecutive raises.
    faster: f64,
    /// Last sustained rate.
    held: f64,
    /// First window that counts: earlier ones were evaluated already, or were sent before a cut.
    since: usize,
}

impl Rate {
    fn new(qps: f64) -> Self {
        Self { qps, step: STEP_MAX, faster: 0.0, held: f64::INFINITY, since: 0 }
    }

    /// Accumulates losses until the sample is large enough.
    fn follow(&mut self, windows: &[Second], whole: usize) {
        let Some(judged) = windows.get(self.since..=whole) else { return };
        let judged = judged.iter().fold(Second::default(), Second::and);
        if judged.asked < JUDGED {
            return;
        }
        let loss = judged.loss();
        self.since = whole + 1;
        if loss < LOSS.0 {
            let is_first = self.step <= 0.0 || self.qps > self.held * NEAR;
            self.faster = if is_first { RAISED } else { self.faster + RAISED };
            self.step = if is_first { RAISED } else { (self.step + self.faster).min(STEP_MAX) };
        } else if loss > LOSS.1 {
            // Loss at all servers ends at once after a cut; loss at one hot server decreases only
            // slowly.
            self.step = (self.step.min(0.0) - CUT).max(-STEP_MAX);
            self.since = windows.len();
        } else {
            self.step = 0.0;
        }
        let factor = 1.0 + if self.step < 0.0 { self.step.min(LOSS.0 - loss) } else { self.step };
        self.qps = (self.qps * factor.max(0.3)).max(100.0);
        if self.step < 0.0 {
            let before = if self.held.is_finite() { self.held * (1.0 - FORGOTTEN) } else { 0.0 };
            self.held = self.qps.max(before);
        }
    }
}

impl Clients {
    fn new(servers: SocketAddr, config: &Config) -> anyhow::Result<Self> {
        let socket = UdpSocket::bind("0.0.0.0:0").context("cannot open a socket")?;
        socket.connect(servers).with_context(|| format!("cannot reach {servers}"))?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            reads: Popularity::new(config.keys, config.skew, config.seed),
            writes: Popularity::new(config.keys, config.write_skew, config.seed + 1),
            share_of_writes: config.writes,
            value: vec![b'w'; config.value_bytes],
            sequence: 0,
            asked_in: vec![0; QUESTIONS],
            began: now(),
            windows: Vec::new(),
        })
    }

    /// Servers accept no writes after a start until all leases of the switch have expired. Queries
    /// sent before would count as lost and lead to a far too low rate.
    fn wait_for_writes(&mut self) -> anyhow::Result<()> {
        let (began, mut buffer) = (now(), [0; 2048]);
        while now() < began + WRITES_MAX {
            self.sequence += 1;
            let value = &self.value[..];
            let write = Message { value, ..Message::new(Op::Put, self.sequence, key(0)) };
            let _ = self.socket.send(&write.bytes());
            thread::sleep(WINDOW);
            while let Ok(bytes) = self.socket.recv(&mut buffer) {
                let answer = Message::decode(&buffer[..bytes]);
                if answer.is_ok_and(|answer| answer.op == Op::PutReply) {
                    return Ok(());
                }
            }
        }
        bail!("servers acknowledged no write within {} s", WRITES_MAX.as_secs())
    }

    /// Sends at one rate until the end of this window; a window that began late still ends on time.
    fn window(&mut self, qps: f64) {
        let number = self.windows.len() as u32;
        self.windows.push(Second::default());
        let ends = self.began + WINDOW * (number + 1);
        let mut asked_until = now();
        loop {
            let time = now();
            if time >= ends {
                return;
            }
            asked_until = asked_until.max(time.saturating_sub(BEHIND_MAX));
            let due = ((time - asked_until).as_secs_f64() * qps) as u32;
            if due > 0 {
                asked_until += Duration::from_secs_f64(f64::from(due) / qps);
            }
            for _ in 0..due {
                self.question(number);
                self.windows[number as usize].asked += 1;
            }
            self.take_answers();
            thread::sleep(TICK);
        }
    }

    fn question(&mut self, window: u32) {
        self.sequence = self.sequence.wrapping_add(1);
        self.asked_in[self.sequence as usize % QUESTIONS] = window;
        let writes = self.share_of_writes > 0.0 && self.reads.unit() < self.share_of_writes;
        let (op, number) =
            if writes { (Op::Put, self.writes.draw()) } else { (Op::Get, self.reads.draw()) };
        let value: &[u8] = if writes { &self.value } else { b"" };
        let message = Message { value, ..Message::new(op, self.sequence, key(number)) };
        // A query that cannot be sent counts as lost.
        let _ = self.socket.send(&message.bytes());
    }

    fn take_answers(&mut self) {
        let mut buffer = [0; 2048];
        while let Ok(bytes) = self.socket.recv(&mut buffer) {
            let Ok(answer) = Message::decode(&buffer[..bytes]) else { continue };
            if self.sequence.wrapping_sub(answer.sequence) as usize >= QUESTIONS {
                continue;
            }
            let asked_in = self.asked_in[answer.sequence as usize % QUESTIONS] as usize;
            if asked_in + LATE_WINDOWS < self.windows.len() - 1 {
                continue;
            }
            let window = &mut self.windows[asked_in];
            if answer.flags.has(Flags::SWITCH) {
                window.switch += 1;
            } else {
                window.servers += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates servers with a given total rate, of which the hottest receives a given share.
    fn held(all: f64, hottest: f64, seconds: usize) -> Vec<Second> {
        let (mut rate, mut windows) = (Rate::new(all * FIRST), Vec::new());
        for window in 0..seconds * 10 {
            let cold = (rate.qps * (1.0 - hottest)).min(all);
            let answered = cold + (rate.qps * hottest).min(all / 128.0);
            let count = |qps: f64| (qps / 10.0) as u64;
            let second =
                Second { asked: count(rate.qps), switch: 0, servers: count(answered.min(all)) };
            windows.push(second);
            if window >= LATE_WINDOWS {
                rate.follow(&windows, window - LATE_WINDOWS);
            }
        }
        windows
    }

    #[test]
    fn clients_find_the_rate_that_loses_little_and_stay_there() {
        for (hottest, at_most) in [(1.0 / 128.0, 32_500.0), (0.055, 5_300.0)] {
            let windows = held(32_000.0, hottest, 20);
            let sum = windows[100..].iter().fold(Second::default(), Second::and);
            let qps = sum.asked as f64 / 10.0;
            assert!((0.9 * at_most..at_most).contains(&qps), "{hottest}: {qps} a second");
            assert!((0.003..0.012).contains(&sum.loss()), "{hottest}: {} lost", sum.loss());
        }
    }

    #[test]
    fn a_window_that_begins_late_ends_in_time() {
        let servers = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let address = servers.local_addr().expect("an address");
        let mut clients = Clients::new(address, &Config::default()).expect("clients");
        // The clients did not run for three windows: their next queries count in the fourth.
        clients.began -= WINDOW * 3;
        while clients.windows.last().is_none_or(|window| window.asked == 0) {
            clients.window(10_000.0);
        }
        assert!(clients.windows.len() > 3, "queries were sent in a window that is over");
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "says why it is skipped")]
    fn nothing_is_asked_before_servers_take_writes() {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: large socket buffers need root");
            return;
        }
        let servers = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let address = servers.local_addr().expect("an address");
        let config =
            Config { writes: 0.5, keys: 100, settle_s: 0, seconds: 1, ..Config::default() };
        thread::scope(|scope| {
            let clients = scope.spawn(|| ask(address, &config, &|_| {}).expect("asks"));
            let mut buffer = [0; 2048];
            for refused in [true, true, false] {
                let (bytes, client) = servers.recv_from(&mut buffer).expect("a question");
                let write = Message::decode(&buffer[..bytes]).expect("a message");
                assert_eq!(write.op, Op::Put);
                if !refused {
                    let reply = Message::new(Op::PutReply, write.sequence, write.key);
                    servers.send_to(&reply.bytes(), client).expect("is sent");
                }
            }
            let windows = clients.join().expect("clients end");
            assert!(windows.iter().any(|window| window.asked > 0));
        });
    }
}
