//! Watch: checks whether the origin is still the server whose replies are stored.
//!
//! A separate connection queries the identity of the origin. Redis reports its run id, replication
//! id and offset; MongoDB its process id and, in a replica set, its election id; memcached its
//! process id and start time. If the identity has changed, or is unknown and the connection was
//! lost, stored values may no longer exist at the origin, and are dropped. A session's new
//! connection to the origin is confirmed by a question that was asked after it was made, before its
//! first reply is read.
//!
//! **Not detected:** a proxy between the cache and its origin that answers for several servers; a
//! restart that lost the last writes, if the server keeps its identity.
//!
//! Decision: `docs/decisions/0005-changes-at-the-origin.md`.

use wire::{
    detect::{self, Protocol},
    memcache::{
        self,
        reply::{Progress, Scanner, Shape},
    },
    mongo::{
        bson::{Document, Writer},
        frame as mongo_frame, message,
        response::Response,
    },
    resp::{Limits, frame, request},
};

use crate::{Error, input::Input};

/// Protocol in which the origin is asked.
#[derive(Debug, Clone)]
pub enum Speaks {
    /// Redis: the login of the feed, user and password, where there is one.
    Resp(Option<(Option<String>, String)>),
    /// MongoDB.
    Mongo,
    /// memcached.
    Memcache,
}

impl Speaks {
    /// The protocol spoken.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Resp(_) => Protocol::Resp,
            Self::Mongo => Protocol::Mongo,
            Self::Memcache => Protocol::Memcache,
        }
    }

    /// Questions for an origin that does not answer in this protocol, each for a connection of its
    /// own, and the protocol that was expected. `encrypted`: it should speak TLS. `reached`: a
    /// connection was made, with its handshake; otherwise the questions go without TLS.
    #[must_use]
    pub fn probes(&self, encrypted: bool, reached: bool) -> (Protocol, Vec<Vec<u8>>) {
        let mut hello = Vec::new();
        write_hello(&mut hello);
        let (own, foreign) = match self {
            Self::Resp(_) => (PING.to_vec(), hello),
            Self::Mongo => (hello, PING.to_vec()),
            // Redis answers the watch's `stats` with an error.
            Self::Memcache => (memcache::reply::FENCE.to_vec(), hello),
        };
        match (encrypted, reached) {
            (true, false) => (Protocol::Tls, vec![own, foreign]),
            (true, true) => (self.protocol(), vec![foreign]),
            (false, _) => (self.protocol(), vec![foreign, detect::client_hello()]),
        }
    }
}

/// Redis answers it, whatever the client may do, and memcached with an error.
const PING: &[u8] = b"PING\r\n";

/// Verdict of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The origin is the one that was known, or the first.
    Same,
    /// The origin may be another one: drop what is stored of it.
    Changed,
}

/// Identity reported by an origin.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Identity {
    /// A part that changes whenever data may have been lost, and a number that only grows.
    Known(Vec<u8>, u64),
    /// The origin reports no identity.
    Unknown,
}

/// The watch of one origin.
#[derive(Debug)]
pub struct Watch {
    speaks: Speaks,
    input: Input,
    known: Option<Identity>,
    /// Replies received so far to the present question.
    told: Vec<u8>,
    awaited: usize,
    /// No question was answered on this connection yet.
    fresh: bool,
}

impl Watch {
    /// A watch that is not connected.
    #[must_use]
    pub fn new(speaks: Speaks) -> Self {
        let (input, told) = (Input::default(), Vec::new());
        Self { speaks, input, known: None, told, awaited: 0, fresh: true }
    }

    /// Protocol in which the origin is asked.
    #[must_use]
    pub fn speaks(&self) -> &Speaks {
        &self.speaks
    }

    /// Whether an answer was ever understood.
    #[must_use]
    pub fn has_stood(&self) -> bool {
        self.known.is_some()
    }

    /// Whether a question was answered on the present connection.
    #[must_use]
    pub fn has_answered(&self) -> bool {
        !self.fresh
    }

    /// Writes a question. Ask the next one when this one is answered.
    pub fn ask(&mut self, out: &mut Vec<u8>) {
        match &self.speaks {
            Speaks::Resp(login) => {
                if let Some((user, password)) = login.as_ref().filter(|_| self.fresh) {
                    let user = user.as_deref().unwrap_or("default");
                    request::write_command(out, &["AUTH", user, password]);
                    self.awaited += 1;
                }
                request::write_command(out, &["INFO", "server"]);
                request::write_command(out, &["INFO", "replication"]);
                self.awaited += 2;
            }
            Speaks::Mongo => {
                write_hello(out);
                self.awaited += 1;
            }
            Speaks::Memcache => {
                out.extend_from_slice(b"stats\r\n");
                out.extend_from_slice(memcache::reply::FENCE);
                self.awaited += 1;
            }
        }
    }

