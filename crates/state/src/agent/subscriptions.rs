//! Subscriptions of clients: SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE, and their ends.
//!
//! A client's subscriptions are made over connections of its own: those to channels and patterns at
//! any node, those to shard channels at the owner of their slot. The connections use RESP3, in
//! which confirmations and messages are pushes; the client gets them in its own version of the
//! protocol, with the numbers of all its subscriptions.
//!
//! A subscription that ends without the client's request (its node is lost, or the slot of a shard
//! channel has moved) closes the client: a client that connects anew subscribes again, and knows
//! that it may have missed messages.

use std::{collections::BTreeMap, time::Duration};

use wire::resp::{Frame, Limits, Request, Version, frame, request, response};

use super::{
    Agent,
    client::{Client, UNREAD_BYTES_MAX},
    flight::{Asker, Flight, Purpose},
    map::Redirect,
    own::{Owner, too_many},
    route::CROSS_SLOT,
};
use crate::slot::Slot;

/// Maximum number of subscriptions of one client.
pub(super) const SUBSCRIPTIONS_MAX: usize = 1_024;
/// Maximum length of the name of a channel.
const NAME_BYTES_MAX: usize = 1_024;
/// Maximum number of characters of a command's name in an error.
const NAME_CHARS_MAX: usize = 64;
/// Maximum number of redirections that are followed for one request.
const REDIRECTS_MAX: u32 = 4;
/// Memory of a subscription beside its name.
const ENTRY_BYTES: usize = 64;

/// What is subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Channel,
    Pattern,
    Shard,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::Shard];

    /// The words of a message, of a subscription and of its end.
    fn words(self) -> [&'static str; 3] {
        match self {
            Self::Channel => ["message", "subscribe", "unsubscribe"],
            Self::Pattern => ["pmessage", "psubscribe", "punsubscribe"],
            Self::Shard => ["smessage", "ssubscribe", "sunsubscribe"],
        }
    }
}

/// A request to subscribe that is not confirmed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subscribing {
    pub(super) owner: Owner,
    /// Its number among the client's requests.
    number: u64,
    /// Number of confirmations.
    pub(super) names: u32,
    redirects: u32,
}

/// The subscriptions of a client.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    /// For each kind, the connection of each.
    of: [BTreeMap<Box<[u8]>, usize>; 3],
    /// Confirmations of the request under way, and messages among them.
    pending: Vec<u8>,
    /// Bytes of all names.
    bytes: usize,
}

impl Subscriptions {
    fn of(&self, kind: Kind) -> &BTreeMap<Box<[u8]>, usize> {
        &self.of[kind as usize]
    }

    fn len(&self) -> usize {
        self.of.iter().map(BTreeMap::len).sum()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.pending.capacity() + self.bytes + self.len() * ENTRY_BYTES
    }

    pub(super) fn names(&self) -> impl Iterator<Item = (Kind, &[u8])> {
        Kind::ALL.into_iter().flat_map(|kind| self.of(kind).keys().map(move |name| (kind, &**name)))
    }

    /// The number that a confirmation shows.
    fn shown(&self, kind: Kind) -> usize {
        match kind {
            Kind::Shard => self.of(kind).len(),
            _ => self.of(Kind::Channel).len() + self.of(Kind::Pattern).len(),
        }
    }

    fn begin(&mut self, kind: Kind, name: &[u8], link: usize) {
        if self.of[kind as usize].insert(name.into(), link).is_none() {
            self.bytes += name.len();
        }
    }

    fn end(&mut self, kind: Kind, name: &[u8]) -> Option<usize> {
        let link = self.of[kind as usize].remove(name)?;
        self.bytes -= name.len();
        Some(link)
    }

    pub(super) fn uses(&self, link: usize) -> bool {
        self.of.iter().any(|of| of.values().any(|&at| at == link))
    }
}

/// A confirmation for a client of `version`.
fn confirm(out: &mut Vec<u8>, word: &str, name: Option<&[u8]>, count: usize, version: Version) {
    response::write_push_header(out, 3, version);
    response::write_bulk(out, word.as_bytes());
    match name {
        Some(name) => response::write_bulk(out, name),
        None => response::write_null(out, version),
    }
    response::write_integer(out, count as i64);
}

impl Client {
    /// Whether messages can arrive.
    pub(super) fn is_subscribed(&self) -> bool {
        self.heard.as_ref().is_some_and(|heard| heard.len() > 0)
    }
}

/// Why a client may not send this request while it is subscribed. With RESP3 it may send any.
pub(super) fn refusal(client: &Client, request: &Request<'_>) -> Option<String> {
    if client.version != Version::Resp2 || !client.is_subscribed() {
        return None;
    }
    let name = String::from_utf8_lossy(request.name()).to_ascii_lowercase();
    let is_of_subscriptions = Kind::ALL.iter().any(|kind| kind.words()[1..].contains(&&*name));
    if is_of_subscriptions || matches!(&*name, "ping" | "quit" | "reset") {
        return None;
    }
    let shown: String = name.chars().take(NAME_CHARS_MAX).collect();
    Some(format!(
        "ERR Can't execute '{shown}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
         are allowed in this context"
    ))
}

