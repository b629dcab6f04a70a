//! Handling of replies of nodes: forward to the client, follow a redirection, or retry.

use std::time::Duration;

use wire::resp::{Frame, Version, frame, response};

use super::{
    Agent, RETRY_FOR,
    client::Client,
    copies::{Fill, in_version},
    flight::{ASKING, Asked, Asker, Flight, Purpose},
    map::Redirect,
    nodes::unexpected,
    own::Own,
};

/// Maximum number of characters of a node's error that are logged.
const ERROR_CHARS_MAX: usize = 200;

/// Number of redirections followed at once; each further one waits for [`PAUSE`], because the nodes
/// do not agree yet.
const REDIRECTS_AT_ONCE: u32 = 4;
/// Pause before a request that cannot be executed yet is sent again.
const PAUSE: Duration = Duration::from_millis(5);

/// Maximum time for which a request waits for the map.
const MAP_LIMIT: Duration = Duration::from_secs(1);

impl Agent {
    /// Handles one complete answer.
    pub(super) fn answer(&mut self, at: usize, answer: &[u8], now: Duration) -> wire::Result<()> {
        let Some(link) = self.links.get_mut(at) else { return Ok(()) };
        if !link.greetings.is_empty() {
            link.greeted();
            return if answer.starts_with(b"-") {
                if link.purpose == Purpose::Copies {
                    self.copies.refuse();
                }
                Err(unexpected(
                    "a node that accepts the username and password and supports RESP3",
                    String::from_utf8_lossy(answer).trim_end().to_owned(),
                ))
            } else {
                Ok(())
            };
        }
        if link.purpose == Purpose::Messages {
            self.refused_subscription(at, answer, now);
            return Ok(());
        }
        let Some(flight) = link.flights.front_mut() else {
            return Err(unexpected(
                "no answer without a request",
                String::from_utf8_lossy(answer).chars().take(64).collect(),
            ));
        };
        flight.due -= 1;
        if flight.due > 0 {
            if answer.starts_with(b"-") && flight.refusal.is_none() {
                flight.refusal = Some(answer.to_vec());
            }
            return Ok(());
        }
        if flight.bytes > link.output.written() {
            return Err(unexpected("no answer before all of its request", "one".into()));
        }
        let Some(flight) = link.flights.pop_front() else { return Ok(()) };
        match flight.asker {
            Asker::Client(_) | Asker::Copied(..) => self.answer_client(at, flight, answer, now),
            Asker::Slots => {
                let address = link.address;
                link.output.forget(flight.bytes);
                self.slots_asked = None;
                if !self.map.learn(answer, address) {
                    self.slotless = Some((address, why_slotless(answer)));
                    self.any += 1;
                    self.hurry_slots(now);
                }
                // Requests redirected to an unknown node are sent now, in their order.
                let delayed = std::mem::take(&mut self.delayed).into_iter();
                self.delayed = delayed.map(|((_, number), asked)| ((now, number), asked)).collect();
                let links = &self.links;
                self.map.forget(|node| links.iter().any(|(_, link)| link.node == node));
            }
            Asker::Ignored(_) | Asker::Subscribe(_) => link.output.forget(flight.bytes),
            Asker::Ping(since) => {
                link.output.forget(flight.bytes);
                self.monitor.round_trip(link.address, now.saturating_sub(since));
            }
            Asker::Proof(since) => {
                link.output.forget(flight.bytes);
                self.copies.proven(at, answer, since);
            }
            Asker::Expiry(fill, request, since) => {
                link.output.forget(flight.bytes);
                self.expiry(fill, &request, answer, since);
            }
        }
        Ok(())
    }

