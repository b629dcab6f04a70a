//! Requests that several nodes execute, and the reply that is composed of theirs.
//!
//! A request whose keys are in several slots is executed in parts, one for each slot. A request
//! about all keys is executed by every primary. Each part is sent, redirected and repeated like a
//! request of its own. Nothing else of the client is in progress at the same time, so the order of
//! its requests for a slot is that of one request after the other.
//!
//! **Read first:** [`Agent::split`], [`Agent::ask_all`], then [`Gather::take`].

use std::{collections::HashMap, net::SocketAddr, time::Duration};

use wire::resp::{
    Frame, Limits, Request,
    command::{Command, Merge},
    frame, request, response,
};

use super::{Agent, client::ASKED_BYTES_MAX, copies::Held, flight::Asked, scan::Scan};
use crate::slot::Slot;

/// How often every primary executes a request that deletes keys. A key that moves can be on its way
/// to a node that has executed the request already; the source executes it after the key has
/// arrived, so a second time finds the key.
const DELETES: u8 = 2;

/// How the reply is made.
#[derive(Debug)]
pub(super) enum Join {
    Merge(Merge),
    /// The cursor of a node becomes one of the agent.
    Scan(Scan),
}

/// One request in parts.
#[derive(Debug)]
pub(super) struct Gather {
    join: Join,
    /// Its parts change something, unless they are answered with an error.
    write: bool,
    parts: Vec<Part>,
    /// Parts that are not answered.
    due: usize,
    /// Bytes of the answers that are kept.
    bytes: usize,
    /// The answers were longer than a reply may be; only errors are kept.
    dropped: bool,
    /// The request, and the number of times that every primary must still execute it.
    again: (Vec<u8>, u8),
}

/// A part of a request.
#[derive(Debug, Default)]
struct Part {
    /// Its keys are in this slot.
    slot: Option<Slot>,
    /// Without a slot: the node that must execute it.
    node: Option<SocketAddr>,
    /// Positions of its keys among all keys.
    keys: Vec<u32>,
    answer: Vec<u8>,
}

impl Gather {
    fn new(join: Join, write: bool, parts: Vec<Part>) -> Self {
        let (due, again) = (parts.len(), (Vec::new(), 0));
        Self { join, write, parts, due, bytes: 0, dropped: false, again }
    }

    /// Memory in use.
    pub(super) fn held_bytes(&self) -> usize {
        let keys = self.parts.iter().map(|part| part.keys.capacity()).sum::<usize>();
        let parts = self.parts.len() * size_of::<Part>() + keys * size_of::<u32>();
        self.bytes + self.again.0.len() + parts
    }

    /// Notes the answer to a part; returns whether all are answered.
    fn take(&mut self, part: u16, answer: &[u8], bytes_max: usize) -> bool {
        self.due = self.due.saturating_sub(1);
        self.dropped |= self.bytes + answer.len() > bytes_max;
        if let Some(part) = self.parts.get_mut(usize::from(part)) {
            self.bytes += answer.len();
            part.answer = answer.to_vec();
        }
        if self.dropped {
            let kept = |part: &Part| part.answer.starts_with(b"-");
            for part in self.parts.iter_mut().filter(|part| !kept(part)) {
                self.bytes -= part.answer.len();
                part.answer = Vec::new();
            }
        }
        self.due == 0
    }

    /// Whether all parts have to be executed once more, now that all were.
    fn begin_again(&mut self) -> bool {
        let again = self.again.1 > 0 && self.failure().is_none();
        if again {
            self.again.1 -= 1;
            (self.due, self.bytes) = (self.parts.len(), 0);
            self.parts.iter_mut().for_each(|part| part.answer = Vec::new());
        }
        again
    }

