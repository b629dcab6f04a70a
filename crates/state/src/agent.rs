//! The agent (AnnaBellaDB's Routing, Fig. 2): one address beside an application for every key.
//!
//! Clients send the same commands as to a single Redis. A request is sent to the owner of its slot
//! over the one connection to that node that all clients share, so concurrent requests are sent in
//! one write. The agent follows MOVED, ASK and TRYAGAIN. Replies leave in the order of their
//! requests.
//!
//! **Never twice.** A request is sent again only if it was certainly not executed: a node refused
//! it, or not all of its bytes were handed to the network; or if it only reads. A write whose
//! connection broke before its answer came is answered with `UNCERTAIN`.
//!
//! **Order.** One client's requests for a slot are executed in their order: they use one
//! connection, and after the map has changed, or one of them was redirected, further ones wait
//! until all are answered. Requests of several keys, which may get TRYAGAIN, and transactions are
//! sent alone; so are requests that several nodes execute, in parts (`gather.rs`).
//!
//! **Read first:** [`Agent::receive`], then `nodes.rs`.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use slab::Slab;
use wire::resp::{Limits, Request, Version, request};

use crate::slot::Slot;

mod answers;
mod client;
mod copies;
mod flight;
mod gather;
mod held;
mod here;
mod in_order;
mod map;
mod monitor;
mod nodes;
mod output;
mod own;
mod reporter;
mod rights;
mod route;
mod scan;
mod stats;
mod subscriptions;
#[cfg(test)]
mod tests;
mod transaction;

pub use copies::COPY_LEASE;
pub use held::limits;
pub use monitor::Report;
pub use output::Output;
pub use own::OWN_CONNECTIONS_MAX;
pub use reporter::Reporter;
pub use stats::Stats;

use client::{ASKED_BYTES_MAX, Client};
use copies::Copies;
use flight::{Asked, Link, Purpose};
use map::Map;
use monitor::Monitor;
use own::{BLOCKED_INPUT_BYTES_MAX, Owner};
use rights::Rights;
use route::{Route, route};

/// Time for which a request is retried before its client gets an error.
pub const RETRY_FOR: Duration = Duration::from_secs(5);

/// Login of the agent at the nodes. All its clients have the rights of that user.
#[derive(Debug, Clone)]
pub struct Login {
    /// A user of the nodes' access control list.
    pub user: Vec<u8>,
    /// Its password.
    pub password: Vec<u8>,
}

/// Routes requests of all clients.
#[derive(Debug)]
pub struct Agent {
    limits: Limits,
    login: Option<Login>,
    rights: Rights,
    map: Map,
    copies: Copies,
    clients: Slab<Client>,
    /// Number of clients since the start.
    clients_ever: u64,
    links: Slab<Link>,
    /// By node, for each purpose.
    links_of: Vec<[Option<usize>; Purpose::COUNT]>,
    /// Requests by the time at which they are sent again; the number keeps their order.
    delayed: BTreeMap<(Duration, u64), (Asked, Version, Vec<u8>)>,
    delayed_ever: u64,
    /// The node for requests that any node can answer.
    any: usize,
    slots_asked: Option<Duration>,
    /// The last node whose answer named no slot, and the reason.
    slotless: Option<(SocketAddr, String)>,
    slots_due: Duration,
    pings_due: Duration,
    /// The node to ping next.
    pings: usize,
    monitor: Monitor,
    stats: Arc<Stats>,
    /// Number of connections of clients' own.
    own: usize,
    /// Those to be closed.
    closed: Vec<usize>,
    /// Clients to be closed.
    dropped: Vec<Owner>,
    /// Number of changes to users that clients with such connections were checked for.
    users_seen: u64,
    /// Clients and links with something new to be written, some of them more than once.
    spoken_to: Vec<usize>,
    links_spoken: Vec<usize>,
    wishes: Vec<usize>,
    /// Memory of clients, connections and delayed requests.
    held: usize,
    /// Bytes that each client may keep waiting.
    room: usize,
}

impl Agent {
    /// Starts with the nodes at `seeds` only, and logs in with `login`, if any; `seed` is for
    /// sampling, `limits` for requests and replies ([`limits()`]).
    #[must_use]
    pub fn new(
        seeds: &[SocketAddr],
        login: Option<Login>,
        limits: Limits,
        seed: u64,
        now: Duration,
    ) -> Self {
        let mut agent = Self {
            rights: Rights::new(&limits),
            limits,
            login,
            map: Map::new(seeds),
            copies: Copies::new(),
            clients: Slab::new(),
            clients_ever: 0,
            links: Slab::new(),
            links_of: Vec::new(),
            delayed: BTreeMap::new(),
            delayed_ever: 0,
            any: 0,
            slots_asked: None,
            slotless: None,
            slots_due: now,
            pings_due: now,
            pings: 0,
            monitor: Monitor::new(seed, now),
            stats: Arc::default(),
            own: 0,
            closed: Vec::new(),
            dropped: Vec::new(),
            users_seen: 0,
            spoken_to: Vec::new(),
            links_spoken: Vec::new(),
            wishes: Vec::new(),
            held: 0,
            room: usize::MAX,
        };
        agent.handle_timeout(now);
        agent
    }

