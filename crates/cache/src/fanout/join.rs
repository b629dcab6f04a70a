//! The reply that has its turn, joined from what its servers sent.

use wire::{
    Error as Fault,
    memcache::reply::{Shape, Value},
};

use super::{Fanout, JOINED_BYTES_MAX, Stage, line_end};
use crate::Error;

/// A request whose reply has not been joined yet.
#[derive(Debug)]
pub(super) enum Expected {
    /// It was answered here.
    Local(Vec<u8>),
    /// It failed here, and the client wants no reply.
    Silent(Vec<u8>),
    /// `mn`, by which a client learns that the requests before it are done.
    NoOperation,
    /// It was sent to one server.
    One(One),
    /// Keys of several servers were read.
    Values(Box<Values>),
    /// It was sent to all servers.
    All(All),
    /// The session has asked for the end.
    End,
}

/// A request that was sent to one server.
#[derive(Debug)]
pub(super) struct One {
    pub(super) server: u16,
    /// How its reply ends. After a fenced request, the server was sent a fence.
    pub(super) shape: Shape,
    /// It may write.
    pub(super) writes: bool,
    /// The client wants no reply; errors of the server are passed on nevertheless.
    pub(super) silent: bool,
}

/// A read of keys of several servers.
#[derive(Debug)]
pub(super) struct Values {
    /// The keys in the order of the request, each followed by a blank: there may be thousands.
    keys: Vec<u8>,
    /// The server of each key.
    owners: Vec<u16>,
    /// The servers that were asked, and whether their replies have ended.
    pub(super) servers: Vec<(u16, bool)>,
    /// Number of keys that have been answered, and of their bytes.
    answered: (usize, usize),
    /// Bytes of the present item that are still due.
    left: usize,
    writes: bool,
    error: Option<Vec<u8>>,
}

/// A request that was sent to all servers and is answered by one line.
#[derive(Debug)]
pub(super) struct All {
    /// The servers that were asked.
    pub(super) servers: Vec<u16>,
    /// Number of servers that have answered.
    at: usize,
    quiet: bool,
    error: Option<Vec<u8>>,
}

impl Values {
    pub(super) fn new(writes: bool) -> Self {
        let (keys, owners, servers) = (Vec::new(), Vec::new(), Vec::new());
        Self { keys, owners, servers, answered: (0, 0), left: 0, writes, error: None }
    }

    /// A further key is read from `server`.
    pub(super) fn push(&mut self, key: &[u8], server: u16) {
        self.keys.extend_from_slice(key);
        self.keys.push(b' ');
        self.owners.push(server);
    }

    /// Bytes that it keeps.
    pub(super) fn held_bytes(&self) -> usize {
        self.keys.capacity() + self.owners.capacity() * size_of::<u16>()
    }

    /// A server cannot be asked.
    pub(super) fn fail(&mut self, error: Vec<u8>) {
        self.error.get_or_insert(error);
    }

    /// The reply of `server` has ended with `line`.
    fn end(&mut self, server: u16, line: Vec<u8>) {
        if line != END {
            self.fail(line);
        }
        self.servers
            .iter_mut()
            .filter(|(of, _)| *of == server)
            .for_each(|(_, ended)| *ended = true);
    }

    /// The server whose bytes come next, and the key that they may be about: that of the next key,
    /// or one whose reply has not ended.
    fn next(&mut self) -> Option<(u16, Option<&[u8]>)> {
        while let Some(&server) = self.owners.get(self.answered.0) {
            if self.servers.contains(&(server, false)) {
                return Some((server, Some(self.key())));
            }
            self.pass();
        }
        self.servers.iter().find(|(_, ended)| !ended).map(|(server, _)| (*server, None))
    }

    /// The next key that has not been answered.
    fn key(&self) -> &[u8] {
        let rest = self.keys.get(self.answered.1..).unwrap_or_default();
        rest.split(|byte| *byte == b' ').next().unwrap_or_default()
    }

    /// That key has been answered, or is absent.
    fn pass(&mut self) {
        self.answered.1 += self.key().len() + 1;
        self.answered.0 += 1;
    }
}

