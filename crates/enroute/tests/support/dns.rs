//! A name server on loopback, for one domain whose hosts are all on loopback.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::thread;

use super::directory::{TemporaryDirectory, on_path};
use super::origins::absent;

const SRV: u16 = 33;
const TXT: u16 = 16;
const A: u16 = 1;

/// A running name server. It ends with the process.
pub struct NameServer {
    directory: TemporaryDirectory,
}

impl NameServer {
    /// Reports these hosts and ports for the service `_mongodb._tcp` of every domain, and the TXT
    /// record `text`. `None`, with the reason printed, without the right to do so.
    pub fn start(hosts: Vec<(String, u16)>, text: &'static str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() || on_path("unshare").is_none() {
            return absent("a name server needs root and unshare");
        }
        // No other test process has this loopback address.
        let [_, high, middle, low] = std::process::id().to_be_bytes();
        let address = Ipv4Addr::new(127, 128 | high, middle, low.max(2));
        let socket = match UdpSocket::bind((address, 53)) {
            Ok(socket) => socket,
            Err(error) => return absent(&format!("cannot listen at {address}:53: {error}")),
        };
        thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, client)) = socket.recv_from(&mut question) {
                let reply = answer(&question[..length], &hosts, text);
                let _ = socket.send_to(&reply, client);
            }
        });
        let directory = TemporaryDirectory::create();
        let text = format!("nameserver {address}\n");
        fs::write(directory.path().join("resolv.conf"), text).expect("a writable directory");
        Some(Self { directory })
    }

    /// A `resolv.conf` that names it.
    pub fn file(&self) -> PathBuf {
        self.directory.path().join("resolv.conf")
    }
}

fn answer(question: &[u8], hosts: &[(String, u16)], text: &str) -> Vec<u8> {
    let name_bytes = question[12..].iter().position(|byte| *byte == 0).expect("a name") + 1;
    let asked = &question[12..12 + name_bytes + 4];
    let kind = u16::from_be_bytes([asked[name_bytes], asked[name_bytes + 1]]);
    let records: Vec<Vec<u8>> = match kind {
        SRV => {
            let record = |(host, port): &(String, u16)| {
                let mut record = vec![0, 0, 0, 0];
                record.extend(port.to_be_bytes());
                for label in host.split('.') {
                    record.push(label.len().try_into().expect("short"));
                    record.extend(label.bytes());
                }
                record.push(0);
                record
            };
            hosts.iter().map(record).collect()
        }
        TXT => vec![[&[text.len().try_into().expect("short")], text.as_bytes()].concat()],
        A => vec![vec![127, 0, 0, 1]],
        _ => Vec::new(),
    };
    let count = u8::try_from(records.len()).expect("few");
    // A reply without an error to one question.
    let mut reply = [&question[..2], &[0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0], asked].concat();
    for record in records {
        // For the name in the question, class IN, TTL of a minute.
        reply.extend([0xc0, 12, kind.to_be_bytes()[0], kind.to_be_bytes()[1], 0, 1, 0, 0, 0, 60]);
        reply.extend(u16::try_from(record.len()).expect("short").to_be_bytes());
        reply.extend(record);
    }
    reply
}
