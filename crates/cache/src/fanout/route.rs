//! Where each request goes.

use smallvec::SmallVec;
use wire::memcache::{KEY_BYTES_MAX, Request, Verb, base64, reply::Shape, request::Passing};

use super::{
    Fanout, Passed, Stage,
    join::{All, Expected, One, Values, unavailable},
};

const ERROR: &[u8] = b"ERROR\r\n";
const BAD_LINE: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
const BAD_KEY: &[u8] = b"CLIENT_ERROR error decoding key\r\n";
/// Reply to `version`: that of a proxy, because the servers may differ.
const VERSION: &[u8] = concat!("VERSION ", env!("CARGO_PKG_VERSION"), " enroute\r\n").as_bytes();

impl Fanout {
    /// Sends a request, of which `bytes` are there, to the servers of its keys. Returns the state
    /// of a request whose value follows.
    pub(super) fn route(
        &mut self,
        request: &Request<'_>,
        bytes: &[u8],
        passing: Option<Passing>,
    ) -> Option<Passed> {
        let quiet = request.is_quiet();
        let mut server = None;
        match request.verb() {
            Verb::Get | Verb::Gets | Verb::Gat | Verb::Gats => self.read(request),
            Verb::Set
            | Verb::Store
            | Verb::Cas
            | Verb::Change
            | Verb::MetaGet
            | Verb::MetaSet
            | Verb::MetaChange
            | Verb::MetaDebug => match self.owner(request) {
                Ok(owner) => {
                    let (shape, silent) = match (quiet, request.verb().is_meta()) {
                        (true, meta) => (Shape::Fenced, !meta),
                        (false, true) => (Shape::Meta, false),
                        (false, false) => (Shape::Line, false),
                    };
                    let one = One { server: owner, shape, writes: writes(request), silent };
                    server = self.send_to(one, bytes, quiet && passing.is_none());
                }
                Err(error) => self.answer(error),
            },
            Verb::FlushAll => self.flush(bytes, quiet),
            Verb::Line => match request.name() {
                "version" => self.answer(VERSION),
                "mn" => self.expected.push_back(Expected::NoOperation),
                _ => self.answer(ERROR),
            },
            Verb::Unknown => self.answer(ERROR),
            Verb::Quit => self.expected.push_back(Expected::End),
            Verb::Manage if quiet => {}
            Verb::Manage | Verb::Crawler | Verb::Watch => {
                let name = request.name();
                self.answer(format!(
                    "CLIENT_ERROR enroute: expected a command with a key, got `{name}`, which \
                     concerns one server; send it to that server\r\n"
                ));
            }
        }
        passing.map(|passing| Passed { passing, server, fenced: quiet })
    }

    /// The server of the key of `request`, or the error that memcached would answer.
    fn owner(&self, request: &Request<'_>) -> Result<u16, &'static [u8]> {
        let key = request.key().ok_or_else(|| match request.words().nth(1) {
            None => ERROR,
            Some(_) => BAD_LINE,
        })?;
        let coded = request.verb().is_meta() && request.flags().any(|(letter, _)| letter == b'b');
        if coded {
            return base64::decode(key).map(|key| self.ring.server(&key)).ok_or(BAD_KEY);
        }
        Ok(self.ring.server(key))
    }

    /// Answers in place of the servers.
    fn answer(&mut self, reply: impl Into<Vec<u8>>) {
        self.expected.push_back(Expected::Local(reply.into()));
    }

    /// Whether requests may be sent to `server`; else the error that answers them.
    fn refusal(&self, server: u16) -> Option<Vec<u8>> {
        match &self.servers.get(usize::from(server))?.stage {
            Stage::Lost { why, .. } => Some(unavailable(why)),
            Stage::Down | Stage::Greeting(_) | Stage::Open => None,
        }
    }

    /// Counts a request of which `server` has a part.
    fn expect_from(&mut self, server: u16) {
        if let Some(server) = self.servers.get_mut(usize::from(server)) {
            server.pending += 1;
        }
    }

    /// Sends a request to one server; returns the server if it can be used.
    fn send_to(&mut self, one: One, bytes: &[u8], fenced: bool) -> Option<u16> {
        if let Some(error) = self.refusal(one.server) {
            self.expected.push_back(match one.silent {
                true => Expected::Silent(error),
                false => Expected::Local(error),
            });
            return None;
        }
        let server = one.server;
        self.forward(Some(server), bytes, fenced);
        self.expect_from(server);
        self.expected.push_back(Expected::One(one));
        Some(server)
    }

    /// Sends a read of one or several keys to the servers of its keys.
    fn read(&mut self, request: &Request<'_>) {
        if request.keys().next().is_none() {
            return self.answer(ERROR);
        }
        if request.keys().any(|key| key.len() > KEY_BYTES_MAX) {
            return self.answer(BAD_LINE);
        }
        let writes = matches!(request.verb(), Verb::Gat | Verb::Gats);
        let owners: SmallVec<[u16; 32]> = request.keys().map(|key| self.ring.server(key)).collect();
        let first = owners.first().copied().unwrap_or_default();
        if owners.iter().all(|owner| *owner == first) {
            let one = One { server: first, shape: Shape::Values, writes, silent: false };
            self.send_to(one, request.bytes(), false);
            return;
        }
        let mut command = Vec::new();
        // The command, and the expiry of `gat`.
        for word in request.words().take(if writes { 2 } else { 1 }) {
            command.extend_from_slice(if command.is_empty() { b"" } else { b" " });
            command.extend_from_slice(word);
        }
        let mut parts: SmallVec<[(u16, Vec<u8>); 8]> = SmallVec::new();
        let mut values = Values::new(writes);
        for (key, owner) in request.keys().zip(owners) {
            if !parts.iter().any(|(server, _)| *server == owner) {
                parts.push((owner, command.clone()));
            }
            if let Some((_, part)) = parts.iter_mut().find(|(server, _)| *server == owner) {
                part.push(b' ');
                part.extend_from_slice(key);
            }
            values.push(key, owner);
        }
        for (server, mut part) in parts {
            part.extend_from_slice(b"\r\n");
            match self.refusal(server) {
                Some(error) => values.fail(error),
                None => {
                    self.forward(Some(server), &part, false);
                    self.expect_from(server);
                    values.servers.push((server, false));
                }
            }
        }
        self.reading_bytes += values.held_bytes();
        self.expected.push_back(Expected::Values(Box::new(values)));
    }

    /// Sends `flush_all` to every server.
    fn flush(&mut self, bytes: &[u8], quiet: bool) {
        let mut all = All::new(quiet);
        for server in 0..self.servers.len() as u16 {
            match self.refusal(server) {
                Some(error) => all.fail(error),
                None => {
                    self.forward(Some(server), bytes, quiet);
                    self.expect_from(server);
                    all.servers.push(server);
                }
            }
        }
        self.expected.push_back(Expected::All(all));
    }
}

/// Whether a request with one key may write it.
fn writes(request: &Request<'_>) -> bool {
    /// The flags of `mg` that write nothing.
    const READS: &[u8] = b"bcfhkloqstuvO";
    match request.verb() {
        Verb::MetaDebug => false,
        Verb::MetaGet => request.flags().any(|(letter, _)| !READS.contains(&letter)),
        _ => true,
    }
}