    /// The reply to the whole request.
    fn reply(&self, limits: &Limits) -> Vec<u8> {
        if let Some(text) = self.failure() {
            return error(&text);
        }
        if self.dropped {
            let most = limits.reply_bytes_max;
            let text = format!(
                "ERR the command was executed, and its reply was dropped: expected at most {most} bytes; \
                 request less at once"
            );
            return error(text.as_bytes());
        }
        let answers = self.parts.iter().map(|part| &part.answer);
        let replies: Option<Vec<Frame<'_>>> =
            answers.map(|answer| Some(frame::decode(answer, limits).ok()??.0)).collect();
        let keys: Vec<&[u32]> = self.parts.iter().map(|part| &*part.keys).collect();
        let joined = replies.and_then(|replies| match &self.join {
            Join::Merge(merge) => merge.join(&replies, &keys),
            Join::Scan(scan) => scan.reply(replies.first()?),
        });
        joined.unwrap_or_else(|| error(b"ERR the replies of the nodes do not belong together"))
    }

    /// The error of the request, if parts of it failed: that of a part whose outcome is unknown, or
    /// of the first that failed.
    fn failure(&self) -> Option<Vec<u8>> {
        let errors = || self.parts.iter().filter_map(|part| part.answer.strip_prefix(b"-"));
        let unknown = errors().find(|error| error.starts_with(b"UNCERTAIN "));
        let mut text = unknown.or_else(|| errors().next())?.trim_ascii_end().to_vec();
        let (all, failed) = (self.parts.len(), errors().count());
        if self.write && all > failed {
            let done = all - failed;
            text.extend(format!("; {done} of {all} parts of the command were executed").bytes());
        }
        Some(text)
    }
}

fn error(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    response::write_error(&mut out, text);
    out
}

const UNKNOWN: &str =
    "CLUSTERDOWN the agent does not know the nodes of the cluster yet; not executed, try again";

impl Agent {
    /// Sends to the owner of each slot the part of a request with its keys.
    pub(super) fn split(
        &mut self,
        at: usize,
        command: &Command,
        merge: Merge,
        request: &Request<'_>,
        now: Duration,
    ) {
        let Some(client) = self.clients.get_mut(at) else { return };
        let arguments = || request.arguments().skip(1);
        let step = command.keys.step();
        if !(request.len() - 1).is_multiple_of(step) {
            let name = command.name;
            return client.refuse(&format!("ERR wrong number of arguments for '{name}' command"));
        }
        let mut place_of: HashMap<Slot, usize> = HashMap::new();
        let mut parts = Vec::<Part>::new();
        for (position, key) in (0..).zip(arguments().step_by(step)) {
            let slot = Slot::of(key);
            let place = *place_of.entry(slot).or_insert(parts.len());
            if place == parts.len() {
                parts.push(Part { slot: Some(slot), ..Part::default() });
            }
            if let Some(part) = parts.get_mut(place) {
                part.keys.push(position);
            }
        }
        // A request has the form of an array of strings.
        let begun = parts.iter().map(|part| {
            let mut bytes = Vec::new();
            response::write_array_header(&mut bytes, 1 + part.keys.len() * step);
            response::write_bulk(&mut bytes, request.name());
            bytes
        });
        let mut requests: Vec<Vec<u8>> = begun.collect();
        let mut place = None;
        for (position, argument) in arguments().enumerate() {
            if position.is_multiple_of(step) {
                place = place_of.get(&Slot::of(argument));
            }
            if let Some(bytes) = place.and_then(|&place| requests.get_mut(place)) {
                response::write_bulk(bytes, argument);
            }
        }
        let gather = Gather::new(Join::Merge(merge), !command.effect.is_read(), parts);
        self.gather(at, gather, &requests, now);
    }

    /// Sends a request to every primary.
    pub(super) fn ask_all(
        &mut self,
        at: usize,
        command: &Command,
        merge: Merge,
        request: &Request<'_>,
        now: Duration,
    ) {
        let node = |node| Part { node: Some(node), ..Part::default() };
        let parts: Vec<Part> = self.map.primaries().into_iter().map(node).collect();
        let (nodes, bytes) = (parts.len(), request.bytes().len() * parts.len());
        if bytes > ASKED_BYTES_MAX {
            let why = format!(
                "ERR expected a command of at most {ASKED_BYTES_MAX} bytes for all nodes together, found {bytes} for \
                 {nodes} nodes; not executed: send it to each node"
            );
            return self.refuse(at, &why);
        }
        let requests = vec![request.bytes(); nodes];
        let mut gather = Gather::new(Join::Merge(merge), !command.effect.is_read(), parts);
        if command.effect.is_write() {
            gather.again = (request.bytes().to_vec(), DELETES - 1);
        }
        self.gather(at, gather, &requests, now);
    }

