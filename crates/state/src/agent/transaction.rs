//! Transactions. Between MULTI and EXEC they are kept here; EXEC sends them in one piece.

use std::time::Duration;

use wire::resp::Request;

use super::{Agent, client::Client, flight::Asked, route::CROSS_SLOT};
use crate::slot::Slot;

/// A transaction between MULTI and EXEC.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    pub(super) commands: Vec<u8>,
    count: u32,
    slot: Option<Slot>,
    write: bool,
    /// A command was refused, so EXEC will be refused.
    pub(super) failed: bool,
    /// Number of changes to users before MULTI.
    users: u64,
}

impl Client {
    pub(super) fn begin_transaction(&mut self, users: u64) {
        if self.transaction.is_some() {
            return self.refuse("ERR MULTI calls can not be nested");
        }
        self.transaction = Some(Transaction { users, ..Transaction::default() });
        self.tell(b"+OK\r\n");
    }

    pub(super) fn discard_transaction(&mut self) {
        match self.transaction.take() {
            Some(_) => self.tell(b"+OK\r\n"),
            None => self.refuse("ERR DISCARD without MULTI"),
        }
    }

    pub(super) fn queue(
        &mut self,
        request: &Request<'_>,
        slot: Option<Slot>,
        write: bool,
        bytes_max: usize,
    ) {
        let Some(transaction) = &mut self.transaction else { return };
        let present = transaction.slot.or(self.watch.map(|watch| watch.slot));
        if present.is_some() && slot.is_some() && present != slot {
            return self.refuse(CROSS_SLOT);
        }
        if transaction.commands.len() + request.bytes().len() > bytes_max {
            return self.refuse(&format!("ERR a transaction of more than {bytes_max} bytes"));
        }
        transaction.slot = transaction.slot.or(slot);
        transaction.write |= write;
        transaction.count += 1;
        transaction.commands.extend_from_slice(request.bytes());
        self.tell(b"+QUEUED\r\n");
    }
}

impl Agent {
    pub(super) fn discard(&mut self, at: usize) {
        let Some(client) = self.clients.get_mut(at) else { return };
        let is_begun = client.transaction.is_some();
        client.discard_transaction();
        if is_begun {
            self.unwatch(at);
        }
    }

    pub(super) fn execute_transaction(&mut self, at: usize, now: Duration) {
        let users = self.rights.users().generation();
        let Some(client) = self.clients.get_mut(at) else { return };
        let Some(transaction) = client.transaction.take() else {
            return client.refuse("ERR EXEC without MULTI");
        };
        let refused = match &transaction {
            _ if transaction.users != users => {
                Some("EXECABORT the users have changed since MULTI; not executed")
            }
            _ if transaction.failed => {
                Some("EXECABORT Transaction discarded because of previous errors.")
            }
            _ => None,
        };
        if let Some(why) = refused {
            client.refuse(why);
            return self.unwatch(at);
        }
        let Transaction { commands, count, slot, write, .. } = transaction;
        let watch = client.watch.take();
        if count == 0 && watch.is_none() {
            return client.tell(b"*0\r\n");
        }
        let slot = slot.or(watch.map(|watch| watch.slot));
        let number = client.expect();
        client.alone = true;
        let (id, version) = (client.id, client.version);
        let request = [MULTI, &commands, EXEC].concat();
        if let Some(slot) = slot {
            self.monitor.asked(slot, None, write, request.len());
        }
        let (client, holds, answers, since, redirects, part) = (at, None, count + 2, now, 0, None);
        let own = None;
        let asked =
            Asked { client, id, number, slot, write, holds, answers, since, redirects, part, own };
        match watch {
            Some(watch) => self.execute_watched(watch, asked, &request, now),
            None => self.dispatch(asked, version, &request, now),
        }
    }
}

const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";