    /// Keeps coherent copies of data read from these slots, and of no others.
    pub fn copy(&mut self, slots: &[Slot]) {
        self.copies.choose(slots);
    }

    /// Latencies since the start.
    #[must_use]
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// A client has connected to `address`; returns its seat.
    pub fn open(&mut self, address: SocketAddr) -> usize {
        self.clients_ever += 1;
        let mut client = Client::new(self.clients_ever, address, &self.rights);
        client.map_version = self.map.version();
        self.clients.insert(client)
    }

    /// The client is the agent's own: its requests are not counted.
    fn reports(&mut self, client: usize) {
        if let Some(client) = self.clients.get_mut(client) {
            client.reports = true;
        }
    }

    /// A client has disconnected. Its requests are executed; their replies are dropped. What it is
    /// blocked on or subscribed to ends.
    pub fn close(&mut self, client: usize) {
        self.leave_own(client);
        self.held -= self.clients.try_remove(client).map_or(0, |client| client.counted);
    }

    /// A client has sent `bytes`.
    ///
    /// # Errors
    /// It violates the protocol. It gets an error, and is closed when it has read it.
    pub fn receive(&mut self, at: usize, bytes: &[u8], now: Duration) -> wire::Result<()> {
        let received = self.take_in(at, bytes, now);
        self.count(at);
        received
    }

    fn take_in(&mut self, at: usize, bytes: &[u8], now: Duration) -> wire::Result<()> {
        let Some(client) = self.clients.get_mut(at) else { return Ok(()) };
        if client.closing {
            return Ok(());
        }
        if !client.input.is_empty() {
            client.input.extend_from_slice(bytes);
            return self.proceed(at, now);
        }
        let taken = self.execute(at, bytes, now)?;
        if let (Some(client), Some(rest)) = (self.clients.get_mut(at), bytes.get(taken..)) {
            client.input.extend_from_slice(rest);
        }
        Ok(())
    }

    /// Executes buffered requests of a client, as far as possible now.
    fn proceed(&mut self, at: usize, now: Duration) -> wire::Result<()> {
        let Some(client) = self.clients.get_mut(at) else { return Ok(()) };
        if client.input.is_empty() {
            return Ok(());
        }
        let mut input = std::mem::take(&mut client.input);
        let taken = self.execute(at, &input, now)?;
        if taken == input.len() {
            // The buffer of a long request is freed.
            input = Vec::new();
        } else {
            input.drain(..taken);
        }
        if let Some(client) = self.clients.get_mut(at) {
            client.input = input;
        }
        Ok(())
    }

    /// Output for a client. Call [`Self::heard`] when some of it was written.
    pub fn output(&mut self, client: usize) -> Option<&mut Output> {
        self.clients.get_mut(client).map(|client| &mut client.output)
    }

    /// A client has taken some of its output by `now`.
    ///
    /// # Errors
    /// As for [`Self::receive`], which may go on.
    pub fn heard(&mut self, at: usize, now: Duration) -> wire::Result<()> {
        let Some(client) = self.clients.get_mut(at) else { return Ok(()) };
        client.output.forget_written();
        let (count, since) = client.copied;
        if count > 0 && client.output.is_empty() {
            client.copied.0 = 0;
            self.stats.copies.record(now.saturating_sub(since), count);
        }
        let proceeded = self.proceed(at, now);
        self.count(at);
        proceeded
    }

    /// Whether more should be read from a client: not while it has requests that cannot be executed
    /// yet.
    #[must_use]
    pub fn listens_to(&self, client: usize) -> bool {
        self.clients.get(client).is_some_and(|client| {
            let may_ask = client.may_ask(self.room) && !client.waits(&self.map)
                || client.blocked && client.input.len() < BLOCKED_INPUT_BYTES_MAX;
            self.room > 0 && !client.closing && (client.input.is_empty() || may_ask)
        })
    }

    /// Whether a client has read all its output and can be closed.
    #[must_use]
    pub fn is_over(&self, client: usize) -> bool {
        self.clients
            .get(client)
            .is_none_or(|client| client.closing && client.is_answered() && client.output.is_empty())
    }

    /// Whether all requests of a client are answered and all replies were read.
    #[must_use]
    pub fn is_idle(&self, client: usize) -> bool {
        self.clients
            .get(client)
            .is_none_or(|client| client.is_answered() && client.output.is_empty())
    }

