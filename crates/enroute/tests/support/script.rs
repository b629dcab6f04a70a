//! The script of a scripted origin: the expected requests and the reactions to them.
//!
//! One step per line; a line that begins with a space continues the line before, and one that
//! begins with `#` is a comment. Here the right-hand column is an explanation, not part of the
//! script:
//!
//! ```text
//! always hello|isMaster             answered at any time, on any connection, any number of times
//! reply {"ok": 1, "maxWireVersion": 21}
//!
//! expect find {"find": "users",     the next request, on any connection, and fields it must have:
//!     "filter": {"_id": "42"}}      documents may have more, numbers are compared by value
//! hold reply-42                     waits until the test calls release("reply-42")
//! delay 20ms
//! reply {"ok": 1, "cursor": {"id": {"$numberLong": "0"}, "ns": "shop.users", "firstBatch": []}}
//!
//! expect insert via zlib            compressed: noop, snappy, zlib or zstd
//! reply via zlib more {"ok": 1}     `more`: moreToCome, a further reply follows
//! reply {"ok": 1}
//!
//! expect ping                       without a reply, as for an unacknowledged write
//! close                             closes the connection
//! ```
//!
//! JSON is MongoDB's extended JSON (`{"$numberLong": "1"}`, `{"$binary": …}`); `$address` in it is
//! replaced by the origin's `host:port`.

use std::time::Duration;

use bson::{Bson, Document};

use super::message::{Compressor, Message};

/// The script's reaction to one request.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub request: Pattern,
    pub actions: Vec<Action>,
}

/// The requests that match.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// Its line in the script.
    pub line: usize,
    command: String,
    compressor: Option<Compressor>,
    fields: Document,
}

#[derive(Clone, Debug)]
pub enum Action {
    Reply { body: Document, more_to_come: bool, compressor: Option<Compressor> },
    Delay(Duration),
    Hold(String),
    Close,
}

/// A parsed script.
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub always: Vec<Exchange>,
    pub expected: Vec<Exchange>,
}

impl Script {
    /// Panics with the line number if the text is not a valid script.
    pub fn parse(text: &str, address: &str) -> Self {
        let mut script = Self::default();
        let mut latest_is_always = false;
        for (line, step) in steps(&text.replace("$address", address)) {
            let (word, rest) = cut_word(&step);
            if matches!(word, "always" | "expect") {
                latest_is_always = word == "always";
                let request = Pattern::parse(line, rest);
                let exchange = Exchange { request, actions: Vec::new() };
                let list = if latest_is_always { &mut script.always } else { &mut script.expected };
                list.push(exchange);
                continue;
            }
            let list = if latest_is_always { &mut script.always } else { &mut script.expected };
            let latest = list.last_mut();
            latest
                .unwrap_or_else(|| panic!("line {line}: {word} before any expect or always"))
                .actions
                .push(Action::parse(line, word, rest));
        }
        script
    }
}

impl Pattern {
    fn parse(line: usize, text: &str) -> Self {
        let (command, rest) = cut_word(text);
        assert!(!command.is_empty(), "line {line}: expected a command's name");
        let (compressor, rest) = cut_compressor(line, rest);
        let fields = if rest.is_empty() { Document::new() } else { parse_json(line, rest) };
        Self { line, command: command.to_owned(), compressor, fields }
    }

    pub fn matches(&self, request: &Message) -> bool {
        self.command.split('|').any(|name| name == request.command())
            && (self.compressor.is_none() || self.compressor == request.compressor)
            && contains(&request.body, &self.fields)
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "line {}: {} {}", self.line, self.command, self.fields)?;
        self.compressor.map_or(Ok(()), |compressor| write!(formatter, " via {compressor:?}"))
    }
}

impl Action {
    fn parse(line: usize, word: &str, rest: &str) -> Self {
        match word {
            "reply" => {
                let (compressor, rest) = cut_compressor(line, rest);
                let (more_to_come, rest) = match cut_word(rest) {
                    ("more", rest) => (true, rest),
                    _ => (false, rest),
                };
                Self::Reply { body: parse_json(line, rest), more_to_come, compressor }
            }
            "delay" => {
                let milliseconds = rest.strip_suffix("ms").and_then(|number| number.parse().ok());
                Self::Delay(Duration::from_millis(milliseconds.unwrap_or_else(|| {
                    panic!("line {line}: expected a delay such as 20ms, got {rest:?}")
                })))
            }
            "hold" => Self::Hold(rest.to_owned()),
            "close" => Self::Close,
            _ => panic!(
                "line {line}: expected always, expect, reply, delay, hold or close, got {word:?}"
            ),
        }
    }
}

/// Logical lines, each with the number of its first line.
fn steps(text: &str) -> Vec<(usize, String)> {
    let mut steps: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        match steps.last_mut() {
            Some((_, step)) if line.starts_with([' ', '\t']) => {
                step.push(' ');
                step.push_str(line.trim());
            }
            _ => steps.push((index + 1, line.trim().to_owned())),
        }
    }
    steps
}

fn cut_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim_start())
}

fn cut_compressor(line: usize, text: &str) -> (Option<Compressor>, &str) {
    let ("via", rest) = cut_word(text) else { return (None, text) };
    let (name, rest) = cut_word(rest);
    let compressor = Compressor::named(name);
    assert!(compressor.is_some(), "line {line}: no compressor is called {name:?}");
    (compressor, rest)
}

fn parse_json(line: usize, text: &str) -> Document {
    let value: serde_json::Value =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("line {line}: {error} in {text}"));
    match Bson::try_from(value) {
        Ok(Bson::Document(document)) => document,
        other => panic!("line {line}: expected a document, got {other:?}"),
    }
}

fn contains(whole: &Document, part: &Document) -> bool {
    part.iter().all(|(name, value)| whole.get(name).is_some_and(|found| agrees(found, value)))
}

fn agrees(found: &Bson, expected: &Bson) -> bool {
    match (found, expected) {
        (Bson::Document(found), Bson::Document(expected)) => contains(found, expected),
        (Bson::Array(found), Bson::Array(expected)) => {
            found.len() == expected.len()
                && found.iter().zip(expected).all(|(found, expected)| agrees(found, expected))
        }
        _ => match (number(found), number(expected)) {
            (Some(found), Some(expected)) => found == expected,
            _ => found == expected,
        },
    }
}

fn number(value: &Bson) -> Option<f64> {
    match *value {
        Bson::Int32(number) => Some(f64::from(number)),
        Bson::Int64(number) => Some(number as f64),
        Bson::Double(number) => Some(number),
        _ => None,
    }
}
