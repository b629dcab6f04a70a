//! A minimal memcached: six items, and clients that use the commands that the cache must
//! understand.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use cache::filter::memcache::{Memcache, Settings};
use wire::memcache::{
    Limits, Request, Verb,
    reply::{Scanner, Shape},
    request,
};

use crate::{
    origin::{KEYS, KeyNumber, Origin, Value},
    protocol::{Ask, Asking, Protocol, rules},
    random::Random,
};

pub(crate) struct Memcached;

/// How the reply to a client's request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Shaped(Shape),
    /// A quiet `mg` followed by `mn`.
    Quiet,
    /// Two lines, or an error.
    Unknown,
}

#[derive(Debug, Default)]
pub(crate) struct Client {
    due: VecDeque<Due>,
    gave_up: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Server;

// Forms of the reply to a read.
const GET: usize = 0;
const META: usize = 1;
const QUIET: usize = 2;

impl Protocol for Memcached {
    type Filter = Memcache;
    type Client = Client;
    type Server = Server;

    fn filter(_: &mut Random) -> Memcache {
        Memcache::new(Arc::new(Settings { on_write: true, keys: rules(), ..Settings::default() }))
    }

    fn ask(client: &mut Client, asking: &mut Asking<'_>, out: &mut Vec<u8>) -> Vec<Ask> {
        let choice = asking.choose(22, 13, 3);
        let value = asking.value();
        let random = &mut *asking.random;
        let key = random.below(KEYS);
        let data = format!("{}\r\n{value}\r\n", value.to_string().len());
        let seconds = 1 + random.below(5);
        let read = |form| vec![Ask::Read { keys: vec![key], form }];
        let (request, due) = match choice {
            0..10 => {
                client.say(out, &format!("get k{key}\r\n"), Due::Shaped(Shape::Values));
                return read(GET);
            }
            10..15 => {
                let keys: Vec<_> = (0..=random.below(4)).map(|_| random.below(KEYS)).collect();
                let names: String = keys.iter().map(|key| format!(" k{key}")).collect();
                client.say(out, &format!("get{names}\r\n"), Due::Shaped(Shape::Values));
                return vec![Ask::Read { keys, form: GET }];
            }
            15..19 => {
                client.say(out, &format!("mg k{key} v\r\n"), Due::Shaped(Shape::Meta));
                return read(META);
            }
            19..22 => {
                client.say(out, &format!("mg k{key} v q\r\nmn\r\n"), Due::Quiet);
                return read(QUIET);
            }
            22..25 => (format!("set k{key} 0 0 {data}"), Shape::Line),
            25 => (format!("set k{key} 0 {seconds} {data}"), Shape::Line),
            26 => {
                let length = value.to_string().len();
                out.extend(format!("set k{key} 0 0 {length} noreply\r\n{value}\r\n").bytes());
                return Vec::new();
            }
            27 => {
                let length = value.to_string().len();
                out.extend(format!("ms k{key} {length} q\r\n{value}\r\n").bytes());
                client.due.push_back(Due::Shaped(Shape::Line));
                out.extend(b"mn\r\n");
                return vec![Ask::Other];
            }
            28 => (format!("delete k{key}\r\n"), Shape::Line),
            29 => (format!("incr k{key} {value}\r\n"), Shape::Line),
            30 => (format!("touch k{key} {seconds}\r\n"), Shape::Line),
            31 => (format!("gat {seconds} k{key}\r\n"), Shape::Values),
            32 => (format!("add k{key} 0 0 {data}"), Shape::Line),
            33 => (format!("mg k{key} v T{seconds}\r\n"), Shape::Meta),
            34 => ("version\r\n".to_owned(), Shape::Line),
            35 => ("flush_all\r\n".to_owned(), Shape::Line),
            _ => {
                client.say(out, &format!("frobnicate k{key} {value}\r\n"), Due::Unknown);
                return vec![Ask::Other];
            }
        };
        client.say(out, &request, Due::Shaped(due));
        vec![Ask::Other]
    }

    fn gives_up(client: &Client) -> bool {
        client.gave_up
    }

