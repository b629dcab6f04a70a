//! Code shared by the test `several_servers_answer_as_one` and the fuzz target `fanout`.
//!
//! The first byte of the input is the number of servers, and whether they are honest. Chunks
//! follow. A chunk begins with a byte whose three low bits select what happens (see [`Event`]) and
//! whose other bits are the number of bytes that follow, or the server.

use std::sync::{Arc, LazyLock};

use cache::fanout::Fanout;
use wire::memcache::{Limits, Request, Ring, Verb, base64, request, ring::Hash};

const SERVERS_MAX: usize = 4;
/// For each number of servers.
static RINGS: LazyLock<[Arc<Ring>; SERVERS_MAX]> = LazyLock::new(|| {
    let server = |number| (format!("s{number}"), 1);
    [1, 2, 3, SERVERS_MAX].map(|count| {
        let servers: Vec<_> = (0..count).map(server).collect();
        Arc::new(Ring::new(&servers, Hash::Md5))
    })
});
/// In the first byte: servers send what the input has, not what the requests ask for.
pub(crate) const HOSTILE: u8 = 0x80;

/// A chunk in which the first server accepts what there is for it.
pub(crate) const ACCEPT: u8 = 5;

const LIMITS: Limits =
    Limits { line_bytes_max: 300, keys_line_bytes_max: 500, value_bytes_max: 2_000 };
/// Bytes of memory that do not depend on what was sent.
const OWN_BYTES: usize = 4 << 10;

/// What a chunk is.
#[derive(Clone, Copy)]
enum Event {
    /// The session sends the bytes that follow; to honest servers, as soon as a request is whole.
    Request(usize),
    /// A server sends the bytes that follow, or, if it is honest, this many that it owes.
    Reply(usize, usize),
    /// A server accepts what there is for it, after a connection to it is made if there is none.
    Accept(usize),
    /// The connection to a server is lost.
    Lose(usize),
    /// The session takes this many bytes of replies.
    Take(usize),
}

impl Event {
    fn of(byte: u8) -> Self {
        let count = usize::from(byte >> 3);
        match byte & 7 {
            0 | 1 => Self::Request(count),
            server @ 2..=4 => Self::Reply(usize::from(server) - 2, count),
            ACCEPT => Self::Accept(count),
            6 => Self::Take(2 * count),
            _ => Self::Lose(count),
        }
    }
}

/// One connection to a server.
#[derive(Default)]
struct Server {
    connected: bool,
    /// The beginning of a request.
    begun: Vec<u8>,
    /// Replies that an honest server has not sent.
    owed: Vec<u8>,
}

struct Several {
    fanout: Fanout,
    ring: Arc<Ring>,
    servers: Vec<Server>,
    honest: bool,
    /// The beginning of a request, if servers are honest.
    begun: Vec<u8>,
    replies: Vec<u8>,
    /// What one honest server would have replied.
    expected: Vec<u8>,
}

/// Plays the input. Panics if an invariant is violated: servers get requests of their own keys
/// alone, `version` first; the replies of honest servers are those of one server; memory is bounded
/// by what was sent.
pub(crate) fn exercise(input: &[u8]) {
    let Some((&first, mut rest)) = input.split_first() else { return };
    let count = 1 + usize::from(first) % SERVERS_MAX;
    let ring = Arc::clone(&RINGS[count - 1]);
    let fanout = Fanout::new(Arc::clone(&ring), count, LIMITS);
    let servers = (0..count).map(|_| Server::default()).collect();
    let honest = first & HOSTILE == 0;
    let [begun, replies, expected] = [(); 3].map(|()| Vec::new());
    let mut several = Several { fanout, ring, servers, honest, begun, replies, expected };
    while let Some((&byte, more)) = rest.split_first() {
        let event = Event::of(byte);
        let length = match event {
            Event::Request(length) => length,
            Event::Reply(_, length) if !honest => length,
            _ => 0,
        };
        let (bytes, more) = more.split_at_checked(length).unwrap_or((more, &[]));
        rest = more;
        if several.play(event, bytes).is_err() {
            assert!(!honest, "the session was ended");
            return;
        }
        // A short request is answered by a long error, and capacities of vectors double.
        let held = several.fanout.held_bytes();
        assert!(held <= OWN_BYTES + 64 * input.len(), "{held} bytes are kept");
    }
    if honest {
        several.settle();
    }
}

impl Several {
    /// # Errors
    /// The session ended.
    fn play(&mut self, event: Event, bytes: &[u8]) -> Result<(), cache::Error> {
        let of = |server| server % self.servers.len();
        match event {
            Event::Request(_) if self.honest => self.request(bytes),
            Event::Request(_) => self.fanout.send(bytes)?,
            Event::Accept(server) => self.accept(of(server)),
            Event::Lose(server) if !self.honest => self.lose(of(server)),
            Event::Lose(_) => {}
            Event::Take(count) => self.take(count)?,
            Event::Reply(server, count) => {
                let server = of(server);
                if self.honest {
                    self.pay(server, count);
                } else if self.servers[server].connected
                    && self.fanout.wants(server)
                    && self.fanout.receive(server, bytes).is_err()
                {
                    self.lose(server);
                }
            }
        }
        self.take(0)
    }

