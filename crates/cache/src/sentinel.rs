//! Sentinel: finds the primary of a replicated Redis.
//!
//! The monitor asks every listed Sentinel at an interval, and all of them at once when one
//! publishes `+switch-master`. **A node is the primary if more than half of the listed Sentinels
//! name it and its reply to `ROLE` is `master`.** One Sentinel that is stale, cut off or wrong
//! therefore decides nothing, and a demoted primary is left even if Sentinels still name it. A
//! failover needs a majority of the Sentinels too, so none is missed for lack of one.
//!
//! A primary that is no longer named is left before the next one is checked
//! ([`monitor::Action::Leave`]), so that nothing of it is stored or served afterwards. While
//! Sentinels are silent, the primary stays.

use std::time::Duration;

use wire::resp::{Frame, Kind, Limits, frame, request};

use crate::monitor::{self, Line};

mod config;
mod told;

pub use config::{Config, Login};
pub use told::Told;

/// One end of a connection of the monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The Sentinel at this place of [`Config::sentinels`].
    Sentinel(usize),
    /// The primary, or the node that may become it.
    Node,
}

type Event<'a> = monitor::Event<'a, End>;
type Action = monitor::Action<End, Told>;

/// Connections for the subscription have RESP3: messages then stand between replies.
const CHANNEL: &str = "+switch-master";
/// Longest reply of a Sentinel or of `ROLE`: the latter names all replicas.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// A Sentinel, as far as it is known.
#[derive(Debug)]
struct Peer {
    line: Line,
    /// The primary that it names.
    named: Option<String>,
    /// The last trouble with it, so that it is told once.
    trouble: Option<String>,
}

/// The monitor of one primary.
#[derive(Debug)]
pub struct Monitor {
    config: Config,
    limits: Limits,
    peers: Vec<Peer>,
    /// In use.
    primary: Option<String>,
    /// The primary that was used before.
    left: Option<String>,
    /// The node whose role is checked: the primary, or the node that is named and not in use yet.
    target: Option<String>,
    node: Line,
    /// The last log line about the target.
    told_of_node: Option<Told>,
    /// More than half of the Sentinels answer, as last told.
    quorate: Option<bool>,
    hurry_until: Duration,
    actions: Vec<Action>,
}