    fn reply(client: &mut Client, bytes: &mut Vec<u8>, reply: &mut Vec<u8>) -> bool {
        let Some(&due) = client.due.front() else {
            assert!(bytes.is_empty(), "unrequested: {}", bytes.escape_ascii());
            return false;
        };
        let shaped = |bytes: &[u8], shape| {
            let progress = Scanner::default().advance(bytes, shape, &Limits::default());
            let progress = progress.expect("well-formed");
            progress.complete.then_some(progress.consumed)
        };
        let length = match due {
            Due::Shaped(shape) => shaped(bytes, shape),
            Due::Quiet if bytes.starts_with(b"VA") => shaped(bytes, Shape::Meta)
                .and_then(|item| Some(item + shaped(&bytes[item..], Shape::Line)?)),
            Due::Quiet => shaped(bytes, Shape::Line),
            Due::Unknown if bytes.starts_with(b"DONE") => shaped(bytes, Shape::Line)
                .and_then(|line| Some(line + shaped(&bytes[line..], Shape::Line)?)),
            Due::Unknown => shaped(bytes, Shape::Line),
        };
        let Some(length) = length else { return false };
        reply.clear();
        reply.extend(bytes.drain(..length));
        client.due.pop_front();
        // After an error to a quiet request the number of further replies is unknown.
        client.gave_up |= is_error(reply);
        true
    }

    fn is_answer(
        _: &Client,
        form: usize,
        keys: &[KeyNumber],
        values: &[Vec<Value>],
        reply: &[u8],
    ) -> Option<bool> {
        if is_error(reply) {
            return None;
        }
        let end: &[u8] = match form {
            GET => b"END\r\n",
            QUIET => b"MN\r\n",
            _ => b"",
        };
        let Some(mut rest) = reply.strip_suffix(end) else { return Some(false) };
        for (key, values) in keys.iter().zip(values) {
            let candidates = values.iter().map(|value| answer(form, *key, *value));
            let longest = candidates.filter(|text| rest.starts_with(text)).max_by_key(Vec::len);
            let Some(found) = longest else { return Some(false) };
            rest = &rest[found.len()..];
        }
        Some(rest.is_empty())
    }

