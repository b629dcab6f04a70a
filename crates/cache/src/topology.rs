//! Topology: which server of a MongoDB deployment is the one in use.
//!
//! Every member of a replica set, or every listed mongos, is asked `hello`: the rules of MongoDB's
//! *Server Discovery and Monitoring*, as far as a relay needs them. Members that can (MongoDB 4.4)
//! answer when something changes, so that a failover is seen at once.
//!
//! - **Replica set:** the primary of the newest election. A primary that states an older election
//!   or configuration was cut off and is refused; the members are those that the primary lists.
//!   With [`Config::secondary`] it is the first secondary instead.
//! - **Sharded cluster:** the first mongos that answers. It stays until it fails.
//!
//! The server in use is left ([`monitor::Action::Leave`]) as soon as it says that it is something
//! else, or was elected again, or another one is found: nothing of it is stored or served
//! afterwards. While it is only silent and no other one is found, it stays.

use std::{collections::BTreeMap, time::Duration};

use wire::mongo::{
    frame::{self, Limits},
    response::Response,
};

use crate::monitor::{self, Pace};

mod hello;
mod server;
mod srv;
#[cfg(test)]
mod tests;
mod told;

use hello::{Election, Hello, History, Role};
use server::Server;
pub use told::Told;

/// A connection to a server: servers are numbered in the order in which they are found.
pub type End = usize;
type Event<'a> = monitor::Event<'a, End>;
type Action = monitor::Action<End, Told>;

/// Longest reply to `hello`.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// The service whose records name the members of a deployment.
const SERVICE: &str = "_mongodb._tcp";
/// A server before MongoDB 4.4.2 does not know `hello`.
const COMMAND_NOT_FOUND: i64 = 59;

/// What is monitored.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The servers that are asked first, each `host:port`.
    pub seeds: Vec<String>,
    /// Domain whose records in DNS name them.
    pub domain: Option<String>,
    /// Name of the replica set. Without it, the first server that answers decides whether the
    /// deployment is its replica set or a sharded cluster.
    pub replica_set: Option<String>,
    /// A secondary is used, not the primary.
    pub secondary: bool,
    /// Intervals of the requests to each server.
    pub pace: Pace,
}

/// What kind of deployment it is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    Unknown,
    /// The replica set of this name.
    Set(String),
    Sharded,
}

/// The server in use.
#[derive(Debug)]
struct Used {
    end: End,
    address: String,
    election: Option<Election>,
}

/// The monitor of one deployment.
#[derive(Debug)]
pub struct Monitor {
    config: Config,
    limits: Limits,
    servers: BTreeMap<End, Server>,
    /// Number of servers so far.
    found: usize,
    shape: Shape,
    history: History,
    used: Option<Used>,
    /// The one that was used before.
    left: Option<String>,
    /// It was told that there is none.
    told_absent: bool,
    hurry_until: Duration,
    /// Next look-up of records; none while one is under way.
    resolve_at: Option<Duration>,
    /// The last trouble with them, so that it is told once.
    trouble: Option<String>,
    actions: Vec<Action>,
}

impl monitor::Monitor for Monitor {
    type End = End;
    type Told = Told;

    fn step(&mut self, event: Event<'_>, now: Duration) -> Vec<Action> {
        match event {
            Event::Connected(end) => {
                self.servers.entry(end).and_modify(|server| server.line.connected(0, now));
            }
            Event::Received(end, bytes) => self.received(end, bytes, now),
            Event::Lost(end, why) => self.lost(end, why, now),
            Event::Resolved(records) => self.resolved(records, now),
            Event::Time => {}
        }
        self.decide(now);
        self.advance(now);
        std::mem::take(&mut self.actions)
    }

    fn poll_timeout(&self) -> Duration {
        let silence_max = self.config.pace.silence_max;
        let due = self.servers.values().map(|server| server.line.due(silence_max));
        due.chain(self.resolves_at()).min().unwrap_or(Duration::MAX)
    }
}

