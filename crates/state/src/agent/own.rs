//! Connections of clients' own: for WATCH, commands that block, and subscriptions.
//!
//! A client gets such a connection to a node when it first needs one, keeps it, and closes it by
//! leaving. What is asked over it waits for all earlier requests of the client, and its later
//! requests wait until it is answered; everything else of the client uses the shared connections.
//!
//! **WATCH.** The node of the slot watches the keys on the client's connection, and EXEC is sent
//! over it. Between the two the client reads from nodes, never from copies: a copy may be older
//! than the watch. If the slot moves or the connection ends before EXEC, the transaction is not
//! executed, and the reply is that for a watched key that has changed.
//!
//! **Blocking.** Where a slot moves or fails over, its node ends the commands that block on it with
//! a redirection, which is followed: the command blocks anew at the other node.

use std::time::Duration;

use wire::resp::{Request, response};

use super::{
    Agent,
    client::Client,
    copies::Held,
    flight::{Asked, Asker, Link, Purpose},
    route::CROSS_SLOT,
};
use crate::slot::Slot;

/// Maximum number of connections of all clients' own.
pub const OWN_CONNECTIONS_MAX: usize = 1_024;
/// Bytes that are read from a client while it is blocked; its leaving is noticed until then.
pub(super) const BLOCKED_INPUT_BYTES_MAX: usize = 16 << 10;

const UNWATCH: &[u8] = b"*1\r\n$7\r\nUNWATCH\r\n";

/// Why a request uses a connection of its client's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    /// It may wait for other clients.
    Block,
    Watch,
    /// It ends a transaction with watched keys, and is never sent again.
    Exec,
}

/// The client of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) client: usize,
    pub(super) id: u64,
}

/// Watched keys.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watch {
    pub(super) slot: Slot,
    /// The connection on which they are watched; none if it was lost, or another one watches some
    /// of them.
    link: Option<usize>,
}

impl Agent {
    /// Connections that are not needed any more; the caller closes them.
    pub fn take_closed(&mut self) -> Vec<usize> {
        let closed = std::mem::take(&mut self.closed);
        closed.iter().for_each(|&link| drop(self.links.try_remove(link)));
        closed
    }

    /// Clients that the caller must close.
    pub fn take_dropped(&mut self) -> Vec<usize> {
        let dropped = std::mem::take(&mut self.dropped);
        let is_there = |owner: &Owner| self.client_of(*owner).is_some();
        dropped.iter().filter(|owner| is_there(owner)).map(|owner| owner.client).collect()
    }

    pub(super) fn client_of(&self, owner: Owner) -> Option<&Client> {
        self.clients.get(owner.client).filter(|client| client.id == owner.id)
    }

    /// Has the client closed: what it waits for does not come any more.
    pub(super) fn drop_client(&mut self, owner: Owner) {
        self.dropped.push(owner);
    }

    /// Sends a command that may block over a connection of the client's own.
    pub(super) fn block(
        &mut self,
        at: usize,
        slot: Slot,
        write: bool,
        request: &Request<'_>,
        now: Duration,
    ) {
        self.ask_own(at, slot, write, Own::Block, request, now);
        if let Some(client) = self.clients.get_mut(at) {
            client.blocked = !client.is_answered();
        }
    }

    /// Has the node of `slot` watch keys for a client.
    pub(super) fn watch(&mut self, at: usize, slot: Slot, request: &Request<'_>, now: Duration) {
        let Some(client) = self.clients.get_mut(at) else { return };
        if client.transaction.is_some() {
            return client.tell(b"-ERR WATCH inside MULTI is not allowed\r\n");
        }
        if client.watch.is_some_and(|watch| watch.slot != slot) {
            return client.refuse(CROSS_SLOT);
        }
        self.ask_own(at, slot, false, Own::Watch, request, now);
    }

