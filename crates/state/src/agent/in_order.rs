//! Requests over the connection of the copies, where answers are in the order of the changes that
//! the node reports.

use std::time::Duration;

use wire::resp::{Request, Version, request};

use super::{
    Agent,
    flight::{Asked, Asker, CACHING, Purpose},
};
use crate::slot::Slot;

impl Agent {
    /// For a copied slot: answers a read from a copy, or sends it so that its reply is copied, or
    /// sends a write so that its reply is ordered with the copies; returns whether it did. Earlier
    /// requests of the client must be answered first, because they use another connection. A client
    /// that watches keys reads from nodes only.
    pub(super) fn ask_in_order(
        &mut self,
        at: usize,
        slot: Slot,
        write: bool,
        request: &Request<'_>,
        now: Duration,
    ) -> bool {
        let Some(client) = self.clients.get_mut(at) else { return true };
        let is_alone = client.transaction.is_none() && client.watch.is_none();
        if !self.copies.wants(slot) || !is_alone || !client.is_answered() {
            return false;
        }
        let owner = self.map.owner(slot);
        let links = owner.and_then(|owner| self.links_of.get(owner));
        let link = links.and_then(|links| links[Purpose::Copies.place()]);
        if !write
            && let Some(answer) = self.copies.read(slot, link, request.bytes(), client.version, now)
        {
            self.monitor.copied(slot);
            client.tell(answer);
            if client.copied.0 == 0 {
                client.copied.1 = now;
            }
            client.copied.0 += 1;
            return true;
        }
        let (number, id, version) = (client.expect(), client.id, client.version);
        client.alone = true;
        self.monitor.asked(slot, request.argument(1), write, request.bytes().len());
        let (client, holds, answers, since, redirects, part) = (at, None, 1, now, 0, None);
        let (slot, own) = (Some(slot), None);
        let asked =
            Asked { client, id, number, slot, write, holds, answers, since, redirects, part, own };
        self.dispatch_in_order(asked, version, request, now);
        true
    }

    /// Sends a request over the connection of the copies: a write, or a read whose answer is to be
    /// copied, followed by the request for the expiry of its key.
    fn dispatch_in_order(
        &mut self,
        asked: Asked,
        version: Version,
        request: &Request<'_>,
        now: Duration,
    ) {
        let Some((slot, node)) = asked.slot.and_then(|slot| Some((slot, self.map.owner(slot)?)))
        else {
            return self.dispatch(asked, version, request.bytes(), now);
        };
        if asked.write {
            let asker = Asker::Copied(asked, version, None);
            return self.say(node, Purpose::Copies, asker, b"", request.bytes(), 1);
        }
        let link = self.link(node, Purpose::Copies);
        let fill = self.copies.begin(slot, link);
        let asker = Asker::Copied(asked, version, fill);
        self.say(node, Purpose::Copies, asker, CACHING, request.bytes(), 1);
        if let (Some(fill), Some(key)) = (fill, request.argument(1)) {
            let mut question = Vec::new();
            request::write_command(&mut question, &[b"PTTL", key]);
            let asker = Asker::Expiry(fill, request.bytes().to_vec(), now);
            self.say(node, Purpose::Copies, asker, b"", &question, 1);
        }
    }
}
