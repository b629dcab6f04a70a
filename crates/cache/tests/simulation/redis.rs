//! A minimal Redis: two databases of three keys, and clients that use the commands that the cache
//! must understand.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use cache::filter::resp::{Resp, Settings};
use wire::resp::{Limits, frame, request};

use crate::{
    origin::{KEYS, KeyNumber, Origin, Value},
    protocol::{Ask, Asking, Protocol, rules},
    random::Random,
};

const DATABASES: usize = 2;
const KEYS_EACH: usize = KEYS / DATABASES;

pub(crate) struct Redis;

#[derive(Debug, Default)]
pub(crate) struct Client {
    database: usize,
    resp3: bool,
    greeted: bool,
    /// For each expected reply: whether its request changes the connection's state.
    changes: VecDeque<bool>,
    gave_up: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Server {
    database: usize,
    resp3: bool,
    queued: Option<Vec<Vec<Vec<u8>>>>,
    /// A command was refused instead of being queued.
    aborted: bool,
    /// The previous request was a script, and was refused for a missing right.
    refuses_code: bool,
}

/// The reply to `ACL GETUSER` for a user that has all rights.
const RIGHTS: &[u8] = b"*6\r\n$5\r\nflags\r\n*1\r\n$2\r\non\r\n$8\r\ncommands\r\n$5\r\n+@all\r\n\
    $4\r\nkeys\r\n$2\r\n~*\r\n";

// Forms of the reply to a read.
const GET: usize = 0;
const STRLEN: usize = 1;
const MGET: usize = 2;

impl Protocol for Redis {
    type Filter = Resp;
    type Client = Client;
    type Server = Server;

    fn filter(_: &mut Random) -> Resp {
        Resp::new(Arc::new(Settings { keys: rules(), ..Settings::default() }))
    }

    fn ask(client: &mut Client, asking: &mut Asking<'_>, out: &mut Vec<u8>) -> Vec<Ask> {
        if !client.greeted {
            client.greeted = true;
            client.resp3 = asking.random.one_in(3);
            if client.resp3 {
                client.say(out, "HELLO 3");
                return vec![Ask::Other];
            }
        }
        let choice = asking.choose(22, 13, 6);
        let value = asking.value();
        let random = &mut *asking.random;
        let (key, other) = (random.below(KEYS_EACH), random.below(KEYS_EACH));
        let number = client.database * KEYS_EACH + key;
        let command = match choice {
            0..14 => {
                client.say(out, &format!("GET k{key}"));
                return vec![Ask::Read { keys: vec![number], form: GET }];
            }
            14..17 => {
                client.say(out, &format!("strlen k{key}"));
                return vec![Ask::Read { keys: vec![number], form: STRLEN }];
            }
            17..22 => {
                let count = 1 + random.below(4);
                let keys: Vec<_> = (0..count).map(|_| random.below(KEYS_EACH)).collect();
                let names: Vec<_> = keys.iter().map(|key| format!("k{key}")).collect();
                client.say(out, &format!("MGET {}", names.join(" ")));
                let keys = keys.iter().map(|key| client.database * KEYS_EACH + key).collect();
                return vec![Ask::Read { keys, form: MGET }];
            }
            22..26 => format!("SET k{key} {value}"),
            26 | 27 => format!("SET k{key} {value} PX {}", 1 + random.below(3_000)),
            28 => format!("PEXPIRE k{key} {}", 1 + random.below(3_000)),
            29 => format!("SET k{key} {value} XX"),
            30 => format!("DEL k{key} k{other}"),
            31 => format!("RENAME k{key} k{other}"),
            32 => format!("MSET k{key} {value} k{other} {value}"),
            33 => {
                let ends = ["EXEC", "DISCARD"][usize::from(random.one_in(4))];
                let (get, del) = (format!("GET k{key}"), format!("DEL k{key}"));
                let set = format!("SET k{other} {value}");
                let requests = ["MULTI", &get, &set, &del, ends];
                requests.iter().for_each(|request| client.say(out, request));
                return vec![Ask::Other; requests.len()];
            }
            34 => "PING".to_owned(),
            35 => format!("EVAL script 0 k{key} {value}"),
            36 => format!("FROBNICATE k{key} {value}"),
            37 => "FLUSHDB".to_owned(),
            38 => "FLUSHALL".to_owned(),
            _ => {
                client.database = random.below(DATABASES);
                format!("SELECT {}", client.database)
            }
        };
        client.say(out, &command);
        vec![Ask::Other]
    }

    fn gives_up(client: &Client) -> bool {
        client.gave_up
    }

    fn reply(client: &mut Client, bytes: &mut Vec<u8>, reply: &mut Vec<u8>) -> bool {
        loop {
            let Ok(found) = frame::decode(bytes, &Limits::default()) else {
                panic!("no reply: {}", bytes.escape_ascii())
            };
            let Some((_, length)) = found else { return false };
            reply.clear();
            reply.extend(bytes.drain(..length));
            // A push may come between replies.
            if reply.first() != Some(&b'>') {
                let changed = client.changes.pop_front().expect("it was asked");
                client.gave_up |= changed && reply.first() == Some(&b'-');
                return true;
            }
            assert_eq!(*reply, push(), "a push comes as it was sent");
        }
    }

