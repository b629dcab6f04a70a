//! A server between the feed of the cache and DynamoDB that changes replies about streams.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use serde_json::Value;
use wire::dynamodb::reply::{self, RequestId};
use wire::dynamodb::request;
use wire::http1::{Limits, head};

use super::dynamodb_history::ask;
use super::process::serve_each;

/// What is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// One record in this many is left out.
    Drops(usize),
    /// Once it is armed, the next records are trimmed before they are read.
    Trims,
    /// Once it is armed, the next iterator has expired.
    Expires,
}

/// The server.
pub struct Streams {
    pub address: SocketAddr,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    records: AtomicUsize,
    dropped: AtomicUsize,
    /// Faults that are left.
    armed: AtomicUsize,
}

impl Streams {
    pub fn start(origin: SocketAddr, fault: Fault) -> Self {
        let counts = Arc::new(Counts::default());
        let shared = Arc::clone(&counts);
        let address = serve_each(move |client| serve(client, origin, fault, &shared));
        Self { address, counts }
    }

    /// Records that were left out.
    pub fn dropped(&self) -> usize {
        self.counts.dropped.load(Relaxed)
    }

    /// The fault occurs once.
    pub fn arm(&self) {
        self.counts.armed.store(1, Relaxed);
    }

    /// Whether it has occurred.
    pub fn is_spent(&self) -> bool {
        self.counts.armed.load(Relaxed) == 0
    }
}

/// Answers the requests of one connection; returns at its end.
fn serve(mut client: TcpStream, origin: SocketAddr, fault: Fault, counts: &Counts) -> Option<()> {
    let mut server = TcpStream::connect(origin).ok()?;
    let (mut bytes, mut buffer) = (Vec::new(), [0; 8 << 10]);
    loop {
        let read = client.read(&mut buffer).ok().filter(|&read| read > 0)?;
        bytes.extend_from_slice(&buffer[..read]);
        let Some((_, length)) = request::decode(&bytes, &Limits::default()).ok()? else { continue };
        let original: Vec<u8> = bytes.drain(..length).collect();
        let (status, body) = ask(&mut server, &original)?;
        let is_read = head::request(&original, &Limits::default()).ok()??.head;
        let is_read = is_read.one("x-amz-target")?.ends_with(b".GetRecords");
        let body =
            if is_read && status == 200 { change(body, fault, counts) } else { (status, body) };
        let (line, id) = (format!("{} x", body.0), RequestId(1));
        let (checksum, mut out) = (reply::checksum(body.1.as_bytes()), Vec::new());
        reply::write(&line, checksum, body.1.as_bytes(), id, false, &mut out);
        client.write_all(&out).ok()?;
    }
}

/// A reply to `GetRecords`, with the fault.
fn change(body: String, fault: Fault, counts: &Counts) -> (u16, String) {
    let mut parsed: Value = serde_json::from_str(&body).expect("JSON");
    let records = parsed["Records"].as_array_mut().expect("records");
    let spend = || counts.armed.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
    let failure = |error: &str| {
        let kind = format!("com.amazonaws.dynamodb.v20120810#{error}");
        (400, format!(r#"{{"__type":"{kind}","message":"of the test"}}"#))
    };
    match fault {
        Fault::Drops(one_in) => {
            let before = records.len();
            records.retain(|_| !(counts.records.fetch_add(1, Relaxed) + 1).is_multiple_of(one_in));
            counts.dropped.fetch_add(before - records.len(), Relaxed);
        }
        Fault::Trims if !records.is_empty() && spend() => {
            counts.dropped.fetch_add(records.len(), Relaxed);
            return failure("TrimmedDataAccessException");
        }
        Fault::Expires if spend() => return failure("ExpiredIteratorException"),
        Fault::None | Fault::Trims | Fault::Expires => return (200, body),
    }
    (200, parsed.to_string())
}
