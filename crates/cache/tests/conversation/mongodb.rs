//! Notation of MongoDB conversations.
//!
//! A message is a document in the shell's notation, followed by any number of kind-1 sections:
//! `client> {insert: "users", $db: "shop"} documents: {_id: 1} {_id: 2}`. Words before it set how
//! it is sent: `w0` (moreToCome: no reply will come), `exhaust` (replies may stream), `more`
//! (another reply follows), `checksum`, `zlib`/`snappy`/`zstd`, `query` (the legacy OP_QUERY),
//! `opcode=2002` (any other opcode, with the document as the body).
//!
//! The harness numbers the requests. `to-origin> same` expects the client's next message byte for
//! byte; a document there expects a request that the cache itself makes. The origin replies to its
//! oldest unanswered request. `to-client> same` expects the origin's next message byte for byte; a
//! document there is compared with the reply's body, and the reply must be to the client's oldest
//! unanswered request. `unasked` before a message of the origin: it is no reply to any request.

use std::{collections::VecDeque, sync::Arc};

use cache::filter::mongo::{Advertised, Mongo, Settings, UniqueField};
use wire::mongo::{
    compressed::{Compressor, compress},
    frame::{self, Limits},
    request::Request,
};

use crate::bson;
use crate::conversation::{Config, Speech};

const MSG: i32 = 2013;
const QUERY: i32 = 2004;
const REPLY: i32 = 1;
const MORE_TO_COME: u32 = 1 << 1;
const EXHAUST_ALLOWED: u32 = 1 << 16;

#[derive(Default)]
pub(crate) struct MongoDb {
    requests: i32,
    replies: i32,
    /// Requests of the client that have not been sent to the origin; hits are never sent.
    from_client: VecDeque<Vec<u8>>,
    /// Requests that were sent to the origin: request ID, legacy.
    at_origin: VecDeque<(i32, bool)>,
    from_origin: VecDeque<Vec<u8>>,
    /// Unanswered requests of the client.
    awaited: VecDeque<(i32, bool)>,
}

impl Speech for MongoDb {
    type Filter = Mongo;

    type Settings = Settings;

    fn settings(config: &Config) -> Settings {
        let mut settings = Settings { origin: "mongodb".to_owned(), ..Settings::default() };
        settings.namespaces = config.rules();
        settings.on_write = config.word("population") == Some("on-write");
        settings.advertise =
            config.word("advertise").map(|address| Advertised::only(address.to_owned()));
        if let Some((namespace, field)) =
            config.word("unique").and_then(|word| word.split_once('/'))
        {
            let unique = UniqueField { namespace: namespace.to_owned(), field: field.to_owned() };
            settings.unique_fields.push(unique);
        }
        settings
    }

    fn open(settings: &Arc<Settings>) -> (Self, Mongo) {
        (Self::default(), Mongo::new(Arc::clone(settings)))
    }

    fn opening(&mut self) -> (Vec<u8>, Vec<u8>) {
        let frame = |text: &str, id, to| Spoken::parse(text).frame(id, to);
        (frame("{count: \"users\", $db: \"shop\"}", 998, 0), frame("{ok: 1.0}", 999, 998))
    }

    /// No login is required; each user has its own rights.
    fn polite(&mut self, leaving: &[u8]) -> Option<(usize, Vec<u8>)> {
        let (frame, length) = frame::decode(leaving, &Limits::default()).expect("well-formed")?;
        let request = Request::parse(&frame).ok()??;
        let reply = match (request.name, request.namespace.database) {
            ("find", "enroute") => "{ok: 1.0}",
            ("connectionStatus", _) => "{ok: 1.0}",
            _ => return None,
        };
        Some((length, Spoken::parse(reply).frame(997, request.header.request_id)))
    }

    fn client(&mut self, text: &str) -> Vec<u8> {
        let mut all = Vec::new();
        for message in text.split(" ; ") {
            self.requests += 1;
            let spoken = Spoken::parse(message);
            let id = 1_000 + self.requests;
            let bytes = spoken.frame(id, 0);
            if spoken.flags & MORE_TO_COME == 0 && spoken.answered() {
                self.awaited.push_back((id, spoken.opcode == QUERY));
            }
            self.from_client.push_back(bytes.clone());
            all.extend(bytes);
        }
        all
    }

    fn origin(&mut self, text: &str) -> Vec<u8> {
        let mut all = Vec::new();
        for message in text.split(" ; ") {
            let mut spoken = Spoken::parse(message);
            self.replies += 1;
            let id = 500_000 + self.replies;
            let to = if spoken.unasked {
                77
            } else {
                let (to, legacy) = self.at_origin.pop_front().expect("the origin was asked");
                if legacy {
                    spoken.opcode = REPLY;
                }
                to
            };
            if spoken.flags & MORE_TO_COME != 0 {
                self.at_origin.push_front((id, false));
            }
            let bytes = spoken.frame(id, to);
            self.from_origin.push_back(bytes.clone());
            all.extend(bytes);
        }
        all
    }

    fn to_origin(&mut self, text: &str, leaving: &[u8]) -> Vec<u8> {
        let head = |at: usize| field(leaving, at);
        let unanswered = head(12) == MSG && head(16) as u32 & MORE_TO_COME != 0;
        if !unanswered && ![2001, 2002, 2006, 2007, 4242].contains(&head(12)) {
            self.at_origin.push_back((head(4), head(12) == QUERY));
        }
        if text == "same" {
            // Requests answered from storage are never sent.
            while let Some(sent) = self.from_client.pop_front() {
                if field(&sent, 4) == head(4) {
                    return sent;
                }
            }
            return b"a message of the client".to_vec();
        }
        let spoken = Spoken::parse(text);
        spoken.frame(head(4), 0)
    }