    fn is_answer(
        client: &Client,
        form: usize,
        keys: &[KeyNumber],
        values: &[Vec<Value>],
        reply: &[u8],
    ) -> Option<bool> {
        if reply.first() == Some(&b'-') {
            return None;
        }
        let reply = match form {
            MGET => {
                let header = format!("*{}\r\n", keys.len());
                match reply.strip_prefix(header.as_bytes()) {
                    Some(elements) => elements,
                    None => return Some(false),
                }
            }
            _ => reply,
        };
        // Each element must be a possible value of its key.
        let mut rest = reply;
        for (key, values) in keys.iter().zip(values) {
            let mut candidates =
                values.iter().map(|value| answer(form, *key, *value, client.resp3));
            let Some(found) = candidates.find(|candidate| rest.starts_with(candidate)) else {
                return Some(false);
            };
            rest = &rest[found.len()..];
        }
        Some(rest.is_empty())
    }

    fn serve(
        server: &mut Server,
        bytes: &mut Vec<u8>,
        origin: &mut Origin,
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> bool {
        let words: Vec<Vec<u8>>;
        match request::decode(bytes, &Limits::default()).expect("well-formed") {
            None => return false,
            Some((request, length)) => {
                words = request.arguments().map(<[u8]>::to_vec).collect();
                bytes.drain(..length);
            }
        }
        if server.resp3 && random.one_in(6) {
            out.extend(push());
        }
        let runs_code = words[0].eq_ignore_ascii_case(b"EVAL");
        if runs_code && words[1].is_empty() {
            // The cache queries whether the previous script was refused, never within a
            // transaction.
            assert!(server.queued.is_none(), "the query becomes part of a transaction");
            out.extend_from_slice(if server.refuses_code { NO_RIGHT } else { b"$-1\r\n" });
            return true;
        }
        server.refuses_code = false;
        let changes_state: [&[u8]; 3] = [b"HELLO", b"EXEC", b"DISCARD"];
        if random.one_in(12) && !changes_state.contains(&words[0].as_slice()) {
            server.aborted |= server.queued.is_some();
            server.refuses_code = runs_code && random.one_in(2);
            let lacks_right = server.refuses_code || random.one_in(2);
            out.extend_from_slice(if lacks_right {
                NO_RIGHT
            } else {
                b"-LOADING come back later\r\n"
            });
            return true;
        }
        // An error that does not tell whether the write was executed; it was.
        if random.one_in(12) && server.queued.is_none() && matches!(&*words[0], b"SET" | b"DEL") {
            run(server, &words, origin, &mut Vec::new());
            out.extend_from_slice(b"-ERR what it did is not said\r\n");
            return true;
        }
        carry_out(server, words, origin, random, out);
        true
    }
}

/// Executes a command, or queues it in its transaction.
fn carry_out(
    server: &mut Server,
    words: Vec<Vec<u8>>,
    origin: &mut Origin,
    random: &mut Random,
    out: &mut Vec<u8>,
) {
    let name = String::from_utf8_lossy(&words[0]).to_uppercase();
    match (&mut server.queued, name.as_str()) {
        (None, "MULTI") => {
            server.queued = Some(Vec::new());
            out.extend_from_slice(b"+OK\r\n");
        }
        (Some(_), "DISCARD") => {
            (server.queued, server.aborted) = (None, false);
            out.extend_from_slice(b"+OK\r\n");
        }
        (Some(_), "EXEC") if server.aborted => {
            (server.queued, server.aborted) = (None, false);
            out.extend_from_slice(b"-EXECABORT Transaction discarded\r\n");
        }
        (Some(_), "EXEC") if random.one_in(6) => {
            server.queued = None;
            out.extend_from_slice(b"*-1\r\n");
        }
        (Some(_), "EXEC") => {
            let queued = server.queued.take().unwrap_or_default();
            out.extend(format!("*{}\r\n", queued.len()).into_bytes());
            queued.iter().for_each(|words| run(server, words, origin, out));
        }
        (Some(queued), _) => {
            queued.push(words);
            out.extend_from_slice(b"+QUEUED\r\n");
        }
        // MULTI was refused, so EXEC is too.
        (None, "EXEC") if random.one_in(2) => {
            out.extend_from_slice(b"-EXECABORT Transaction discarded because of: NOPERM\r\n");
        }
        (None, "EXEC" | "DISCARD") => out.extend_from_slice(b"-ERR without MULTI\r\n"),
        _ => run(server, &words, origin, out),
    }
}

/// The error for a missing right; a script may return the same text.
const NO_RIGHT: &[u8] = b"-NOPERM this user has no permissions\r\n";
const OK: &[u8] = b"+OK\r\n";

/// The words of a command of one database.
struct Words<'w> {
    words: &'w [Vec<u8>],
    base: usize,
}

impl Words<'_> {
    fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| std::str::from_utf8(word).expect("text"))
    }

    fn number(&self, at: usize) -> u32 {
        self.word(at).parse().expect("a number")
    }

    fn key(&self, at: usize) -> KeyNumber {
        self.base + self.word(at)[1..].parse::<usize>().expect("a key")
    }
}