    /// Takes bytes from the origin; returns a verdict once the question is answered.
    ///
    /// # Errors
    /// The origin does not speak the protocol. Close the connection and call [`Self::lost`].
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Option<Verdict>, Error> {
        if self.fresh
            && let Some(found) = detect::server(self.speaks.protocol(), bytes)
        {
            return Err(Error::Server(detect::foreign(self.speaks.protocol(), found, bytes)));
        }
        let all = self.input.take_with(bytes);
        let mut taken = 0;
        while self.awaited > 0 {
            let rest = all.waiting().get(taken..).unwrap_or_default();
            let Some(length) = self.read_reply(rest).map_err(Error::Server)? else { break };
            taken += length;
            self.awaited -= 1;
        }
        self.input.put_back(all, taken);
        Ok((self.awaited == 0).then(|| self.judge()))
    }

    /// Notes that the connection is lost.
    pub fn lost(&mut self) {
        self.input = Input::default();
        self.told.clear();
        (self.awaited, self.fresh) = (0, true);
    }

    /// Reads one reply; its length, once it is whole.
    fn read_reply(&mut self, bytes: &[u8]) -> wire::Result<Option<usize>> {
        match self.speaks {
            Speaks::Resp(_) => {
                let Some((reply, length)) = frame::decode(bytes, &Limits::default())? else {
                    return Ok(None);
                };
                self.told.extend_from_slice(reply.payload().unwrap_or_default());
                Ok(Some(length))
            }
            Speaks::Mongo => {
                let limits = mongo_frame::Limits::default();
                let Some((reply, length)) = mongo_frame::decode(bytes, &limits)? else {
                    return Ok(None);
                };
                let told = Response::parse(&reply)?.and_then(|hello| mongo_identity(&hello.body));
                self.told.extend(told.unwrap_or_default());
                Ok(Some(length))
            }
            Speaks::Memcache => Ok(read_statistics(bytes, &mut self.told)?),
        }
    }

    fn judge(&mut self) -> Verdict {
        let told = std::mem::take(&mut self.told);
        let identity = match self.speaks {
            Speaks::Resp(_) => redis_identity(&told),
            Speaks::Memcache => memcached_identity(&told),
            Speaks::Mongo if told.is_empty() => Identity::Unknown,
            Speaks::Mongo => Identity::Known(told, 0),
        };
        let changed = match (&self.known, &identity) {
            (None, _) => false,
            (Some(Identity::Known(before, reached)), Identity::Known(now, reaches)) => {
                before != now || reaches < reached
            }
            // An origin without an identity may be a different server behind each connection.
            _ => self.fresh,
        };
        self.known = Some(identity);
        self.fresh = false;
        if changed { Verdict::Changed } else { Verdict::Same }
    }
}

/// Process, history and offset, from the lines of INFO.
fn redis_identity(info: &[u8]) -> Identity {
    let field = |name: &[u8]| {
        let mut lines = info.split(|&byte| byte == b'\n');
        lines.find_map(|line| line.strip_prefix(name)).map(<[u8]>::trim_ascii)
    };
    let Some(process) = field(b"run_id:") else { return Identity::Unknown };
    let history = field(b"master_replid:").unwrap_or_default();
    let reached = field(b"master_repl_offset:").and_then(|text| std::str::from_utf8(text).ok());
    let reached = reached.and_then(|text| text.parse().ok()).unwrap_or(0);
    Identity::Known([process, b" ", history].concat(), reached)
}

/// Reads the statistics of a memcached and the fence after them. Returns their length once both are
/// complete. A memcached that requires a login answers only the last request of a packet.
fn read_statistics(bytes: &[u8], told: &mut Vec<u8>) -> wire::Result<Option<usize>> {
    let limits = memcache::Limits::default();
    let end = |from: usize, shape| {
        let rest = bytes.get(from..).unwrap_or_default();
        let Progress { consumed, complete } = Scanner::default().advance(rest, shape, &limits)?;
        wire::Result::Ok(complete.then_some(from + consumed))
    };
    let Some(statistics) = end(0, Shape::Fenced)? else { return Ok(None) };
    if bytes.starts_with(memcache::reply::NO_LOGIN) {
        return Ok(Some(statistics));
    }
    let Some(fence) = end(statistics, Shape::Line)? else { return Ok(None) };
    told.extend_from_slice(bytes.get(..statistics).unwrap_or_default());
    Ok(Some(fence))
}

/// Returns the process and its start time, which is the difference of two numbers of one clock.
fn memcached_identity(statistics: &[u8]) -> Identity {
    let field = |name: &[u8]| {
        let mut lines = statistics.split(|&byte| byte == b'\n');
        let text = lines.find_map(|line| line.strip_prefix(name)).map(<[u8]>::trim_ascii);
        text.and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok())
    };
    let (process, uptime, time) =
        (field(b"STAT pid "), field(b"STAT uptime "), field(b"STAT time "));
    match (process, uptime, time) {
        (Some(process), Some(uptime), Some(time)) => {
            Identity::Known(format!("{process} {}", time.wrapping_sub(uptime)).into(), uptime)
        }
        _ => Identity::Unknown,
    }
}

