//! Conversations with Redis; `notation.rs` of `wire` defines the notation.

use std::sync::Arc;

use cache::filter::resp::{Expiry, Resp, Scripts, Settings};
use wire::resp::{Limits, request::decode};

use self::notation::{replies, requests};
use crate::conversation::{Config, Speech};

#[path = "../../../wire/tests/resp/notation.rs"]
mod notation;

pub(crate) struct Redis;

impl Speech for Redis {
    type Filter = Resp;

    type Settings = Settings;

    fn settings(config: &Config) -> Settings {
        let mut settings = Settings { origin: "redis".to_owned(), ..Settings::default() };
        if config.word("scripts") == Some("declared-keys") {
            settings.scripts = Scripts::DeclaredKeys;
        }
        if config.word("unknown-expiry") == Some("ttl") {
            settings.unknown_expiry = Expiry::Ttl;
        }
        settings.on_write = config.word("population") == Some("on-write");
        settings.keys = config.rules();
        settings
    }

    fn open(settings: &Arc<Settings>) -> (Self, Resp) {
        (Self, Resp::new(Arc::clone(settings)))
    }

    fn opening(&mut self) -> (Vec<u8>, Vec<u8>) {
        (requests("PING"), replies("+PONG"))
    }

    /// The default user has all rights; every other user has its own rights.
    fn polite(&mut self, leaving: &[u8]) -> Option<(usize, Vec<u8>)> {
        let (request, length) = decode(leaving, &Limits::default()).expect("well-formed")?;
        let words: Vec<_> = request.arguments().map(String::from_utf8_lossy).collect();
        let user = match &words[..] {
            [acl, getuser, user] if acl == "ACL" && getuser == "GETUSER" => user,
            _ => return None,
        };
        let keys = if user == "default" { "~*".to_owned() } else { format!("~{user}:*") };
        let reply = format!("[\"flags\" [\"on\"] \"commands\" \"+@all\" \"keys\" \"{keys}\"]");
        Some((length, replies(&reply)))
    }

    fn client(&mut self, text: &str) -> Vec<u8> {
        requests(text)
    }

    fn origin(&mut self, text: &str) -> Vec<u8> {
        replies(text)
    }

    fn to_origin(&mut self, text: &str, _: &[u8]) -> Vec<u8> {
        requests(text)
    }

    fn to_client(&mut self, text: &str, _: &[u8]) -> Vec<u8> {
        replies(text)
    }
}