/// Executes one command.
fn run(server: &mut Server, words: &[Vec<u8>], origin: &mut Origin, out: &mut Vec<u8>) {
    let said = Words { words, base: server.database * KEYS_EACH };
    let key = |at: usize| said.key(at);
    let read = |form: usize, at: usize| answer(form, key(at), origin.value(key(at)), server.resp3);
    match said.word(0).to_uppercase().as_str() {
        "HELLO" => {
            // The cache sends HELLO to learn the protocol version if the user may not read its own
            // rights.
            server.resp3 = said.word(1) == "3";
            out.extend_from_slice(b"%1\r\n+proto\r\n:3\r\n");
        }
        "PING" => out.extend_from_slice(b"+PONG\r\n"),
        "ACL" => out.extend_from_slice(RIGHTS),
        "SELECT" => {
            server.database = said.number(1) as usize;
            out.extend_from_slice(OK);
        }
        "GET" => out.extend(read(GET, 1)),
        "STRLEN" => out.extend(read(STRLEN, 1)),
        "PTTL" => out.extend(format!(":{}\r\n", origin.left_ms(key(1))).into_bytes()),
        "MGET" => {
            out.extend(format!("*{}\r\n", words.len() - 1).into_bytes());
            (1..words.len()).for_each(|at| out.extend(read(MGET, at)));
        }
        name => out.extend(write(name, &said, server.resp3, origin)),
    }
}

/// Executes a write; returns the reply.
fn write(name: &str, said: &Words<'_>, resp3: bool, origin: &mut Origin) -> Vec<u8> {
    let (key, number) = (|at| said.key(at), |at| said.number(at));
    match name {
        "SET" => {
            let lives = (said.word(3) == "PX").then(|| Duration::from_millis(number(4).into()));
            if said.word(3) == "XX" && origin.value(key(1)).is_none() {
                return null(resp3);
            }
            origin.put(key(1), Some(number(2)), lives);
        }
        "PEXPIRE" => {
            let value = origin.value(key(1));
            if value.is_none() {
                return b":0\r\n".to_vec();
            }
            origin.put(key(1), value, Some(Duration::from_millis(number(2).into())));
            return b":1\r\n".to_vec();
        }
        "DEL" => {
            (1..said.words.len()).for_each(|at| origin.put(key(at), None, None));
            return b":1\r\n".to_vec();
        }
        "RENAME" => {
            let (from, to) = (key(1), key(2));
            let Some(value) = origin.value(from) else { return b"-ERR no such key\r\n".to_vec() };
            let lives = u64::try_from(origin.left_ms(from)).ok().map(Duration::from_millis);
            if from != to {
                origin.put(from, None, None);
            }
            origin.put(to, Some(value), lives);
        }
        // Neither of these names its key in a way the cache knows; a script's reply proves nothing.
        "EVAL" => {
            origin.put(key(3), Some(number(4)), None);
            let said: [&[u8]; 3] = [OK, NO_RIGHT, b"+QUEUED\r\n"];
            return said[number(4) as usize % 3].to_vec();
        }
        "FROBNICATE" => origin.put(key(1), Some(number(2)), None),
        "FLUSHDB" => {
            (said.base..said.base + KEYS_EACH).for_each(|key| origin.put(key, None, None));
        }
        "FLUSHALL" => (0..KEYS).for_each(|key| origin.put(key, None, None)),
        "MSET" => {
            origin.put(key(1), Some(number(2)), None);
            origin.put(key(3), Some(number(4)), None);
        }
        other => panic!("no such command: {other}"),
    }
    OK.to_vec()
}

impl Client {
    fn say(&mut self, out: &mut Vec<u8>, words: &str) {
        self.changes.push_back(words.starts_with("SELECT") || words.starts_with("HELLO"));
        request::write_command(out, &words.split(' ').collect::<Vec<_>>());
    }
}

/// The value identifies its write and thereby its key; the length varies with the number.
fn answer(form: usize, _: KeyNumber, value: Value, resp3: bool) -> Vec<u8> {
    let text = value.map(|value| value.to_string());
    match (form, text) {
        (STRLEN, text) => format!(":{}\r\n", text.map_or(0, |text| text.len())).into_bytes(),
        (_, Some(text)) => format!("${}\r\n{text}\r\n", text.len()).into_bytes(),
        (_, None) => null(resp3),
    }
}

fn null(resp3: bool) -> Vec<u8> {
    if resp3 { b"_\r\n".to_vec() } else { b"$-1\r\n".to_vec() }
}

fn push() -> Vec<u8> {
    b">2\r\n$10\r\ninvalidate\r\n*1\r\n$4\r\nsome\r\n".to_vec()
}