impl All {
    pub(super) fn new(quiet: bool) -> Self {
        Self { servers: Vec::new(), at: 0, quiet, error: None }
    }

    /// A server cannot be asked.
    pub(super) fn fail(&mut self, error: Vec<u8>) {
        self.error.get_or_insert(error);
    }
}

const END: &[u8] = b"END\r\n";
const VERSION: &[u8] = b"VERSION ";

/// The reply to a request whose server cannot be used.
pub(super) fn unavailable(why: &str) -> Vec<u8> {
    format!("SERVER_ERROR enroute: {why}\r\n").into_bytes()
}

/// What is left of a reply that cannot be continued now.
enum Rest {
    /// It may still arrive.
    Due,
    /// It never arrives, and nothing was done: this error takes its place.
    Failed(Vec<u8>),
}

impl Fanout {
    /// Continues the reply that has its turn; `true` if the next one has it.
    pub(super) fn join(&mut self) -> Result<bool, Error> {
        let Some(mut expected) = self.expected.pop_front() else { return Ok(false) };
        let ended = match &mut expected {
            Expected::Local(reply) => {
                self.joined.buffer().append(reply);
                true
            }
            Expected::Silent(error) => {
                self.silenced.get_or_insert_with(|| std::mem::take(error));
                true
            }
            Expected::NoOperation => {
                let reply = self.silenced.take();
                self.joined.buffer().extend_from_slice(reply.as_deref().unwrap_or(b"MN\r\n"));
                true
            }
            Expected::One(one) => self.join_one(one)?,
            Expected::Values(values) => self.join_values(values)?,
            Expected::All(all) => self.join_all(all)?,
            Expected::End => {
                self.ended = true;
                false
            }
        };
        if !ended {
            self.expected.push_front(expected);
            return Ok(false);
        }
        self.partial = false;
        match expected {
            Expected::One(one) => self.settle(one.server)?,
            Expected::Values(values) => {
                self.reading_bytes -= values.held_bytes();
                values.servers.iter().try_for_each(|(server, _)| self.settle(*server))?;
            }
            Expected::All(all) => all.servers.iter().try_for_each(|server| self.settle(*server))?,
            Expected::Local(_) | Expected::Silent(_) | Expected::NoOperation | Expected::End => {}
        }
        Ok(true)
    }

    /// A request of which `server` had a part has been answered.
    fn settle(&mut self, server: u16) -> Result<(), Error> {
        let Some(server) = self.servers.get_mut(usize::from(server)) else { return Ok(()) };
        server.pending -= 1;
        server.settle();
        match server.pending == 0 && !server.received.is_empty() {
            true => Err(malformed("nothing after the last reply", server.received.bytes())),
            false => Ok(()),
        }
    }

    /// Bytes of `server` that wait for their turn.
    fn received(&self, server: u16) -> &[u8] {
        self.servers.get(usize::from(server)).map_or(&[], |server| server.received.bytes())
    }

    /// Moves bytes of `server` to the joined replies, or drops them.
    fn consume(&mut self, server: u16, bytes: usize, keep: bool) {
        let Some(server) = self.servers.get_mut(usize::from(server)) else { return };
        if keep {
            let part = server.received.bytes().get(..bytes).unwrap_or_default();
            self.joined.buffer().extend_from_slice(part);
        }
        server.received.advance(bytes);
    }

    /// The rest of the reply of `server` to a request that `writes` is not there.
    fn rest(&self, server: u16, writes: bool) -> Result<Rest, Error> {
        match self.servers.get(usize::from(server)).map(|server| &server.stage) {
            Some(Stage::Lost { why, sent }) if *sent && (writes || self.partial) => {
                Err(Error::LostServer(why.clone()))
            }
            Some(Stage::Lost { why, .. }) => Ok(Rest::Failed(unavailable(why))),
            _ => Ok(Rest::Due),
        }
    }