    /// Handles the answer to a client's request: forwards it, stores it as a copy, or follows its
    /// redirection.
    fn answer_client(&mut self, at: usize, flight: Flight, answer: &[u8], now: Duration) {
        let Some(link) = self.links.get_mut(at) else { return };
        let (node, purpose) = (link.address, link.purpose);
        let (asked, version, fill) = match flight.asker {
            Asker::Copied(asked, version, fill) => (asked, version, fill),
            Asker::Client(asked) => (asked, purpose.version(), None),
            _ => return,
        };
        let refusal = flight.refusal.filter(|_| answer.starts_with(b"-EXECABORT"));
        let said = refusal.as_deref().unwrap_or(answer);
        let kept = link.output.kept().get(flight.ahead..flight.bytes).unwrap_or_default();
        let is_error = said.first() == Some(&b'-');
        if let Some(redirect) = is_error.then(|| Redirect::read(said, node)).flatten() {
            let request = kept.to_vec();
            link.output.forget(flight.bytes);
            return match asked.own {
                Some(Own::Exec) => self.tell_changed(&asked, now),
                _ => self.redirected(asked, version, request, redirect, said, now),
            };
        }
        if let Some(fill) = fill {
            self.copies.fill(fill, kept, answer);
        } else if let Some(slot) = asked.slot.filter(|_| asked.write && purpose == Purpose::Copies)
        {
            self.copies.changed(slot);
        }
        link.output.forget(flight.bytes);
        self.answered_own(at, &asked, answer);
        let answer = match purpose {
            Purpose::Copies => in_version(answer, version),
            Purpose::Requests(_) | Purpose::Messages => answer,
        };
        // The error of the failed command is more specific than that of EXEC.
        let aborted = refusal.map(|refusal| aborted(&refusal));
        self.tell(&asked, aborted.as_deref().unwrap_or(answer), now);
    }

