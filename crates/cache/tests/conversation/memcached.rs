//! Notation of memcached conversations: ` ; ` separates messages, `|` is a line end, and `_` alone
//! is no message.

use std::{sync::Arc, time::Duration};

use cache::filter::memcache::{Memcache, Settings};

use crate::conversation::{Config, Speech};

pub(crate) struct Memcached;

/// The query by which the cache checks whether a connection is authenticated.
const CHECK: &[u8] = b"version\r\n";

impl Speech for Memcached {
    type Filter = Memcache;

    type Settings = Settings;

    fn settings(config: &Config) -> Settings {
        let mut settings = Settings { origin: "memcached".to_owned(), ..Settings::default() };
        settings.on_write = config.word("population") == Some("on-write");
        settings.keys = config.rules();
        settings.clock = Duration::from_secs(2_000_000_000);
        settings
    }

    fn open(settings: &Arc<Settings>) -> (Self, Memcache) {
        (Self, Memcache::new(Arc::clone(settings)))
    }

    fn opening(&mut self) -> (Vec<u8>, Vec<u8>) {
        (b"mn\r\n".to_vec(), b"MN\r\n".to_vec())
    }

    /// Every connection has all rights. The query precedes the client's first request, `mn`.
    fn polite(&mut self, leaving: &[u8]) -> Option<(usize, Vec<u8>)> {
        let first = leaving.strip_prefix(CHECK)?;
        (first == b"mn\r\n").then(|| (CHECK.len(), b"VERSION 1.6.18\r\n".to_vec()))
    }

    fn client(&mut self, text: &str) -> Vec<u8> {
        messages(text)
    }

    fn origin(&mut self, text: &str) -> Vec<u8> {
        messages(text)
    }

    fn to_origin(&mut self, text: &str, _: &[u8]) -> Vec<u8> {
        messages(text)
    }

    fn to_client(&mut self, text: &str, _: &[u8]) -> Vec<u8> {
        messages(text)
    }
}

/// `set a 0 0 1|x ; get a`; `\x80` is an escaped byte, and `raw ` omits the line ends.
fn messages(text: &str) -> Vec<u8> {
    if text == "_" {
        return Vec::new();
    }
    if let Some(raw) = text.strip_prefix("raw ") {
        return unescape(raw);
    }
    let lines = text.split(" ; ").flat_map(|message| message.split('|'));
    lines.flat_map(|line| [unescape(line).as_slice(), b"\r\n"].concat()).collect()
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, code)) = rest.split_once("\\x") {
        bytes.extend_from_slice(before.as_bytes());
        let (digits, behind) = code.split_at(2);
        bytes.push(u8::from_str_radix(digits, 16).expect("two hexadecimal digits"));
        rest = behind;
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}