    fn join_one(&mut self, one: &One) -> Result<bool, Error> {
        let Fanout { scanner, limits, servers, .. } = self;
        let Some(server) = servers.get(usize::from(one.server)) else { return Ok(true) };
        let progress =
            scanner.advance(server.received.bytes(), one.shape, limits).map_err(Error::Server)?;
        self.partial |= progress.consumed > 0;
        self.consume(one.server, progress.consumed, true);
        let mut complete = progress.complete;
        if complete && one.shape == Shape::Fenced {
            match line_end(self.received(one.server)) {
                Some(end) => self.consume(one.server, end + 1, false),
                None => complete = false,
            }
        }
        if complete {
            return Ok(true);
        }
        match self.rest(one.server, one.writes)? {
            Rest::Due => Ok(false),
            Rest::Failed(error) => {
                match one.silent {
                    true => _ = self.silenced.get_or_insert(error),
                    false => self.joined.buffer().extend_from_slice(&error),
                }
                Ok(true)
            }
        }
    }

    fn join_values(&mut self, values: &mut Values) -> Result<bool, Error> {
        while self.joined.len() < JOINED_BYTES_MAX {
            let writes = values.writes;
            let left = values.left;
            let Some((server, key)) = values.next() else {
                let error = values.error.take();
                self.joined.buffer().extend_from_slice(error.as_deref().unwrap_or(END));
                return Ok(true);
            };
            if left > 0 {
                let part = left.min(self.received(server).len());
                self.consume(server, part, true);
                values.left -= part;
                self.partial = values.left > 0;
                if !self.partial {
                    values.pass();
                    continue;
                }
            } else if let Some(end) = line_end(self.received(server)) {
                let line = self.received(server).get(..=end).unwrap_or_default();
                if !line.starts_with(b"VALUE ") {
                    let line = line.to_vec();
                    self.consume(server, line.len(), false);
                    values.end(server, line);
                    continue;
                }
                let shown = line.strip_suffix(b"\r\n").unwrap_or(line);
                let Some((item, length)) = Value::parse(shown) else {
                    return Err(malformed("VALUE, a key, flags and a length", line));
                };
                match key {
                    None => return Err(malformed("END after the last item", line)),
                    Some(key) if key != item.key => values.pass(),
                    Some(_) if length > self.limits.value_bytes_max => {
                        return Err(malformed("a value within the limit", line));
                    }
                    Some(_) => values.left = line.len() + length + LINE_END_BYTES,
                }
                continue;
            } else if self.received(server).len() > self.limits.line_bytes_max {
                return Err(malformed("a line within the limit", self.received(server)));
            }
            match self.rest(server, writes)? {
                Rest::Due => return Ok(false),
                Rest::Failed(error) => values.end(server, error),
            }
        }
        Ok(false)
    }

    fn join_all(&mut self, all: &mut All) -> Result<bool, Error> {
        while let Some(&server) = all.servers.get(all.at) {
            let Some(end) = line_end(self.received(server)) else {
                match self.rest(server, true)? {
                    Rest::Due => return Ok(false),
                    Rest::Failed(error) => all.fail(error),
                }
                all.at += 1;
                continue;
            };
            let line = self.received(server).get(..=end).unwrap_or_default().to_vec();
            self.consume(server, line.len(), false);
            let is_fence = all.quiet && line.starts_with(VERSION);
            if !is_fence && line != b"OK\r\n" {
                all.fail(line);
            }
            all.at += usize::from(is_fence || !all.quiet);
        }
        match all.error.take() {
            Some(error) if all.quiet => _ = self.silenced.get_or_insert(error),
            Some(error) => self.joined.buffer().extend_from_slice(&error),
            None if all.quiet => {}
            None => self.joined.buffer().extend_from_slice(b"OK\r\n"),
        }
        Ok(true)
    }
}

/// Bytes of the line end after a value.
const LINE_END_BYTES: usize = 2;

#[cold]
fn malformed(expected: &'static str, found: &[u8]) -> Error {
    let got = found.get(..60).unwrap_or(found).escape_ascii().to_string();
    Error::Server(Fault::Malformed { protocol: "memcached", offset: 0, expected, got })
}
