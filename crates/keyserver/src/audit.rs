//! The audit log: one line for each use of a key and each refusal, each bound to all before it.
//!
//! A line is a JSON object whose last field, `chain`, is the SHA-256 of the chain value before it
//! and of the line without that field (`docs/formats/keyserver-audit.md`). A file begins with a
//! line which carries the chain value of the file before it, zeros for the first. Changing,
//! removing, inserting or reordering lines breaks the chain; cutting off the end does not, so
//! compare count and head with those noted elsewhere.

use std::{io::BufRead, time::Duration};

use aws_lc_rs::digest::{self, SHA256};
use serde::Serialize;
use wire::ski::KeyId;

use crate::{Error, Result};

mod lines;

pub use lines::{Lines, whole};

/// Longest line in bytes, its end included.
pub const LINE_BYTES_MAX: usize = 2 << 10;
/// Separator between a line's fields and its chain value.
const CHAIN_FIELD: &[u8] = b",\"chain\":\"";
const CHAIN_END: &[u8] = b"\"}";
/// The line's bytes behind its fields.
const SUFFIX_BYTES: usize = CHAIN_FIELD.len() + 64 + CHAIN_END.len();

/// An event.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// When, since 1970.
    pub at: Duration,
    /// The edge: the name in its certificate.
    pub edge: &'a str,
    /// The requested method, if the request was understood.
    pub method: Option<&'static str>,
    /// Of which key.
    pub key: Option<KeyId>,
    /// For which name.
    pub server_name: Option<&'a str>,
    /// Outcome: `done`, or the reason of the failure.
    pub outcome: &'a str,
}

#[derive(Serialize)]
struct Line<'a> {
    n: u64,
    at: f64,
    edge: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_name: Option<&'a str>,
    outcome: &'a str,
}

/// The state of a chain: the number of lines, and the value that binds them all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    /// Lines so far, over all files.
    pub count: u64,
    /// Chain value of the last line.
    pub head: [u8; 32],
}

impl Chain {
    /// Returns the line for `entry`, its end included, and adds it to the chain.
    pub fn append(&mut self, entry: &Entry<'_>) -> Vec<u8> {
        let line = Line {
            n: self.count + 1,
            at: (entry.at.as_secs_f64() * 1e6).round() / 1e6,
            edge: entry.edge,
            method: entry.method,
            key: entry.key.map(|key| key.to_string()),
            server_name: entry.server_name,
            outcome: entry.outcome,
        };
        // Numbers and strings always become JSON.
        self.finish(serde_json::to_vec(&line).unwrap_or_default())
    }

    /// A whole line that was written nowhere, with the number and chain value it has behind this
    /// chain.
    fn append_again(&mut self, line: &[u8]) -> Result<Vec<u8>> {
        let fields = line.strip_suffix(b"\n").and_then(split).map(|(fields, _)| fields);
        let rest = fields.and_then(|fields| fields.splitn(2, |byte| *byte == b',').nth(1));
        let rest = rest.ok_or_else(|| Error::Audit {
            line: self.count + 1,
            expected: "fields and a chain value".into(),
            got: excerpt(line),
        })?;
        let begin = format!("{{\"n\":{},", self.count + 1);
        // Without the brace that `finish` takes away.
        Ok(self.finish([begin.as_bytes(), rest, b"}"].concat()))
    }

    /// The first line of a file.
    pub fn begin_file(&mut self, at: Duration) -> Vec<u8> {
        let (n, at, previous) = (self.count + 1, at.as_secs_f64(), hex(&self.head));
        let line = format!(
            r#"{{"n":{n},"at":{at:.6},"log":"enroute keyserver 1","previous":"{previous}"}}"#
        );
        self.finish(line.into_bytes())
    }

    fn finish(&mut self, mut line: Vec<u8>) -> Vec<u8> {
        line.pop();
        self.advance(&line);
        line.extend_from_slice(CHAIN_FIELD);
        line.extend_from_slice(hex(&self.head).as_bytes());
        line.extend_from_slice(CHAIN_END);
        line.push(b'\n');
        line
    }

