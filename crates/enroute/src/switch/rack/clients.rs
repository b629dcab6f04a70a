//! Clients that ask at one rate, in total, whatever is answered, and find the rate at which a rack
//! loses little: the throughput the paper means (section 6.1).

use std::{
    net::{SocketAddr, UdpSocket},
    thread,
    time::Duration,
};

use anyhow::Context;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use serde::Serialize;
use wire::netcache::{Flags, Message, Op};

use super::{Config, Popularity, key, servers::SOCKET_BYTES};
use crate::switch::now;

/// What is counted together, and how often the rate is set.
pub const WINDOW: Duration = Duration::from_millis(100);
/// Answers that come in a later window than this one after the question's are lost.
const LATE_WINDOWS: usize = 1;
const TICK: Duration = Duration::from_micros(500);
/// Queries made up for after a pause; more would be a burst nobody asked for.
const BEHIND_MAX: Duration = Duration::from_millis(20);
/// Between these the rate stays (the paper's 0.5 % to 1 %).
const LOSS: (f64, f64) = (0.005, 0.01);
/// Questions that may be under way; a power of two.
const QUESTIONS: usize = 1 << 18;
const GROWTH: (f64, f64) = (1.02, 1.2);

/// What happened to the questions of some time.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Second {
    /// Asked.
    pub asked: u64,
    /// Answered by the switch.
    pub switch: u64,
    /// Answered by a server.
    pub servers: u64,
}

impl Second {
    /// Lost over asked.
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
    /// The window each question was asked in.
    asked_in: Vec<u32>,
    windows: Vec<Second>,
}

/// Asks for as long as the configuration says: what happened, window by window.
pub(super) fn ask(
    servers: SocketAddr,
    config: &Config,
    show: &impl Fn(&Second),
) -> anyhow::Result<Vec<Second>> {
    let socket = UdpSocket::bind("0.0.0.0:0").context("cannot open a socket")?;
    set_socket_recv_buffer_size_force(&socket, SOCKET_BYTES)?;
    socket.connect(servers).with_context(|| format!("cannot reach {servers}"))?;
    socket.set_nonblocking(true)?;
    let mut clients = Clients {
        socket,
        reads: Popularity::new(config.keys, config.skew, config.seed),
        writes: Popularity::new(config.keys, config.write_skew, config.seed + 1),
        share_of_writes: config.writes,
        value: vec![b'w'; config.value_bytes],
        sequence: 0,
        asked_in: vec![0; QUESTIONS],
        windows: Vec::new(),
    };
    let seconds = config.settle_s + config.seconds;
    let count = (Duration::from_secs(seconds.into()).as_nanos() / WINDOW.as_nanos()) as usize;
    let per_change = (config.change.every().as_nanos() / WINDOW.as_nanos()) as usize;
    let per_second = (Duration::from_secs(1).as_nanos() / WINDOW.as_nanos()) as usize;
    let settled = config.settle_s as usize * per_second;
    let mut rate =
        Rate { qps: f64::from(config.servers * config.server_qps) * 0.1, growth: GROWTH.1 };
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
            rate.set(&clients.windows[whole]);
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
    growth: f64,
}

impl Rate {
    /// Follows what was lost: down by as much, up ever faster while nothing is.
    fn set(&mut self, window: &Second) {
        let loss = window.loss();
        if loss > LOSS.1 {
            self.qps *= (1.0 - loss + (LOSS.0 + LOSS.1) / 2.0).max(0.3);
            self.growth = GROWTH.0;
        } else if loss < LOSS.0 {
            self.qps *= self.growth;
            self.growth = (self.growth * 1.02).min(GROWTH.1);
        }
        self.qps = self.qps.max(100.0);
    }
}

impl Clients {
    /// Asks at one rate for one window.
    fn window(&mut self, qps: f64) {
        let number = self.windows.len() as u32;
        self.windows.push(Second::default());
        let began = now();
        let mut asked_until = began;
        loop {
            let time = now();
            if time >= began + WINDOW {
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
        // What does not go out is lost.
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