    /// Clients that may have output; possibly with duplicates and closed ones.
    pub fn spoken_to(&mut self, into: &mut Vec<usize>) {
        into.append(&mut self.spoken_to);
    }

    /// Executes requests in `bytes` until one is incomplete or has to wait; returns the number of
    /// bytes used.
    fn execute(&mut self, at: usize, bytes: &[u8], now: Duration) -> wire::Result<usize> {
        let mut taken = 0;
        self.spoken_to.push(at);
        loop {
            let Some(client) = self.clients.get_mut(at) else { return Ok(taken) };
            if !client.may_ask(self.room) || client.waits(&self.map) {
                return Ok(taken);
            }
            if client.is_answered() {
                (client.alone, client.asked_bytes) = (false, 0);
                client.map_version = self.map.version();
            }
            let rest = bytes.get(taken..).unwrap_or_default();
            let limits = self.rights.limits(client).unwrap_or(&self.limits);
            match client.decoder.decode(rest, limits) {
                Ok(None) => return Ok(taken),
                Ok(Some((request, count))) => {
                    let route = route(&request);
                    // It is executed after all earlier requests.
                    let waits = route.is_of_several_nodes() || route.is_of_own_connection();
                    let is_watched = route == Route::Exec && client.watch.is_some();
                    if (waits || is_watched) && !client.is_answered() {
                        client.alone = true;
                        return Ok(taken);
                    }
                    taken += count;
                    self.request(at, &request, route, taken == bytes.len(), now);
                }
                Err(error) => {
                    client.tell(&request::error_line(&error));
                    client.closing = true;
                    return Err(error);
                }
            }
        }
    }

    /// Routes one request; `last` if no other has arrived after it.
    fn request(
        &mut self,
        at: usize,
        request: &Request<'_>,
        route: Route,
        last: bool,
        now: Duration,
    ) {
        let Some(client) = self.clients.get_mut(at) else { return };
        if let Err(why) = self.rights.permit(&client.identity, request) {
            return client.refuse(&why);
        }
        if let Some(why) = subscriptions::refusal(client, request) {
            return client.refuse(&why);
        }
        if client.transaction.is_some() && route.is_of_several_nodes() {
            return client.refuse(route::CROSS_SLOT);
        }
        let (slot, write, many) = match route {
            Route::Slot { slot, write, many, in_order } => {
                // Pipelining writes is more valuable than their order relative to copies.
                let in_order = in_order && (last || !write);
                if in_order && self.ask_in_order(at, slot, write, request, now) {
                    return;
                }
                (Some(slot), write, many)
            }
            Route::Block { slot, write, many } if client.transaction.is_some() => {
                (Some(slot), write, many)
            }
            Route::Block { slot, write, .. } => return self.block(at, slot, write, request, now),
            Route::Watch(slot) => return self.watch(at, slot, request, now),
            Route::Subscribe(kind) => return self.subscribe(at, kind, request, now),
            Route::Unsubscribe(kind) => return self.unsubscribe(at, kind, request),
            Route::AnyNode => (None, true, false),
            Route::Here(name) if client.transaction.is_some() && name != "reset" => {
                return client.refuse(&format!("ERR {name} inside MULTI is not for the agent"));
            }
            Route::Here(name) => {
                match name {
                    "unwatch" => self.unwatch(at),
                    "reset" => self.leave_own(at),
                    _ => {}
                }
                let Some(client) = self.clients.get_mut(at) else { return };
                let answer = here::answer(client, name, request, self.rights.users());
                return client.tell(&answer);
            }
            Route::Refused(why) => return client.refuse(&why),
            Route::Split(command, merge) => return self.split(at, command, merge, request, now),
            Route::All(command, merge) => return self.ask_all(at, command, merge, request, now),
            Route::Scan => return self.scan(at, request, now),
            Route::Multi => return client.begin_transaction(self.rights.users().generation()),
            Route::Discard => return self.discard(at),
            Route::Exec => return self.execute_transaction(at, now),
        };
        let Some(client) = self.clients.get_mut(at) else { return };
        if client.transaction.is_some() {
            return client.queue(request, slot, write, self.limits.request_bytes_max);
        }
        let number = client.expect();
        client.asked_bytes += request.bytes().len();
        client.alone |= many || client.asked_bytes > ASKED_BYTES_MAX.min(self.room);
        let (id, version) = (client.id, client.version);
        if let Some(slot) = slot {
            let key = if many { None } else { request.argument(1) };
            self.monitor.asked(slot, key, write, request.bytes().len());
        }
        let (client, holds, answers, since, redirects, part) = (at, None, 1, now, 0, None);
        let own = None;
        let asked =
            Asked { client, id, number, slot, write, holds, answers, since, redirects, part, own };
        self.dispatch(asked, version, request.bytes(), now);
    }
}
