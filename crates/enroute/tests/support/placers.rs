//! Records which placer moves slots, as nodes see it (MONITOR); and a slot that takes long to move.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redis::cmd;

use super::cluster::connection;
use super::process::Process;
use super::state::{by_hand, owner, said};

/// The slot of `{foo}`.
pub const SLOT: usize = 12_182;

/// Prefix of the channels of fences.
const CHANNELS: &str = "enroute:lease:";

/// Sets this number of keys in [`SLOT`].
pub fn load(nodes: &[SocketAddr], keys: usize) {
    let mut home = connection(nodes[owner(nodes, SLOT)]);
    let mut pipeline = redis::pipe();
    for number in 0..keys {
        pipeline.cmd("SET").arg(format!("{{foo}}{number}")).arg(number).ignore();
    }
    pipeline.query::<()>(&mut home).expect("the owner takes them");
}

/// Asserts that no slot is open, and that one node has all keys.
pub fn everything_is_there(nodes: &[SocketAddr], keys: usize) {
    let (output, text) = said(nodes, &["doctor"]);
    assert!(output.status.success() && text.contains("no slot is open"), "{text}");
    assert_eq!(count(nodes[owner(nodes, SLOT)]), keys);
    assert_eq!(nodes.iter().map(|node| count(*node)).sum::<usize>(), keys);
}

/// Number of keys of [`SLOT`] at a node.
pub fn count(node: SocketAddr) -> usize {
    let keys = cmd("CLUSTER").arg("COUNTKEYSINSLOT").arg(SLOT).clone();
    keys.query(&mut connection(node)).expect("a count")
}

/// Starts `enroute state move {foo} --to TO`.
pub fn mover(nodes: &[SocketAddr], to: SocketAddr) -> Process {
    let to = to.to_string();
    Process::start(&mut by_hand(nodes, &["move", "{foo}", "--to", &to, "--log", "debug"]))
}

/// Records the MIGRATEs that nodes have executed, by the fence that the script named.
#[derive(Default)]
pub struct Watch {
    /// Times of the first and the last MIGRATE of each fence.
    acted: Mutex<HashMap<String, (f64, f64)>>,
    /// Scripts as they were sent.
    sent: Mutex<Vec<String>>,
    over: AtomicBool,
}

impl Watch {
    /// Watches these nodes until the returned value is dropped.
    pub fn begin<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        nodes: &[SocketAddr],
    ) -> End<'scope> {
        for node in nodes {
            let mut stream = TcpStream::connect(node).expect("the node listens");
            stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a time");
            stream.write_all(b"MONITOR\r\n").expect("it is heard");
            scope.spawn(move || self.listen(stream));
        }
        End(&self.over)
    }

    fn listen(&self, stream: TcpStream) {
        let (mut lines, mut line) = (BufReader::new(stream), String::new());
        let mut fence = String::new();
        loop {
            match lines.read_line(&mut line) {
                Ok(0) => return,
                Ok(_) => {
                    self.notice(&line, &mut fence);
                    line.clear();
                }
                // No line was logged for a while; the part of a line read so far is kept.
                Err(_) if self.over.load(Ordering::Relaxed) => return,
                Err(_) => {}
            }
        }
    }

    /// As in `+1763730000.123456 [0 127.0.0.1:40000] "EVAL" "…" "0" "enroute:lease:…" …`, and, if
    /// it was not refused, `+1763730000.123460 [0 lua] "MIGRATE" …`.
    fn notice(&self, line: &str, fence: &mut String) {
        if line.contains("] \"EVAL\" ") {
            let channel = line.split('"').find(|word| word.starts_with(CHANNELS));
            *fence = channel.unwrap_or_default().to_owned();
            if line.contains("'MIGRATE'") {
                self.sent.lock().unwrap().push(line.trim_end().to_owned());
            }
        } else if line.contains(" lua] \"MIGRATE\" ") {
            let at = line[1..].split(' ').next().and_then(|at| at.parse().ok());
            let at: f64 = at.expect("a time");
            let mut acted = self.acted.lock().unwrap();
            let (first, last) = acted.entry(fence.clone()).or_insert((at, at));
            (*first, *last) = (first.min(at), last.max(at));
        }
    }

    /// The number of fences; panics if the commands of two fences overlap in time.
    pub fn actors_one_after_the_other(&self) -> usize {
        let mut spans: Vec<(f64, f64)> = self.acted.lock().unwrap().values().copied().collect();
        spans.sort_by(|one, other| one.0.total_cmp(&other.0));
        for pair in spans.windows(2) {
            assert!(pair[0].1 < pair[1].0, "two acted at once: {spans:?}");
        }
        spans.len()
    }

    /// The latest script with a MIGRATE that a node received.
    pub fn latest_script(&self) -> Vec<Vec<u8>> {
        let sent = self.sent.lock().unwrap();
        let line = sent.last().expect("one was sent");
        let (_, words) = line.split_once("] ").expect("words");
        unquoted(words)
    }
}

/// Decodes words as MONITOR shows them.
fn unquoted(words: &str) -> Vec<Vec<u8>> {
    let (mut found, mut bytes) = (Vec::new(), words.bytes());
    while let Some(byte) = bytes.next() {
        if byte == b'"' {
            found.push(word(&mut bytes));
        }
    }
    found
}

fn word(bytes: &mut impl Iterator<Item = u8>) -> Vec<u8> {
    let mut word = Vec::new();
    loop {
        let byte = match bytes.next().expect("the end of a word") {
            b'"' => return word,
            b'\\' => match bytes.next().expect("an escaped character") {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'x' => {
                    let digits = [bytes.next(), bytes.next()].map(|digit| digit.expect("a digit"));
                    u8::from_str_radix(&String::from_utf8_lossy(&digits), 16).expect("a byte")
                }
                other => other,
            },
            byte => byte,
        };
        word.push(byte);
    }
}

/// Ends the watching when dropped.
pub struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