    fn serve(
        _: &mut Server,
        bytes: &mut Vec<u8>,
        origin: &mut Origin,
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> bool {
        let all = std::mem::take(bytes);
        let Some((request, length)) =
            request::decode(&all, &Limits::default()).expect("well-formed")
        else {
            *bytes = all;
            return false;
        };
        let mut reply = Vec::new();
        if request.verb().has_value() && random.one_in(12) {
            // An error that does not tell whether the write was executed.
            if random.one_in(2) {
                run(&request, origin, random, &mut Vec::new());
            }
            reply.extend_from_slice(b"SERVER_ERROR out of memory storing object\r\n");
        } else {
            run(&request, origin, random, &mut reply);
        }
        let usual = request.verb().is_meta() && reply.starts_with(b"HD");
        if request.is_quiet() && (usual || !request.verb().is_meta()) {
            reply.clear();
        }
        out.extend(reply);
        bytes.extend_from_slice(&all[length..]);
        true
    }
}

/// Executes one request.
fn run(request: &Request<'_>, origin: &mut Origin, random: &mut Random, out: &mut Vec<u8>) {
    let word = |at: usize| {
        let word = request.words().nth(at).unwrap_or_default();
        std::str::from_utf8(word).expect("text")
    };
    let seconds = |text: &str| match text.parse().expect("a number") {
        0 => None,
        count => Some(Duration::from_secs(count)),
    };
    let key = || number_of(word(1));
    let stated = || {
        let text = std::str::from_utf8(request.value()).expect("text");
        Some(text.parse::<u32>().expect("a number"))
    };
    let reply: &[u8] = match (request.verb(), request.name()) {
        (Verb::Get, _) => {
            request.keys().for_each(|key| {
                let key = number_of(std::str::from_utf8(key).expect("text"));
                out.extend(answer(GET, key, origin.value(key)));
            });
            b"END\r\n"
        }
        (Verb::Gat, _) => {
            let key = number_of(word(2));
            let value = origin.value(key);
            if value.is_some() {
                origin.put(key, value, seconds(word(1)));
            }
            out.extend(answer(GET, key, value));
            b"END\r\n"
        }
        (Verb::MetaGet, _) => return meta_get(request, key(), origin, random, out),
        (Verb::Store, _) if origin.value(key()).is_some() => b"NOT_STORED\r\n",
        (Verb::Set | Verb::Store, _) => {
            origin.put(key(), stated(), seconds(word(3)));
            b"STORED\r\n"
        }
        (Verb::MetaSet, _) => {
            origin.put(key(), stated(), None);
            b"HD\r\n"
        }
        (_, "delete") => {
            origin.put(key(), None, None);
            b"DELETED\r\n"
        }
        (_, "incr") => {
            let Some(value) = origin.value(key()) else {
                return out.extend_from_slice(b"NOT_FOUND\r\n");
            };
            let sum = value.wrapping_add(word(2).parse().expect("a number"));
            let lives = u64::try_from(origin.left_ms(key())).ok().map(Duration::from_millis);
            origin.put(key(), Some(sum), lives);
            out.extend(format!("{sum}\r\n").bytes());
            b""
        }
        (_, "touch") => {
            let value = origin.value(key());
            if value.is_some() {
                origin.put(key(), value, seconds(word(2)));
            }
            if value.is_some() { b"TOUCHED\r\n" } else { b"NOT_FOUND\r\n" }
        }
        (Verb::FlushAll, _) => {
            (0..KEYS).for_each(|key| origin.put(key, None, None));
            b"OK\r\n"
        }
        (Verb::Line, "mn") => b"MN\r\n",
        (Verb::Line, _) => b"VERSION 1.6.18\r\n",
        _ if random.one_in(2) => b"ERROR\r\n",
        _ => {
            origin.put(key(), Some(word(2).parse().expect("a number")), None);
            b"DONE\r\nWITH IT\r\n"
        }
    };
    out.extend_from_slice(reply);
}

/// `mg` of a client, or of the cache, which asks for the remaining TTL.
fn meta_get(
    request: &Request<'_>,
    key: KeyNumber,
    origin: &mut Origin,
    random: &mut Random,
    out: &mut Vec<u8>,
) {
    let Some(value) = origin.value(key) else {
        if !request.is_quiet() {
            out.extend_from_slice(b"EN\r\n");
        }
        return;
    };
    let has_value = request.flags().any(|(letter, _)| letter == b'v');
    let text = value.to_string();
    out.extend(if has_value { format!("VA {}", text.len()) } else { "HD".to_owned() }.bytes());
    for (letter, token) in request.flags() {
        match letter {
            b'k' => out.extend(format!(" kk{key}").bytes()),
            b't' => {
                // Whole seconds, from a clock that may lag.
                let left_ms = origin.left_ms(key);
                let left = (left_ms + 999) / 1_000 + random.below(2) as i64;
                out.extend(format!(" t{}", if left_ms < 0 { -1 } else { left }).bytes());
            }
            b'T' => {
                let seconds = std::str::from_utf8(token).expect("text").parse().expect("a number");
                origin.put(key, Some(value), Some(Duration::from_secs(seconds)));
            }
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
    if has_value {
        out.extend(format!("{text}\r\n").bytes());
    }
}

fn number_of(name: &str) -> KeyNumber {
    name[1..].parse().expect("a key")
}

impl Client {
    fn say(&mut self, out: &mut Vec<u8>, request: &str, due: Due) {
        self.due.push_back(due);
        out.extend_from_slice(request.as_bytes());
    }
}

/// The answer to a read of one key, without the reply's terminator.
fn answer(form: usize, key: KeyNumber, value: Value) -> Vec<u8> {
    let text = value.map(|value| value.to_string());
    match (form, text) {
        (GET, Some(text)) => format!("VALUE k{key} 0 {}\r\n{text}\r\n", text.len()),
        (_, Some(text)) => format!("VA {}\r\n{text}\r\n", text.len()),
        (META, None) => "EN\r\n".to_owned(),
        (_, None) => String::new(),
    }
    .into_bytes()
}

/// Whether the reply, or that to the `mn` after a quiet read from storage, is an error.
fn is_error(reply: &[u8]) -> bool {
    reply.split(|&byte| byte == b'\n').any(|line| line.starts_with(b"SERVER_ERROR "))
}