    fn expiry(&mut self, fill: Fill, request: &[u8], answer: &[u8], since: Duration) {
        let answer = frame::decode(answer, &self.limits).ok().flatten();
        let left = answer.and_then(|(answer, _): (Frame<'_>, _)| answer.integer());
        if let Some(left) = left {
            self.copies.expires(fill, request, left, since);
        }
    }

    fn redirected(
        &mut self,
        mut asked: Asked,
        version: Version,
        request: Vec<u8>,
        redirect: Redirect,
        answer: &[u8],
        now: Duration,
    ) {
        if asked.own == Some(Own::Block) && asked.redirects == 0 {
            // It may have been blocked for longer than requests are retried.
            asked.since = now;
        }
        asked.redirects += 1;
        let mut at_once = asked.redirects <= REDIRECTS_AT_ONCE;
        if let Some(client) = self.asker(&asked) {
            client.alone = true;
            // A delayed request must not be overtaken by later ones.
            at_once &= client.delayed == 0;
        }
        let node = match redirect {
            Redirect::Moved(slot, address) => {
                // Reported by a node for a command that is not in the table.
                let slot = *asked.slot.get_or_insert(slot);
                let node = self.map.member(address);
                if let Some(node) = node {
                    self.map.set(slot, node);
                }
                node.map(|node| (node, false))
            }
            Redirect::Ask(address) => self.map.member(address).map(|node| (node, true)),
            Redirect::TryAgain | Redirect::Down | Redirect::Elsewhere => None,
        };
        let is_told_where = !matches!(redirect, Redirect::TryAgain | Redirect::Down);
        if is_told_where && (node.is_none() || matches!(redirect, Redirect::Moved(..))) {
            self.hurry_slots(now);
        }
        match node {
            Some((node, asking)) if at_once => {
                let ahead = if asking { ASKING } else { b"" };
                self.send(node, asked, version, ahead, &request, now);
            }
            _ => {
                let answer = match redirect {
                    Redirect::Down => answer.to_vec(),
                    _ => unserved(&asked, redirect),
                };
                // An unknown node will be known when the map arrives: nothing is sent before that.
                let pause = if is_told_where && node.is_none() { MAP_LIMIT } else { PAUSE };
                self.delay(asked, version, request, pause, &answer, now);
            }
        }
    }

    /// Retries a request later, or sends `answer` to its client after the retry limit.
    pub(super) fn delay(
        &mut self,
        asked: Asked,
        version: Version,
        request: Vec<u8>,
        pause: Duration,
        answer: &[u8],
        now: Duration,
    ) {
        if now > asked.since + RETRY_FOR {
            return self.tell(&asked, answer, now);
        }
        let mut until = now + pause;
        if let Some(client) = self.asker(&asked) {
            until = until.max(client.delayed_until);
            (client.alone, client.delayed_until) = (true, until);
            client.delayed += 1;
        }
        self.delayed_ever += 1;
        self.held += request.len();
        self.delayed.insert((until, self.delayed_ever), (asked, version, request));
    }

    /// The client, unless it has disconnected.
    pub(super) fn asker(&mut self, asked: &Asked) -> Option<&mut Client> {
        self.clients.get_mut(asked.client).filter(|client| client.id == asked.id)
    }

    pub(super) fn tell_error(&mut self, asked: &Asked, text: &str, now: Duration) {
        let mut answer = Vec::new();
        response::write_error(&mut answer, text.as_bytes());
        self.tell(asked, &answer, now);
    }

    pub(super) fn tell(&mut self, asked: &Asked, answer: &[u8], now: Duration) {
        if let Some(slot) = asked.slot {
            self.monitor.answered(slot, answer.len());
        }
        if let Some(held) = asked.holds {
            self.copies.write_ends(held);
        }
        let whole = asked.part.map(|part| self.gathered(asked, part, answer, now));
        let answer = match &whole {
            None => answer,
            Some(Some(reply)) => reply,
            Some(None) => return self.count(asked.client),
        };
        let Some(client) = self.asker(asked) else { return };
        client.answer(asked.number, answer);
        let waits = asked.own == Some(Own::Block);
        client.blocked &= !waits;
        let is_counted = !client.reports && !waits;
        if is_counted {
            self.stats.nodes.record(now.saturating_sub(asked.since), 1);
        }
        self.spoken_to.push(asked.client);
        self.go_on(asked.client, now);
    }

    /// Executes what a client has sent before it got an answer.
    pub(super) fn go_on(&mut self, client: usize, now: Duration) {
        // The client gets the error and is then closed by the writer.
        let _ = self.proceed(client, now);
        self.count(client);
    }
}

/// Error for a client whose request was redirected without success until the retry limit. Its first
/// word is that of Redis for a slot that no node serves, which clients do not follow.
fn unserved(asked: &Asked, redirect: Redirect) -> Vec<u8> {
    let slot =
        asked.slot.map_or_else(|| "of the command".to_owned(), |slot| slot.number().to_string());
    let why = match redirect {
        Redirect::Moved(_, to) => {
            format!("has no owner: nodes redirected the command, the last one to {to}")
        }
        Redirect::Ask(to) => {
            format!("is moving: keys that have left its owner were not found at {to}")
        }
        Redirect::TryAgain => "is moving: keys of the command are at two nodes".to_owned(),
        Redirect::Down => "is not served".to_owned(),
        Redirect::Elsewhere => {
            "was redirected to a node without an IP address (cluster-preferred-endpoint-type)"
                .to_owned()
        }
    };
    let mut answer = Vec::new();
    let text = format!(
        "CLUSTERDOWN Hash slot {slot} {why}; tried for {RETRY_FOR:?}, not executed: run `enroute state doctor`"
    );
    response::write_error(&mut answer, text.as_bytes());
    answer
}

/// EXECABORT with the reason in it.
fn aborted(refusal: &[u8]) -> Vec<u8> {
    let reason = frame::decode(refusal, &wire::resp::Limits::default()).ok().flatten();
    let reason = reason.and_then(|(reason, _): (Frame<'_>, _)| reason.error()).unwrap_or_default();
    let mut answer = Vec::new();
    let text = [b"EXECABORT Transaction discarded because of: ", reason].concat();
    response::write_error(&mut answer, &text);
    answer
}

/// Why an answer to CLUSTER NODES names no slot: the error of the node, if it is one.
fn why_slotless(answer: &[u8]) -> String {
    let Some(error) = answer.strip_prefix(b"-") else {
        return "it knows no slots: create the cluster first (redis-cli --cluster create)"
            .to_owned();
    };
    String::from_utf8_lossy(error).trim_end().chars().take(ERROR_CHARS_MAX).collect()
}