impl Agent {
    /// Subscribes a client.
    pub(super) fn subscribe(
        &mut self,
        at: usize,
        kind: Kind,
        request: &Request<'_>,
        now: Duration,
    ) {
        let Some(client) = self.clients.get_mut(at) else { return };
        let word = kind.words()[1];
        let names = || request.arguments().skip(1);
        if client.transaction.is_some() {
            return client.refuse(&format!("ERR {word} inside MULTI is not for the agent"));
        }
        if request.len() < 2 {
            return client.refuse(&format!("ERR wrong number of arguments for '{word}' command"));
        }
        let heard = client.heard.get_or_insert_default();
        let long = names().any(|name| name.len() > NAME_BYTES_MAX);
        if long || heard.len() + names().count() > SUBSCRIPTIONS_MAX {
            let why = format!(
                "ERR expected at most {SUBSCRIPTIONS_MAX} subscriptions of a client, and names of at most \
                 {NAME_BYTES_MAX} bytes"
            );
            return client.refuse(&why);
        }
        let slot = names().next().map(Slot::of);
        if kind == Kind::Shard && names().any(|name| Some(Slot::of(name)) != slot) {
            return client.refuse(CROSS_SLOT);
        }
        let owner = Owner { client: at, id: client.id };
        let mut messages = client.own.iter().filter_map(|&link| self.links.get(link));
        let present = messages.find(|link| link.purpose == Purpose::Messages);
        let present = present.map(|link| link.node).filter(|_| kind != Kind::Shard);
        let owns = slot.filter(|_| kind == Kind::Shard).and_then(|slot| self.map.owner(slot));
        let node = present.or(owns).unwrap_or_else(|| self.any_node());
        let Some(client) = self.clients.get_mut(at) else { return };
        let (number, names) = (client.expect(), names().count() as u32);
        client.alone = true;
        self.send_subscribe(
            node,
            Subscribing { owner, number, names, redirects: 0 },
            request.bytes(),
            now,
        );
    }

    fn send_subscribe(
        &mut self,
        node: usize,
        subscribing: Subscribing,
        request: &[u8],
        now: Duration,
    ) {
        match self.own_link(subscribing.owner, node, Purpose::Messages) {
            Some(link) => self.say_own(link, Asker::Subscribe(subscribing), b"", request),
            None => {
                let mut answer = Vec::new();
                response::write_error(&mut answer, too_many().as_bytes());
                self.subscribed(subscribing, &answer, now);
            }
        }
    }

    /// Ends subscriptions of a client: those named, or all of the kind.
    pub(super) fn unsubscribe(&mut self, at: usize, kind: Kind, request: &Request<'_>) {
        let Some(client) = self.clients.get_mut(at) else { return };
        let word = kind.words()[2];
        if client.transaction.is_some() {
            return client.refuse(&format!("ERR {word} inside MULTI is not for the agent"));
        }
        let version = client.version;
        let heard = client.heard.get_or_insert_default();
        let mut names: Vec<Box<[u8]>> = request.arguments().skip(1).map(Into::into).collect();
        if request.len() < 2 {
            names = heard.of(kind).keys().cloned().collect();
        }
        let mut reply = Vec::new();
        if names.is_empty() {
            confirm(&mut reply, word, None, heard.shown(kind), version);
        }
        let mut ended: BTreeMap<usize, Vec<Box<[u8]>>> = BTreeMap::new();
        for name in names {
            let link = heard.end(kind, &name);
            confirm(&mut reply, word, Some(&name), heard.shown(kind), version);
            if let Some(link) = link {
                ended.entry(link).or_default().push(name);
            }
        }
        let unused = ended.keys().copied().filter(|&link| !heard.uses(link));
        let unused: Vec<usize> = unused.collect();
        client.tell(&reply);
        for (link, names) in ended {
            if unused.contains(&link) {
                self.close_own(link);
                continue;
            }
            let mut bytes = Vec::new();
            let words: Vec<&[u8]> =
                std::iter::once(word.as_bytes()).chain(names.iter().map(|name| &**name)).collect();
            request::write_command(&mut bytes, &words);
            self.say_own(link, Asker::Ignored(names.len() as u32), b"", &bytes);
        }
    }