impl Monitor {
    /// A monitor that is not connected.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let peer = |_| Peer { line: Line::new(config.pace.retry), named: None, trouble: None };
        Self {
            peers: (0..config.sentinels.len()).map(peer).collect(),
            limits: Limits { reply_bytes_max: REPLY_BYTES_MAX, ..Limits::default() },
            primary: None,
            left: None,
            target: None,
            node: Line::new(config.pace.retry),
            told_of_node: None,
            quorate: None,
            hurry_until: Duration::ZERO,
            actions: Vec::new(),
            config,
        }
    }

    /// The primary in use.
    #[must_use]
    pub fn primary(&self) -> Option<&str> {
        self.primary.as_deref()
    }

    fn connected(&mut self, end: End, now: Duration) {
        let mut out = Vec::new();
        match end {
            End::Sentinel(_) => {
                match &self.config.login {
                    None => request::write_command(&mut out, &["HELLO", "3"]),
                    Some((user, password)) => {
                        let user = user.as_deref().unwrap_or("default");
                        request::write_command(&mut out, &["HELLO", "3", "AUTH", user, password]);
                    }
                }
                request::write_command(&mut out, &["SUBSCRIBE", CHANNEL]);
                // The confirmation of the subscription is a push message.
                self.line(end).connected(1, now);
            }
            End::Node => {
                if let Some((user, password)) = &self.config.node_login {
                    let user = user.as_deref().unwrap_or("default");
                    request::write_command(&mut out, &["AUTH", user, password]);
                }
                let greetings = usize::from(!out.is_empty());
                self.line(end).connected(greetings, now);
            }
        }
        if !out.is_empty() {
            self.actions.push(Action::Send(end, out));
        }
    }

    fn line(&mut self, end: End) -> &mut Line {
        match end {
            End::Sentinel(number) => &mut self.peers[number].line,
            End::Node => &mut self.node,
        }
    }

    fn received(&mut self, end: End, bytes: &[u8], now: Duration) {
        let all = self.line(end).input.take_with(bytes);
        let mut taken = 0;
        loop {
            let rest = all.waiting().get(taken..).unwrap_or_default();
            match frame::decode(rest, &self.limits) {
                Ok(Some((reply, length))) => {
                    taken += length;
                    self.heard(end, &reply, now);
                    if !self.line(end).is_used() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    self.actions.push(Action::Close(end));
                    return self.lost(end, &error.to_string(), now);
                }
            }
        }
        self.line(end).input.put_back(all, taken);
    }

    fn heard(&mut self, end: End, reply: &Frame<'_>, now: Duration) {
        if reply.kind() == Kind::Push {
            if self.is_of_our_primary(reply) {
                self.hurry(now);
            }
            return;
        }
        let greeting = self.line(end).answered();
        match (end, reply.error()) {
            (End::Sentinel(_), Some(error)) if greeting => {
                self.actions.push(Action::Close(end));
                self.lost(end, &String::from_utf8_lossy(error), now);
            }
            (End::Sentinel(number), Some(error)) => {
                let error = String::from_utf8_lossy(error).into_owned();
                self.trouble(number, error);
                self.name(number, None, now);
            }
            (End::Sentinel(_), None) if greeting => {}
            (End::Sentinel(number), None) => match address(reply) {
                Some(named) => {
                    self.peers[number].trouble = None;
                    self.name(number, Some(named), now);
                }
                None => {
                    let why = format!("it knows no primary `{}`", self.config.name);
                    self.trouble(number, why);
                    self.name(number, None, now);
                }
            },
            (End::Node, Some(error)) if greeting => {
                let error = String::from_utf8_lossy(error).into_owned();
                let address = self.target.clone().unwrap_or_default();
                self.tell_of_node(Told::Unverified { address, why: error });
            }
            (End::Node, _) if greeting => {}
            (End::Node, _) => self.role(reply),
        }
    }

    /// Whether a message says that the primary of our name has changed. What it has changed to is
    /// asked of all Sentinels.
    fn is_of_our_primary(&self, message: &Frame<'_>) -> bool {
        let mut elements = message.elements().map(|element| element.payload().unwrap_or_default());
        elements.next() == Some(b"message")
            && elements.next() == Some(CHANNEL.as_bytes())
            && elements.next().and_then(|text| text.split(|&byte| byte == b' ').next())
                == Some(self.config.name.as_bytes())
    }

    /// Asks all Sentinels now, and more often for a while.
    fn hurry(&mut self, now: Duration) {
        self.hurry_until = now + self.config.pace.hurry_time;
        for peer in &mut self.peers {
            peer.line.ask_at(now);
        }
    }

    /// Sentinel `number` names this primary.
    fn name(&mut self, number: usize, named: Option<String>, now: Duration) {
        let peer = &mut self.peers[number];
        let changes = peer.named.is_some() && named.is_some() && peer.named != named;
        peer.named = named;
        if changes {
            self.hurry(now);
        }
    }

    /// The target has answered ROLE.
    fn role(&mut self, reply: &Frame<'_>) {
        let Some(address) = self.target.clone() else { return };
        let error = reply.error().map(|error| String::from_utf8_lossy(error).into_owned());
        let told = |code: &str| error.as_ref().is_some_and(|error| error.starts_with(code));
        let role = reply.elements().next().and_then(|role| role.payload());
        if role == Some(b"master") {
            self.told_of_node = None;
        } else if told("NOAUTH") || told("NOPERM") || told("ERR unknown command") {
            let why = error.unwrap_or_default();
            self.tell_of_node(Told::Unverified { address: address.clone(), why });
        } else {
            let role = || String::from_utf8_lossy(role.unwrap_or(b"nothing known")).into_owned();
            let found = error.unwrap_or_else(role);
            if self.primary.is_some() {
                self.leave();
            }
            return self.tell_of_node(Told::NotPrimary { address, found });
        }
        if self.primary.is_none() {
            let named_by = self.peers.iter().filter(|peer| peer.named.as_ref() == Some(&address));
            let told = Told::Follows {
                name: self.config.name.clone(),
                primary: address.clone(),
                before: self.left.take(),
                named_by: named_by.count(),
                of: self.peers.len(),
            };
            self.primary = Some(address.clone());
            self.actions.extend([Action::Follow(address), Action::Tell(told)]);
        }
    }

    fn tell_of_node(&mut self, told: Told) {
        if self.told_of_node.as_ref() != Some(&told) {
            self.told_of_node = Some(told.clone());
            self.actions.push(Action::Tell(told));
        }
    }

    fn leave(&mut self) {
        self.left = self.primary.take();
        self.actions.push(Action::Leave);
    }

    fn lost(&mut self, end: End, why: &str, now: Duration) {
        let retry_max = self.config.pace.retry_max;
        self.line(end).lost(retry_max, now);
        match end {
            End::Sentinel(number) => {
                self.peers[number].named = None;
                self.trouble(number, why.to_owned());
            }
            End::Node if self.primary.is_none() => {
                let address = self.target.clone().unwrap_or_default();
                self.tell_of_node(Told::NotPrimary { address, found: why.to_owned() });
            }
            // Clients notice it by their own connections.
            End::Node => {}
        }
    }

    fn trouble(&mut self, number: usize, why: String) {
        let peer = &mut self.peers[number];
        if peer.trouble.as_ref() != Some(&why) {
            peer.trouble = Some(why.clone());
            let sentinel = self.config.sentinels[number].clone();
            self.actions.push(Action::Tell(Told::Trouble { sentinel, why }));
        }
    }

    /// The node that more than half of the Sentinels name.
    fn named(&self) -> Option<&String> {
        let names = || self.peers.iter().filter_map(|peer| peer.named.as_ref());
        let is_named_by_most =
            |one: &&String| 2 * names().filter(|other| other == one).count() > self.peers.len();
        names().find(is_named_by_most)
    }

    /// Leaves a primary that is no longer named, and turns to the node that is.
    fn decide(&mut self, now: Duration) {
        let answer = self.peers.iter().filter(|peer| peer.named.is_some()).count();
        let quorate = 2 * answer > self.peers.len();
        // At the start none has had the time to answer.
        let asked = self.quorate.is_some() || self.peers.iter().all(|peer| peer.line.was_tried());
        if self.quorate != Some(quorate) && (quorate || asked) {
            if self.quorate.is_some() || !quorate {
                let (of, primary) = (self.peers.len(), self.primary.clone());
                self.actions.push(Action::Tell(Told::Answering { answer, of, primary }));
            }
            self.quorate = Some(quorate);
        }
        let Some(named) = self.named().cloned() else { return };
        if self.primary.as_ref().is_some_and(|primary| *primary != named) {
            self.leave();
        }
        if self.target.as_ref() != Some(&named) {
            if self.node.is_used() {
                self.actions.push(Action::Close(End::Node));
            }
            self.node = Line::new(self.config.pace.retry);
            self.node.ask_at(now);
            (self.target, self.told_of_node) = (Some(named), None);
        }
    }

    /// Makes connections, sends requests and closes silent connections that are due.
    fn advance(&mut self, now: Duration) {
        let ends = (0..self.peers.len()).map(End::Sentinel);
        for end in ends.chain(self.target.is_some().then_some(End::Node)) {
            let silence_max = self.config.pace.silence_max;
            if self.line(end).due(silence_max) > now {
                continue;
            }
            if self.line(end).is_silent(silence_max, now) {
                self.actions.push(Action::Close(end));
                self.lost(end, "no reply", now);
            } else if !self.line(end).is_used() {
                self.line(end).begin();
                let address = match end {
                    End::Sentinel(number) => self.config.sentinels[number].clone(),
                    End::Node => self.target.clone().unwrap_or_default(),
                };
                self.actions.push(Action::Connect(end, address));
            } else {
                let next = now + self.interval(end, now);
                self.line(end).ask(next, now);
                let mut out = Vec::new();
                match end {
                    End::Sentinel(_) => {
                        let name = &self.config.name;
                        let words = ["SENTINEL", "get-master-addr-by-name", name];
                        request::write_command(&mut out, &words);
                    }
                    End::Node => request::write_command(&mut out, &["ROLE"]),
                }
                self.actions.push(Action::Send(end, out));
            }
        }
    }

    fn interval(&self, end: End, now: Duration) -> Duration {
        let waits = end == End::Node && self.primary.is_none();
        if waits || now < self.hurry_until {
            self.config.pace.hurry_interval
        } else {
            self.config.pace.poll_interval
        }
    }
}