    fn ask_own(
        &mut self,
        at: usize,
        slot: Slot,
        write: bool,
        own: Own,
        request: &Request<'_>,
        now: Duration,
    ) {
        let Some(client) = self.clients.get_mut(at) else { return };
        let (number, id, version) = (client.expect(), client.id, client.version);
        client.alone = true;
        self.monitor.asked(slot, request.argument(1), write, request.bytes().len());
        let (client, holds, answers, since, redirects, part) = (at, None, 1, now, 0, None);
        let (slot, own) = (Some(slot), Some(own));
        let asked =
            Asked { client, id, number, slot, write, holds, answers, since, redirects, part, own };
        self.dispatch(asked, version, request.bytes(), now);
    }

    /// Sends a request over the connection of its client's own to a node.
    pub(super) fn send_own(
        &mut self,
        node: usize,
        asked: Asked,
        version: wire::resp::Version,
        ahead: &[u8],
        request: &[u8],
        now: Duration,
    ) {
        let owner = Owner { client: asked.client, id: asked.id };
        let Some(link) = self.own_link(owner, node, Purpose::Requests(version)) else {
            return self.tell_error(&asked, &too_many(), now);
        };
        self.say_own(link, Asker::Client(asked), ahead, request);
    }

    pub(super) fn say_own(&mut self, at: usize, asker: Asker, ahead: &[u8], request: &[u8]) {
        let answers = match &asker {
            Asker::Client(asked) => asked.answers,
            Asker::Subscribe(subscribing) => subscribing.names,
            Asker::Ignored(answers) => *answers,
            _ => 1,
        };
        let Some(link) = self.links.get_mut(at) else { return };
        link.say(asker, ahead, request, answers);
        self.links_spoken.push(at);
        self.count_link(at);
    }

    /// The connection of a client's own to a node; none if there are too many, or the client has
    /// left.
    pub(super) fn own_link(
        &mut self,
        owner: Owner,
        node: usize,
        purpose: Purpose,
    ) -> Option<usize> {
        let links = &self.links;
        let serves = |link: &usize| {
            links.get(*link).is_some_and(|link| link.node == node && link.purpose == purpose)
        };
        if let Some(link) = self.client_of(owner)?.own.iter().copied().find(serves) {
            return Some(link);
        }
        if self.own >= OWN_CONNECTIONS_MAX {
            self.close_idle()?;
        }
        let address = self.map.address(node)?;
        let mut link = Link::new(node, purpose, address, self.login.as_ref(), &self.limits);
        link.owner = Some(owner);
        let link = self.links.insert(link);
        self.own += 1;
        self.wishes.push(link);
        self.clients.get_mut(owner.client)?.own.push(link);
        Some(link)
    }

    /// Closes a connection of a client's own that is not in use.
    fn close_idle(&mut self) -> Option<()> {
        let is_idle = |(at, link): &(usize, &Link)| {
            let client = link.owner.and_then(|owner| self.client_of(owner));
            let watches = client.and_then(|client| client.watch).and_then(|watch| watch.link);
            let is_of_requests = matches!(link.purpose, Purpose::Requests(_));
            client.is_some() && is_of_requests && link.flights.is_empty() && watches != Some(*at)
        };
        let idle = self.links.iter().find(is_idle).map(|(at, _)| at)?;
        self.close_own(idle);
        Some(())
    }

    /// Closes a connection of a client's own.
    pub(super) fn close_own(&mut self, at: usize) {
        let Some(link) = self.links.get_mut(at) else { return };
        let Some(owner) = link.owner.take() else { return };
        // Its place is not used again before the socket is closed.
        link.closed = true;
        self.held -= std::mem::take(&mut link.counted);
        for flight in link.flights.drain(..) {
            if let Asker::Client(Asked { holds: Some(held), .. }) = flight.asker {
                self.copies.write_ends(held);
            }
        }
        self.own -= 1;
        self.closed.push(at);
        if let Some(client) = self.clients.get_mut(owner.client).filter(|it| it.id == owner.id) {
            client.own.retain(|&own| own != at);
        }
    }