    fn to_client(&mut self, text: &str, leaving: &[u8]) -> Vec<u8> {
        let head = |at: usize| field(leaving, at);
        if text == "same" {
            // Replies to the cache's own queries are not forwarded.
            while self.from_origin.front().is_some_and(|sent| field(sent, 4) != head(4)) {
                self.from_origin.pop_front();
            }
            let sent = self.from_origin.pop_front().unwrap_or_default();
            let more = field(&sent, 12) == MSG && field(&sent, 16) as u32 & MORE_TO_COME != 0;
            let awaited = self.awaited.front().is_some_and(|(id, _)| *id == field(&sent, 8));
            if awaited && !more {
                self.awaited.pop_front();
            }
            return sent;
        }
        let (to, legacy) = self.awaited.pop_front().expect("the client asked");
        let mut spoken = Spoken::parse(text);
        if spoken.flags & MORE_TO_COME != 0 {
            self.awaited.push_front((head(4), false));
        }
        if legacy {
            spoken.opcode = REPLY;
        }
        spoken.frame(head(4), to)
    }

    fn origin_gone(&mut self) {
        self.at_origin.clear();
    }

    fn show(bytes: &[u8]) -> String {
        format!("{} bytes: {}", bytes.len(), bytes.escape_ascii())
    }
}

fn field(bytes: &[u8], at: usize) -> i32 {
    bytes.get(at..at + 4).map_or(0, |field| i32::from_le_bytes(field.try_into().expect("four")))
}

/// A message of a script.
struct Spoken {
    opcode: i32,
    flags: u32,
    checksum: bool,
    unasked: bool,
    compressor: Option<Compressor>,
    database: String,
    document: Vec<u8>,
    sections: Vec<u8>,
}

impl Spoken {
    fn parse(text: &str) -> Self {
        let mut spoken = Self {
            opcode: MSG,
            flags: 0,
            checksum: false,
            unasked: false,
            compressor: None,
            database: "admin".to_owned(),
            document: Vec::new(),
            sections: Vec::new(),
        };
        let mut text = text.trim();
        while !text.starts_with('{') {
            let (word, rest) = text.split_once(' ').expect("a document");
            match word.split_once('=').unwrap_or((word, "")) {
                ("w0", _) | ("more", _) => spoken.flags |= MORE_TO_COME,
                ("exhaust", _) => spoken.flags |= EXHAUST_ALLOWED,
                ("checksum", _) => (spoken.checksum, spoken.flags) = (true, spoken.flags | 1),
                ("unasked", _) => spoken.unasked = true,
                ("zlib", _) => spoken.compressor = Some(Compressor::Zlib),
                ("snappy", _) => spoken.compressor = Some(Compressor::Snappy),
                ("zstd", _) => spoken.compressor = Some(Compressor::Zstd),
                ("query", _) => spoken.opcode = QUERY,
                ("opcode", number) => spoken.opcode = number.parse().expect("a number"),
                _ => panic!("no such word: {word}"),
            }
            text = rest.trim_start();
        }
        let rest;
        (spoken.document, rest) = bson::document(text);
        spoken.sections(rest);
        spoken
    }

    /// `identifier: {…} {…}`, any number of them.
    fn sections(&mut self, mut text: &str) {
        while let Some((identifier, mut rest)) = text.split_once(": ") {
            let mut section = [identifier.as_bytes(), &[0]].concat();
            while rest.starts_with('{') {
                let (document, behind) = bson::document(rest);
                section.extend(document);
                rest = behind;
            }
            self.sections.push(1);
            self.sections.extend((section.len() as i32 + 4).to_le_bytes());
            self.sections.extend(section);
            text = rest;
        }
    }

    fn answered(&self) -> bool {
        matches!(self.opcode, MSG | QUERY | 2005)
    }

    fn frame(&self, id: i32, to: i32) -> Vec<u8> {
        let mut body = Vec::new();
        match self.opcode {
            MSG => {
                body.extend(self.flags.to_le_bytes());
                // Sections may come in any order; kind 1 before the body is the harder case.
                body.extend_from_slice(&self.sections);
                body.push(0);
                body.extend_from_slice(&self.document);
            }
            QUERY => {
                body.extend([0; 4]);
                body.extend(self.database.as_bytes());
                body.extend(b".$cmd\0");
                body.extend([0; 4]);
                body.extend((-1_i32).to_le_bytes());
                body.extend_from_slice(&self.document);
            }
            REPLY => {
                body.extend(8_i32.to_le_bytes());
                body.extend([0; 12]);
                body.extend(1_i32.to_le_bytes());
                body.extend_from_slice(&self.document);
            }
            _ => body.extend_from_slice(&self.document),
        }
        let length = 16 + body.len() as i32 + if self.checksum { 4 } else { 0 };
        let mut frame = Vec::new();
        for field in [length, id, to, self.opcode] {
            frame.extend(field.to_le_bytes());
        }
        frame.extend(body);
        if self.checksum {
            frame.extend(crc32c(&frame).to_le_bytes());
        }
        match self.compressor {
            None => frame,
            Some(compressor) => {
                let mut compressed = Vec::new();
                compress(&frame, compressor, &mut compressed).expect("a frame");
                compressed
            }
        }
    }
}

/// CRC-32C, computed bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    })
}