/// Returns the process and the election of a `hello` reply; `None` if it names no process.
pub(crate) fn mongo_identity(hello: &Document<'_>) -> Option<Vec<u8>> {
    let version = hello.element("topologyVersion").ok()??.document()?;
    let mut identity = version.element("processId").ok()??.value().to_vec();
    if let Ok(Some(election)) = hello.element("electionId") {
        identity.extend_from_slice(election.value());
    }
    Some(identity)
}

fn write_hello(out: &mut Vec<u8>) {
    let mut body = Vec::new();
    Writer::write(&mut body, |body| {
        body.i32("hello", 1);
        body.str("$db", "admin");
        body.str("comment", "enroute: watch");
    });
    message::write(out, 1, 0, &body);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(run: &str, history: &str, reached: u64) -> Vec<u8> {
        let bulk = |text: String| format!("${}\r\n{text}\r\n", text.len());
        let server = bulk(format!("# Server\r\nrun_id:{run}\r\ntcp_port:1\r\n"));
        let rest = format!("master_replid:{history}\r\nmaster_repl_offset:{reached}\r\n");
        [server, bulk(rest)].concat().into_bytes()
    }

    fn answer(watch: &mut Watch, reply: &[u8]) -> Verdict {
        watch.ask(&mut Vec::new());
        let (first, rest) = reply.split_at(reply.len() / 2);
        assert_eq!(watch.receive(first).unwrap(), None);
        watch.receive(rest).unwrap().expect("answered")
    }

    #[test]
    fn another_process_or_history_or_less_of_it_is_a_change() {
        let mut watch = Watch::new(Speaks::Resp(None));
        for (run, history, reached, verdict) in [
            ("a", "h", 10, Verdict::Same),
            ("a", "h", 20, Verdict::Same),
            ("a", "h", 19, Verdict::Changed),
            ("b", "h", 19, Verdict::Changed),
            ("b", "i", 30, Verdict::Changed),
            ("b", "i", 30, Verdict::Same),
        ] {
            assert_eq!(
                answer(&mut watch, &info(run, history, reached)),
                verdict,
                "{run} {history}"
            );
            watch.lost();
        }
    }

    #[test]
    fn an_origin_without_an_identity_may_differ_on_each_connection() {
        let refused = b"-NOAUTH Authentication required.\r\n".repeat(2);
        let mut watch = Watch::new(Speaks::Resp(None));
        assert_eq!(answer(&mut watch, &refused), Verdict::Same);
        assert_eq!(answer(&mut watch, &refused), Verdict::Same);
        watch.lost();
        assert_eq!(answer(&mut watch, &refused), Verdict::Changed);
        assert_eq!(answer(&mut watch, &info("a", "h", 1)), Verdict::Same);
        watch.lost();
        assert_eq!(answer(&mut watch, &info("a", "h", 1)), Verdict::Same);
        watch.lost();
        assert_eq!(answer(&mut watch, &refused), Verdict::Changed);
    }

    #[test]
    fn a_process_or_an_election_of_mongodb_is_an_identity() {
        let hello = |process: &str, election: Option<&str>| {
            let mut body = Vec::new();
            Writer::write(&mut body, |body| {
                body.f64("ok", 1.0);
                if !process.is_empty() {
                    body.nested("topologyVersion", |version| version.str("processId", process));
                }
                election.into_iter().for_each(|election| body.str("electionId", election));
            });
            let mut reply = Vec::new();
            message::write(&mut reply, 2, 1, &body);
            reply
        };
        let mut watch = Watch::new(Speaks::Mongo);
        for (process, election, verdict) in [
            ("p", None, Verdict::Same),
            ("p", Some("1"), Verdict::Changed),
            ("p", Some("1"), Verdict::Same),
            ("q", Some("1"), Verdict::Changed),
            ("", None, Verdict::Changed),
        ] {
            assert_eq!(answer(&mut watch, &hello(process, election)), verdict, "{process}");
            watch.lost();
        }
    }

    #[test]
    fn another_process_or_start_of_memcached_is_a_change() {
        let mut watch = Watch::new(Speaks::Memcache);
        for (process, uptime, time, verdict) in [
            (7, 9, 109, Verdict::Same),
            (7, 10, 110, Verdict::Same),
            // memcached in a container, which always has this process ID.
            (7, 11, 130, Verdict::Changed),
            (8, 12, 131, Verdict::Changed),
        ] {
            let stats = format!(
                "STAT pid {process}\r\nSTAT uptime {uptime}\r\nSTAT time {time}\r\nEND\r\nVERSION 1.6.18\r\n"
            );
            assert_eq!(answer(&mut watch, stats.as_bytes()), verdict, "{process} {uptime}");
            watch.lost();
        }
        assert_eq!(answer(&mut watch, b"CLIENT_ERROR unauthenticated\r\n"), Verdict::Changed);
    }

    #[test]
    fn an_origin_of_another_protocol_is_named() {
        let mut watch = Watch::new(Speaks::Mongo);
        watch.ask(&mut Vec::new());
        let error = watch.receive(b"-ERR unknown command\r\n").unwrap_err().to_string();
        assert!(error.contains("expected MongoDB, got Redis"), "{error}");
    }
}