    /// Continues an iteration over all keys at the node that its cursor names.
    pub(super) fn scan(&mut self, at: usize, request: &Request<'_>, now: Duration) {
        let primaries = self.map.primaries();
        let scan = Scan::read(request.argument(1).unwrap_or_default(), &primaries);
        let scan = match scan {
            Ok(scan) => scan,
            Err(_) if primaries.is_empty() => return self.refuse(at, UNKNOWN),
            Err(why) => return self.refuse(at, why),
        };
        let cursor = scan.of_node().to_string();
        let mut words = vec![request.name(), cursor.as_bytes()];
        words.extend(request.arguments().skip(2));
        let mut bytes = Vec::new();
        request::write_command(&mut bytes, &words);
        let part = Part { node: Some(scan.node()), ..Part::default() };
        self.gather(at, Gather::new(Join::Scan(scan), false, vec![part]), &[bytes], now);
    }

    fn refuse(&mut self, at: usize, why: &str) {
        if let Some(client) = self.clients.get_mut(at) {
            client.refuse(why);
        }
    }

    /// Sends the parts of a request, and joins their answers when all have arrived.
    fn gather(&mut self, at: usize, gather: Gather, requests: &[impl AsRef<[u8]>], now: Duration) {
        if gather.parts.is_empty() {
            return self.refuse(at, UNKNOWN);
        }
        let Some(client) = self.clients.get_mut(at) else { return };
        let number = client.expect();
        client.alone = true;
        client.gather = Some(Box::new(gather));
        self.send_parts(at, number, requests, now);
    }

    fn send_parts(&mut self, at: usize, number: u64, requests: &[impl AsRef<[u8]>], now: Duration) {
        let Some(client) = self.clients.get(at) else { return };
        let Some(gather) = &client.gather else { return };
        let (id, version, write) = (client.id, client.version, gather.write);
        let holds = (!gather.again.0.is_empty()).then_some(Held::All);
        let slots: Vec<Option<Slot>> = gather.parts.iter().map(|part| part.slot).collect();
        for ((part, slot), request) in (0..).zip(slots).zip(requests) {
            let request = request.as_ref();
            if let Some(slot) = slot {
                self.monitor.asked(slot, None, write, request.len());
            }
            if let Some(held) = holds {
                self.copies.write_begins(held);
            }
            let (client, answers, since, redirects, part) = (at, 1, now, 0, Some(part));
            let own = None;
            let asked = Asked {
                client,
                id,
                number,
                slot,
                write,
                holds,
                answers,
                since,
                redirects,
                part,
                own,
            };
            self.dispatch(asked, version, request, now);
        }
    }

    /// Notes the answer to a part; returns the reply to the whole request when it is complete.
    pub(super) fn gathered(
        &mut self,
        asked: &Asked,
        part: u16,
        answer: &[u8],
        now: Duration,
    ) -> Option<Vec<u8>> {
        let limits = self.limits.clone();
        let gather = self.asker(asked)?.gather.as_mut()?;
        if !gather.take(part, answer, limits.reply_bytes_max) {
            return None;
        }
        if gather.begin_again() {
            let requests = vec![gather.again.0.clone(); gather.parts.len()];
            self.send_parts(asked.client, asked.number, &requests, now);
            return None;
        }
        let gather = self.asker(asked)?.gather.take()?;
        Some(gather.reply(&limits))
    }

    /// The node that must execute a part without a slot; an error if it is not in the cluster any
    /// more.
    pub(super) fn place_of(&mut self, asked: &Asked, part: u16) -> Result<usize, String> {
        let client = self.asker(asked).and_then(|client| client.gather.as_ref());
        let part = client.and_then(|gather| gather.parts.get(usize::from(part)));
        let address = part.and_then(|part| part.node).ok_or("ERR the client is gone")?;
        let gone = || format!("ERR node {address} has left the cluster; not executed there");
        self.map.member(address).ok_or_else(gone)
    }
}