impl Monitor {
    /// A monitor that is not connected.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let mut monitor = Self {
            limits: Limits { frame_bytes_max: REPLY_BYTES_MAX, ..Limits::default() },
            servers: BTreeMap::new(),
            found: 0,
            shape: config.replica_set.clone().map_or(Shape::Unknown, Shape::Set),
            history: History::default(),
            used: None,
            left: None,
            told_absent: false,
            hurry_until: Duration::ZERO,
            resolve_at: Some(Duration::ZERO),
            trouble: None,
            actions: Vec::new(),
            config,
        };
        monitor.add(&monitor.config.seeds.clone());
        monitor
    }

    /// The server in use.
    #[must_use]
    pub fn used(&self) -> Option<&str> {
        self.used.as_ref().map(|used| used.address.as_str())
    }

    fn add(&mut self, addresses: &[String]) {
        for address in addresses {
            if self.servers.values().any(|server| server.address == *address) {
                continue;
            }
            let server = Server::new(address.clone(), self.config.pace.retry);
            self.servers.insert(self.found, server);
            self.found += 1;
        }
    }

    fn remove(&mut self, is_gone: impl Fn(End, &Server) -> bool) {
        let actions = &mut self.actions;
        self.servers.retain(|end, server| {
            let gone = is_gone(*end, server);
            if gone && server.line.is_used() {
                actions.push(Action::Close(*end));
            }
            !gone
        });
    }

    fn received(&mut self, end: End, bytes: &[u8], now: Duration) {
        let Some(server) = self.servers.get_mut(&end) else { return };
        let all = server.line.input.take_with(bytes);
        let outcome = match frame::decode(all.waiting(), &self.limits) {
            // Questions are asked one at a time.
            Ok(Some((reply, length))) => Response::parse(&reply).map(|reply| (reply, length)),
            Ok(None) => return server.line.input.put_back(all, 0),
            Err(error) => Err(error),
        };
        let heard = outcome.and_then(|(reply, length)| {
            let Some(reply) = reply else { return Ok(None) };
            self.heard(end, &reply, now).map(|()| Some(length))
        });
        match heard {
            Ok(Some(length)) => {
                if let Some(server) = self.servers.get_mut(&end) {
                    server.line.input.put_back(all, length);
                }
            }
            Ok(None) => self.give_up(end, "expected a reply to hello, found another message", now),
            Err(error) => self.give_up(end, &error.to_string(), now),
        }
    }

    fn give_up(&mut self, end: End, why: &str, now: Duration) {
        self.actions.push(Action::Close(end));
        self.lost(end, why, now);
    }

    /// A server has answered.
    fn heard(&mut self, end: End, reply: &Response<'_>, now: Duration) -> wire::Result<()> {
        let Some(server) = self.servers.get_mut(&end) else { return Ok(()) };
        server.line.answered();
        if !reply.ok {
            server.role = None;
            if reply.failure.code == COMMAND_NOT_FOUND && !server.is_old {
                server.is_old = true;
                server.line.ask_at(now);
            } else {
                let why = format!("hello failed: {}", reply.failure.message);
                self.trouble(end, why);
            }
            return Ok(());
        }
        let hello = Hello::read(&reply.body)?;
        let before = server.role;
        (server.role, server.election) = (Some(hello.role), None);
        server.version.clone_from(&hello.version);
        if let Err(why) = self.believe(end, hello) {
            if let Some(server) = self.servers.get_mut(&end) {
                server.role = Some(Role::Other);
            }
            self.trouble(end, why);
        } else if let Some(server) = self.servers.get_mut(&end) {
            server.trouble = None;
        }
        if self.servers.get(&end).is_some_and(|server| server.role != before) {
            self.hurry(now);
        }
        Ok(())
    }

    /// Takes what a server says of itself and of the deployment; an error is why it is not used.
    fn believe(&mut self, end: End, hello: Hello) -> Result<(), String> {
        if self.shape == Shape::Unknown {
            self.shape = match (hello.role, &hello.set_name) {
                (Role::Mongos, _) => Shape::Sharded,
                (_, Some(name)) => Shape::Set(name.clone()),
                _ => Shape::Unknown,
            };
        }
        let found = hello.role.name();
        match &self.shape {
            Shape::Sharded if hello.role == Role::Mongos => Ok(()),
            Shape::Sharded => Err(format!("expected a mongos, found {found}")),
            Shape::Unknown => {
                Err(format!("expected a member of a replica set or a mongos, found {found}"))
            }
            Shape::Set(name) => match &hello.set_name {
                Some(of) if of == name => self.believe_member(end, hello),
                Some(of) => Err(format!(
                    "expected a member of the replica set `{name}`, found one of `{of}`"
                )),
                None => {
                    Err(format!("expected a member of the replica set `{name}`, found {found}"))
                }
            },
        }
    }

    fn believe_member(&mut self, end: End, hello: Hello) -> Result<(), String> {
        if hello.role == Role::Primary {
            if !self.history.admits(&hello) {
                return Err("it says that it is the primary, by an older election or \
                            configuration than another one: it was cut off"
                    .to_owned());
            }
            for (other, server) in &mut self.servers {
                if *other == end {
                    server.election = hello.election;
                } else if server.role == Some(Role::Primary) {
                    server.role = None;
                }
            }
            if !hello.members.is_empty() {
                self.add(&hello.members);
                self.remove(|_, server| !hello.members.contains(&server.address));
            }
            return Ok(());
        }
        if !self.servers.values().any(|server| server.role == Some(Role::Primary)) {
            self.add(&hello.members);
        }
        // It is asked under the name that the set has for it.
        if let Some(me) = hello.me.filter(|me| hello.members.contains(me)) {
            self.remove(|other, server| other == end && server.address != me);
        }
        Ok(())
    }

    fn lost(&mut self, end: End, why: &str, now: Duration) {
        let Some(server) = self.servers.get_mut(&end) else { return };
        server.line.lost(self.config.pace.retry_max, now);
        (server.role, server.version) = (None, None);
        // Each attempt at a server that is down can fail in another way.
        if server.trouble.is_none() {
            self.trouble(end, why.to_owned());
        }
        if self.used.as_ref().is_some_and(|used| used.end == end) {
            self.hurry(now);
        }
    }

    fn trouble(&mut self, end: End, why: String) {
        let Some(server) = self.servers.get_mut(&end) else { return };
        if server.trouble.as_ref() != Some(&why) {
            server.trouble = Some(why.clone());
            let told = Told::Trouble { server: server.address.clone(), why };
            self.actions.push(Action::Tell(told));
        }
    }

    /// Asks all servers now, and more often for a while.
    fn hurry(&mut self, now: Duration) {
        self.hurry_until = now + self.config.pace.hurry_time;
        for server in self.servers.values_mut() {
            server.line.ask_at(now);
        }
    }

    /// What is wanted.
    fn role(&self) -> (Role, String) {
        match &self.shape {
            Shape::Sharded => (Role::Mongos, "the mongos".to_owned()),
            Shape::Set(name) if self.config.secondary => {
                (Role::Secondary, format!("a secondary of the replica set `{name}`"))
            }
            Shape::Set(name) => (Role::Primary, format!("the primary of the replica set `{name}`")),
            Shape::Unknown => (Role::Primary, "a replica set or mongos".to_owned()),
        }
    }

    /// Leaves a server that is no longer the one, and turns to the one that is.
    fn decide(&mut self, now: Duration) {
        let (wanted, role) = self.role();
        let fits =
            |end: &End| self.servers.get(end).is_some_and(|server| server.role == Some(wanted));
        let in_use = self.used.as_ref().map(|used| used.end).filter(fits);
        let found = in_use.or_else(|| self.servers.keys().copied().find(fits));
        if let Some(used) = &self.used {
            let server = self.servers.get(&used.end);
            let stays = match found {
                Some(found) => {
                    found == used.end
                        && server.is_some_and(|server| server.election == used.election)
                }
                None => server.is_some_and(|server| server.role.is_none()),
            };
            if stays {
                return;
            }
            self.leave(found.is_some(), role.clone(), now);
        }
        let found = found.and_then(|end| Some((end, self.servers.get(&end)?)));
        let Some((end, Server { address, election, .. })) = found else {
            return self.tell_absent(role);
        };
        let (address, election) = (address.clone(), *election);
        let before = self.left.take();
        let told = Told::Follows { role, server: address.clone(), before };
        self.actions.extend([Action::Follow(address.clone()), Action::Tell(told)]);
        self.used = Some(Used { end, address, election });
        self.told_absent = false;
    }

    fn leave(&mut self, is_replaced: bool, role: String, now: Duration) {
        let Some(Used { end, address: server, .. }) = self.used.take() else { return };
        self.actions.push(Action::Leave);
        self.left = Some(server.clone());
        if !is_replaced {
            let found = self.servers.get(&end).and_then(|server| server.role);
            let found = found.map_or("no member of the deployment", Role::name);
            let found = format!("it is {found}");
            self.actions.push(Action::Tell(Told::Left { role, server, found }));
            self.told_absent = true;
            self.hurry(now);
        }
    }

    fn tell_absent(&mut self, role: String) {
        // At the start none has had the time to answer.
        let asked =
            !self.servers.is_empty() && self.servers.values().all(|server| server.line.was_tried());
        if asked && !self.told_absent {
            self.told_absent = true;
            let asked = self.servers.values().map(|server| server.address.clone()).collect();
            self.actions.push(Action::Tell(Told::Absent { role, asked }));
        }
    }

    /// Connects, sends requests and closes connections that are due.
    fn advance(&mut self, now: Duration) {
        let Pace { silence_max, poll_interval, hurry_interval, .. } = self.config.pace;
        let hurries = self.used.is_none() || now < self.hurry_until;
        if self.resolves_at().is_some_and(|at| at <= now) {
            self.resolve_at = None;
            let domain = self.config.domain.clone().unwrap_or_default();
            self.actions.push(Action::Resolve(SERVICE, domain));
        }
        let mut silent = Vec::new();
        for (end, server) in &mut self.servers {
            if server.line.due(silence_max) > now {
                continue;
            }
            if server.line.is_silent(silence_max, now) {
                silent.push(*end);
            } else if !server.line.is_used() {
                server.line.begin();
                self.actions.push(Action::Connect(*end, server.address.clone()));
            } else {
                // One that waits for a change is asked again once it has answered.
                let soon = hurries || server.version.is_some();
                let interval = if soon { hurry_interval } else { poll_interval };
                server.line.ask(now + interval, now);
                self.actions.push(Action::Send(*end, server.question()));
            }
        }
        for end in silent {
            self.give_up(end, "no reply", now);
        }
    }
}