    /// Notes that a connection of a client's own was lost.
    pub(super) fn lost_own(&mut self, at: usize, owner: Owner) {
        self.own -= 1;
        let client = self.clients.get_mut(owner.client).filter(|client| client.id == owner.id);
        let Some(client) = client else { return };
        client.own.retain(|&own| own != at);
        if let Some(watch) = &mut client.watch
            && watch.link == Some(at)
        {
            watch.link = None;
        }
        if client.heard.as_ref().is_some_and(|heard| heard.uses(at)) {
            self.drop_client(owner);
        }
    }

    /// Handles the answer to a request over connection `at` of its client's own.
    pub(super) fn answered_own(&mut self, at: usize, asked: &Asked, answer: &[u8]) {
        let is_error = answer.starts_with(b"-");
        match (asked.own, asked.slot) {
            (Some(Own::Watch), Some(slot)) if !is_error => {
                let Some(client) = self.asker(asked) else { return };
                let other = client.watch.is_some_and(|watch| watch.link != Some(at));
                client.watch = Some(Watch { slot, link: (!other).then_some(at) });
            }
            // Copies of the slot, and reads that are under way, are older than the write.
            (Some(Own::Block), Some(slot)) if asked.write && !is_error => {
                self.copies.write_begins(Held::Slot(slot));
                self.copies.write_ends(Held::Slot(slot));
            }
            _ => {}
        }
    }

    /// Ends a transaction with watched keys, queued as `request`.
    pub(super) fn execute_watched(
        &mut self,
        watch: Watch,
        mut asked: Asked,
        request: &[u8],
        now: Duration,
    ) {
        let Some(link) = watch.link else { return self.tell_changed(&asked, now) };
        asked.own = Some(Own::Exec);
        if asked.write {
            asked.holds = Some(Held::Slot(watch.slot));
            self.copies.write_begins(Held::Slot(watch.slot));
        }
        self.say_own(link, Asker::Client(asked), b"", request);
    }

    /// Answers an EXEC that was not executed, as if a watched key had changed.
    pub(super) fn tell_changed(&mut self, asked: &Asked, now: Duration) {
        let Some(version) = self.asker(asked).map(|client| client.version) else { return };
        let mut answer = Vec::new();
        response::write_null_array(&mut answer, version);
        self.tell(asked, &answer, now);
    }

    /// Watches nothing for a client any more.
    pub(super) fn unwatch(&mut self, at: usize) {
        let watch = self.clients.get_mut(at).and_then(|client| client.watch.take());
        if let Some(link) = watch.and_then(|watch| watch.link) {
            self.say_own(link, Asker::Ignored(1), b"", UNWATCH);
        }
    }

    /// Closes the connections of a client's own, and forgets what they were for.
    pub(super) fn leave_own(&mut self, at: usize) {
        let Some(client) = self.clients.get_mut(at) else { return };
        (client.watch, client.heard) = (None, None);
        client.own.clone().into_iter().for_each(|link| self.close_own(link));
    }

    /// Drops the clients that are blocked or subscribed and may not be any more, after users have
    /// changed.
    pub(super) fn recheck_users(&mut self) {
        let generation = self.rights.users().generation();
        if std::mem::replace(&mut self.users_seen, generation) == generation {
            return;
        }
        for (at, client) in &mut self.clients {
            if !client.own.is_empty() && !self.rights.still_permits(client) {
                self.dropped.push(Owner { client: at, id: client.id });
            }
        }
    }
}

pub(super) fn too_many() -> String {
    format!(
        "ERR the clients of this agent have {OWN_CONNECTIONS_MAX} connections of their own to nodes, the most there \
         may be (for WATCH, blocking commands and subscriptions); try again later, or connect to a node"
    )
}