    /// Sends those requests that servers answer, each in two parts.
    fn request(&mut self, bytes: &[u8]) {
        self.begun.extend_from_slice(bytes);
        let mut start = 0;
        while let Ok(Some((request, taken))) = request::decode(&self.begun[start..], &LIMITS) {
            if is_answered(&request) {
                let (part, more) = request.bytes().split_at(self.expected.len() % taken);
                self.fanout.send(part).expect("a part of a request");
                self.fanout.send(more).expect("its rest");
                self.expected.extend(answer(&request));
            }
            start += taken;
        }
        self.begun.drain(..start);
    }

    fn accept(&mut self, server: usize) {
        let state = &mut self.servers[server];
        if !state.connected && self.fanout.has_output(server) {
            state.connected = true;
            self.fanout.connected(server);
            assert_eq!(self.fanout.output(server).expect("it is up").bytes(), b"version\r\n");
        }
        let Some(output) = self.fanout.output(server) else { return };
        state.begun.extend_from_slice(output.bytes());
        output.advance(output.len());
        let mut start = 0;
        while let Some((request, taken)) =
            request::decode(&state.begun[start..], &LIMITS).expect("a request")
        {
            assert!(request.bytes() == b"version\r\n" || is_answered(&request), "{request:?}");
            for key in keys(&request) {
                assert_eq!(usize::from(self.ring.server(&key)), server, "{request:?}");
            }
            state.owed.extend(answer(&request));
            start += taken;
        }
        state.begun.drain(..start);
    }

    /// An honest server sends what it owes.
    fn pay(&mut self, server: usize, count: usize) {
        let owed = &mut self.servers[server].owed;
        let count = if self.fanout.wants(server) { count.min(owed.len()) } else { 0 };
        if count > 0 {
            self.fanout.receive(server, &owed[..count]).expect("it is honest");
            owed.drain(..count);
        }
    }

    fn lose(&mut self, server: usize) {
        self.servers[server] = Server::default();
        self.fanout.lost(server, "it is gone");
    }

    fn take(&mut self, count: usize) -> Result<(), cache::Error> {
        let replies = self.fanout.replies()?;
        let count = count.min(replies.len());
        self.replies.extend_from_slice(&replies.bytes()[..count]);
        replies.advance(count);
        Ok(())
    }

    /// Honest servers answer everything.
    fn settle(&mut self) {
        let mut before = usize::MAX;
        while before != self.replies.len() {
            before = self.replies.len();
            for _ in 0..2 {
                for server in 0..self.servers.len() {
                    self.accept(server);
                    self.pay(server, usize::MAX);
                }
                self.take(usize::MAX).expect("they are honest");
            }
        }
        assert_eq!(
            self.replies.escape_ascii().to_string(),
            self.expected.escape_ascii().to_string()
        );
    }
}

/// Whether a server answers it, and as [`answer`] says.
fn is_answered(request: &Request<'_>) -> bool {
    match request.verb() {
        Verb::Get | Verb::Gets | Verb::Gat | Verb::Gats => {
            let fits = |key: &[u8]| key.len() <= wire::memcache::KEY_BYTES_MAX;
            request.keys().next().is_some() && request.keys().all(fits)
        }
        Verb::FlushAll => true,
        Verb::Line | Verb::Manage | Verb::Crawler | Verb::Watch | Verb::Quit | Verb::Unknown => {
            false
        }
        _ => request.key().is_some() && !(is_coded(request) && keys(request).is_empty()),
    }
}

fn is_coded(request: &Request<'_>) -> bool {
    request.verb().is_meta() && request.flags().any(|(letter, _)| letter == b'b')
}

/// The keys whose server must get it.
fn keys(request: &Request<'_>) -> Vec<Vec<u8>> {
    match request.verb() {
        Verb::Get | Verb::Gets | Verb::Gat | Verb::Gats => {
            request.keys().map(<[u8]>::to_vec).collect()
        }
        Verb::FlushAll | Verb::Line => Vec::new(),
        _ if is_coded(request) => request.key().and_then(base64::decode).into_iter().collect(),
        _ => request.key().map(<[u8]>::to_vec).into_iter().collect(),
    }
}

/// The reply of an honest server, which depends on the request alone: of a key with an odd sum,
/// there is an item whose value is the key.
fn answer(request: &Request<'_>) -> Vec<u8> {
    let is_there =
        |key: &&[u8]| key.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte)) % 2 == 1;
    match request.verb() {
        Verb::Get | Verb::Gets | Verb::Gat | Verb::Gats => {
            let item = |key: &[u8]| {
                [b"VALUE ", key, format!(" 0 {}\r\n", key.len()).as_bytes(), key, b"\r\n"].concat()
            };
            let items: Vec<_> = request.keys().filter(is_there).map(item).collect();
            [items.concat(), b"END\r\n".to_vec()].concat()
        }
        Verb::Line => b"VERSION 1.6.18\r\n".to_vec(),
        Verb::FlushAll if !request.is_quiet() => b"OK\r\n".to_vec(),
        Verb::FlushAll => Vec::new(),
        // An error is sent also to a quiet request.
        _ if request.key().is_some_and(|key| key.ends_with(b"!")) => {
            b"SERVER_ERROR out of memory\r\n".to_vec()
        }
        _ if request.is_quiet() => Vec::new(),
        Verb::MetaGet => [b"VA 2 k", request.key().unwrap_or_default(), b"\r\nxy\r\n"].concat(),
        verb if verb.is_meta() => b"HD\r\n".to_vec(),
        _ => [b"DONE ", request.key().unwrap_or_default(), b"\r\n"].concat(),
    }
}