    /// Handles a push of a node over a connection for subscriptions.
    pub(super) fn message(&mut self, at: usize, push: &[u8], now: Duration) {
        let Some(owner) = self.links.get(at).and_then(|link| link.owner) else { return };
        let Ok(Some((found, _))) = frame::decode(push, &Limits::default()) else { return };
        let found: Frame<'_> = found;
        let mut parts = found.elements();
        let word = parts.next().and_then(|word| word.payload()).unwrap_or_default();
        let name = parts.next().and_then(|name| name.payload()).unwrap_or_default();
        for kind in Kind::ALL {
            let [message, subscribed, ended] = kind.words();
            let client = self.client_of(owner).and_then(|client| client.heard.as_ref());
            let is_heard = client.is_some_and(|heard| heard.of(kind).get(name) == Some(&at));
            match word {
                _ if word == message.as_bytes() && is_heard => self.deliver(at, owner, push),
                _ if word == subscribed.as_bytes() => self.confirmed(at, owner, kind, name, now),
                // The node has ended it: the slot has moved.
                _ if word == ended.as_bytes() && is_heard => self.drop_client(owner),
                _ if word == ended.as_bytes() => {
                    let front = self.links.get(at).and_then(|link| link.flights.front());
                    if front.is_some_and(|flight| matches!(flight.asker, Asker::Ignored(_))) {
                        self.ignored(at);
                    }
                }
                _ => {}
            }
        }
    }

    /// Gives a message to a client, after the confirmations that precede it.
    fn deliver(&mut self, at: usize, owner: Owner, push: &[u8]) {
        let front = self.links.get(at).and_then(|link| link.flights.front());
        let confirms = front.is_some_and(|flight| matches!(flight.asker, Asker::Subscribe(_)));
        let Some(client) = self.clients.get_mut(owner.client) else { return };
        let Some(heard) = &mut client.heard else { return };
        let start = heard.pending.len();
        heard.pending.extend_from_slice(push);
        if let (Some(first), Version::Resp2) = (heard.pending.get_mut(start), client.version) {
            *first = b'*';
        }
        if !confirms {
            client.output.extend(&std::mem::take(&mut heard.pending));
            self.spoken_to.push(owner.client);
        }
        let unread = client.output.bytes().len() + heard.pending.len();
        if unread > UNREAD_BYTES_MAX {
            self.drop_client(owner);
        }
        self.count(owner.client);
    }

    /// A node has confirmed one subscription.
    fn confirmed(&mut self, at: usize, owner: Owner, kind: Kind, name: &[u8], now: Duration) {
        let Some(client) = self.clients.get_mut(owner.client) else { return };
        let heard = client.heard.get_or_insert_default();
        heard.begin(kind, name, at);
        let (word, shown) = (kind.words()[1], heard.shown(kind));
        confirm(&mut heard.pending, word, Some(name), shown, client.version);
        if let Some(Flight { asker: Asker::Subscribe(subscribing), .. }) = self.ignored(at) {
            self.subscribed(subscribing, b"", now);
        }
    }

    /// One of the answers to the front request has arrived; returns the request with the last one.
    fn ignored(&mut self, at: usize) -> Option<Flight> {
        let link = self.links.get_mut(at)?;
        let flight = link.flights.front_mut()?;
        flight.due = flight.due.saturating_sub(1);
        if flight.due > 0 {
            return None;
        }
        let flight = link.flights.pop_front()?;
        link.output.forget(flight.bytes);
        self.count_link(at);
        Some(flight)
    }

    /// Answers a request to subscribe: with its confirmations, and an error if it failed.
    pub(super) fn subscribed(&mut self, subscribing: Subscribing, error: &[u8], now: Duration) {
        let Subscribing { owner, number, .. } = subscribing;
        if self.client_of(owner).is_none() {
            return;
        }
        let Some(client) = self.clients.get_mut(owner.client) else { return };
        let pending = client.heard.as_mut().map(|heard| std::mem::take(&mut heard.pending));
        client.answer(number, &[&pending.unwrap_or_default(), error].concat());
        self.spoken_to.push(owner.client);
        self.go_on(owner.client, now);
    }

    /// A node has refused a request to subscribe.
    pub(super) fn refused_subscription(&mut self, at: usize, answer: &[u8], now: Duration) {
        let Some(link) = self.links.get_mut(at) else { return };
        let (address, owner) = (link.address, link.owner);
        let Some(flight) = link.flights.pop_front() else { return };
        let request = link.output.kept().get(..flight.bytes).unwrap_or_default().to_vec();
        link.output.forget(flight.bytes);
        self.count_link(at);
        let Asker::Subscribe(mut subscribing) = flight.asker else { return };
        let heard = owner.and_then(|owner| self.client_of(owner)?.heard.as_ref());
        if !heard.is_some_and(|heard| heard.uses(at)) {
            self.close_own(at);
        }
        let place = match Redirect::read(answer, address) {
            Some(Redirect::Moved(slot, to)) => {
                self.hurry_slots(now);
                let node = self.map.member(to);
                if let Some(node) = node {
                    self.map.set(slot, node);
                }
                node
            }
            Some(Redirect::Ask(to)) => self.map.member(to),
            _ => None,
        };
        subscribing.redirects += 1;
        match place.filter(|_| subscribing.redirects <= REDIRECTS_MAX) {
            Some(node) => self.send_subscribe(node, subscribing, &request, now),
            None => self.subscribed(subscribing, answer, now),
        }
    }
}