    fn advance(&mut self, fields: &[u8]) {
        let mut context = digest::Context::new(&SHA256);
        context.update(&self.head);
        context.update(fields);
        self.head.copy_from_slice(context.finish().as_ref());
        self.count += 1;
    }

    /// State of the chain after the last line of `tail`, the end of a trusted log, for continuing
    /// it.
    pub fn behind(tail: &[u8]) -> Result<Self> {
        let wrong =
            |got: String| Error::Audit { line: 0, expected: "a complete last line".into(), got };
        let line =
            tail.strip_suffix(b"\n").ok_or_else(|| wrong("a line without a line feed".into()))?;
        let line = line.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let (fields, head) = split(line).ok_or_else(|| wrong(excerpt(line)))?;
        let count = number(fields).ok_or_else(|| wrong(excerpt(line)))?;
        Ok(Self { count, head })
    }

    /// Reads one file to its end and verifies each line against the chain. The first line must
    /// continue this chain; if this chain is new, the file may begin anywhere.
    pub fn verify(&mut self, log: &mut dyn BufRead) -> std::io::Result<Result<()>> {
        let mut line = Vec::new();
        for number_in_file in 1.. {
            line.clear();
            let limit = LINE_BYTES_MAX as u64 + 1;
            std::io::Read::take(&mut *log, limit).read_until(b'\n', &mut line)?;
            if line.is_empty() {
                break;
            }
            if let Err(error) = self.verify_line(&line, number_in_file) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    fn verify_line(&mut self, line: &[u8], at: u64) -> Result<()> {
        let wrong = |expected: &str, got| Error::Audit { line: at, expected: expected.into(), got };
        let whole = line
            .strip_suffix(b"\n")
            .ok_or_else(|| wrong("a complete line of at most 2 KiB", excerpt(line)))?;
        let (fields, chain) =
            split(whole).ok_or_else(|| wrong("fields and a chain value", excerpt(whole)))?;
        let found = number(fields).ok_or_else(|| wrong("a number", excerpt(whole)))?;
        if at == 1 {
            let previous = previous(fields)
                .ok_or_else(|| wrong("the header line of a log", excerpt(whole)))?;
            if self.count == 0 {
                *self = Self { count: found.saturating_sub(1), head: previous };
            }
        }
        if found != self.count + 1 {
            return Err(wrong(&format!("number {}", self.count + 1), format!("number {found}")));
        }
        self.advance(fields);
        if self.head != chain {
            return Err(wrong(&format!("chain value {}", hex(&self.head)), hex(&chain)));
        }
        Ok(())
    }
}

/// Fields, without the closing brace, and chain value of a line without a line feed.
fn split(line: &[u8]) -> Option<(&[u8], [u8; 32])> {
    let (fields, suffix) = line.split_at_checked(line.len().checked_sub(SUFFIX_BYTES)?)?;
    let digits = suffix.strip_prefix(CHAIN_FIELD)?.strip_suffix(CHAIN_END)?;
    // A key's id is read the same way: 32 bytes in hexadecimal.
    Some((fields, KeyId::decode(std::str::from_utf8(digits).ok()?)?.0))
}

fn number(fields: &[u8]) -> Option<u64> {
    let digits = fields.strip_prefix(b"{\"n\":")?.split(|byte| *byte == b',').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn previous(fields: &[u8]) -> Option<[u8; 32]> {
    let text = std::str::from_utf8(fields).ok()?;
    let (_, digits) = text.split_once(r#","log":"enroute keyserver 1","previous":""#)?;
    Some(KeyId::decode(digits.strip_suffix('"')?)?.0)
}

fn hex(bytes: &[u8; 32]) -> String {
    KeyId(*bytes).to_string()
}

fn excerpt(line: &[u8]) -> String {
    String::from_utf8_lossy(line.get(..line.len().min(80)).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests;