impl monitor::Monitor for Monitor {
    type End = End;
    type Told = Told;

    fn step(&mut self, event: Event<'_>, now: Duration) -> Vec<Action> {
        match event {
            Event::Connected(end) => self.connected(end, now),
            Event::Received(end, bytes) => self.received(end, bytes, now),
            Event::Lost(end, why) => self.lost(end, why, now),
            Event::Time | Event::Resolved(_) => {}
        }
        self.decide(now);
        self.advance(now);
        std::mem::take(&mut self.actions)
    }

    fn poll_timeout(&self) -> Duration {
        let node = self.target.is_some().then_some(&self.node);
        let lines = self.peers.iter().map(|peer| &peer.line).chain(node);
        let due = lines.map(|line| line.due(self.config.pace.silence_max)).min();
        due.unwrap_or(Duration::MAX)
    }
}

/// `host:port` of a reply to get-master-addr-by-name; none of null.
fn address(reply: &Frame<'_>) -> Option<String> {
    let text = |element: Frame<'_>| Some(std::str::from_utf8(element.payload()?).ok()?.to_owned());
    let mut elements = reply.elements();
    let (host, port) = (text(elements.next()?)?, text(elements.next()?)?);
    port.parse::<u16>().ok()?;
    Some(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

#[cfg(test)]
mod tests;
