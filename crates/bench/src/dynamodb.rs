//! Requests to DynamoDB, signed, and a client that waits for each reply.

use std::{
    fmt::Write as _,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use anyhow::{Context, ensure};
use aws_lc_rs::{digest, hmac};
use time::{OffsetDateTime, macros::format_description};

use crate::load::connect;

/// The access key of the client, and its secret.
pub(crate) const ACCESS_KEY: &str = "AKIDBENCH";
pub(crate) const SECRET: &str = "secret";

const REGION: &str = "eu-central-1";
const READ_BYTES: usize = 16 << 10;

/// A signed request (AWS Signature Version 4), valid for 15 minutes.
pub(crate) fn request(operation: &str, body: &str) -> anyhow::Result<Vec<u8>> {
    let now = OffsetDateTime::now_utc();
    let time = now.format(format_description!("[year][month][day]T[hour][minute][second]Z"))?;
    let (date, _) = time.split_once('T').context("a time")?;
    let target = format!("DynamoDB_20120810.{operation}");
    let signed = "content-type;host;x-amz-date;x-amz-target";
    let headers = format!(
        "content-type:application/x-amz-json-1.0\nhost:localhost\nx-amz-date:{time}\n\
         x-amz-target:{target}\n"
    );
    let canonical = format!("POST\n/\n\n{headers}\n{signed}\n{}", hash(body));
    let scope = format!("{date}/{REGION}/dynamodb/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hash(&canonical));
    let mut key = format!("AWS4{SECRET}").into_bytes();
    for part in [date, REGION, "dynamodb", "aws4_request"] {
        key = sign(&key, part);
    }
    let signature = hexadecimal(&sign(&key, &text));
    let head = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-amz-json-1.0\r\n\
         x-amz-date: {time}\r\nx-amz-target: {target}\r\ncontent-length: {}\r\n\
         authorization: AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope}, \
         SignedHeaders={signed}, Signature={signature}\r\n\r\n",
        body.len()
    );
    Ok([head.as_bytes(), body.as_bytes()].concat())
}

fn sign(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

fn hash(text: &str) -> String {
    hexadecimal(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A connection.
pub(crate) struct Client {
    stream: TcpStream,
    reply: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self { stream: connect(address)?, reply: Vec::new() })
    }

    pub(crate) fn send(&mut self, request: &[u8]) -> anyhow::Result<()> {
        Ok(self.stream.write_all(request)?)
    }

    /// Waits for a reply, which must be an answer. Returns its head and its body.
    pub(crate) fn receive(&mut self) -> anyhow::Result<(&str, &str)> {
        self.reply.clear();
        let mut end = None;
        while end.is_none_or(|(_, end)| self.reply.len() < end) {
            let before = self.reply.len();
            self.reply.resize(before + READ_BYTES, 0);
            let count = self.stream.read(&mut self.reply[before..])?;
            ensure!(count > 0, "the server closed a connection");
            self.reply.truncate(before + count);
            end = end.or_else(|| length(&self.reply));
        }
        let text = std::str::from_utf8(&self.reply)?;
        ensure!(text.starts_with("HTTP/1.1 200"), "expected an answer, got {text}");
        let (head, _) = end.context("a whole head")?;
        Ok(text.split_at(head))
    }
}

/// Lengths of the head, and of the whole reply, once the head is there.
fn length(reply: &[u8]) -> Option<(usize, usize)> {
    let head = reply.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&reply[..head]).ok()?;
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, bytes) = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
    Some((head, head + bytes.trim().parse::<usize>().ok()?))
}
