//! The state of a connection: as confirmed by the origin, and requests that must wait for the
//! confirmation.

use std::sync::Arc;

use smallvec::SmallVec;
use wire::resp::{
    Command, Request as Message, Version,
    command::{Effect, Flags},
};

use super::{
    Resp, Settings, Tag,
    client::{hush, with_reply},
    settings::namespace,
};
use crate::{
    filter::{Flow, Reply, Request},
    key::Namespace,
    principal::Standing,
};

/// Maximum number of databases that a write after unanswered SELECTs is assumed to touch; more
/// count as everything.
const DATABASES_MAX: usize = 4;

impl Resp {
    /// Whether the origin has no state of this connection that a new connection would lack.
    pub(super) fn has_no_state(&self) -> bool {
        self.database == 0
            && self.user.is_none()
            && self.unsettled == 0
            && !(self.lost_track
                || self.may_queue()
                || self.watched
                || self.tracked
                || self.subscribed
                || self.replica_reads)
    }

    /// The filter of a connection that has chosen `database` and `version`.
    pub(crate) fn in_state(settings: &Arc<Settings>, database: u32, version: Version) -> Self {
        let namespace = namespace(settings, database);
        Self { namespace, database, version, ..Self::new(Arc::clone(settings)) }
    }

    pub(super) fn may_be_redirection(&self, reply: &[u8]) -> bool {
        reply.first() == Some(&b'-') && !self.settings.addresses.is_empty()
    }

    /// Whether the origin may queue the next command. Only the reply to a command that ends a
    /// transaction excludes that, because a user may lack the right to DISCARD.
    pub(super) fn may_queue(&self) -> bool {
        self.in_transaction || self.queues || self.endings > 0
    }

    /// Whether no outstanding request decides if the origin queues the next command, or changes the
    /// user.
    pub(super) fn is_settled(&self) -> bool {
        self.unsettled == 0 && self.beginnings == 0 && self.endings == 0
    }

    /// The databases to which a write sent now can apply, the confirmed one first: each outstanding
    /// SELECT is executed or refused. Empty if unknown.
    #[inline]
    pub(super) fn databases(&self) -> SmallVec<[Namespace; 1]> {
        let mut databases = SmallVec::new();
        if !self.lost_track {
            databases.push(self.namespace);
            if !self.selecting.is_empty() {
                self.add_selected(&mut databases);
            }
        }
        databases
    }

    #[cold]
    fn add_selected(&self, databases: &mut SmallVec<[Namespace; 1]>) {
        for selected in &self.selecting {
            let Some(selected) = selected.filter(|_| databases.len() < DATABASES_MAX) else {
                return databases.clear();
            };
            if !databases.contains(&selected) {
                databases.push(selected);
            }
        }
    }

    /// A request that changes the connection's state is about to be sent.
    pub(super) fn unsettle(&mut self, tag: &Tag) {
        self.unsettled += 1;
        match tag {
            Tag::Select(database) => {
                let selected = database.map(|database| namespace(&self.settings, database));
                self.selecting.push_back(selected);
            }
            // Refused, it leaves the connection in a state that is not known.
            Tag::Reset => self.selecting.push_back(None),
            _ => {}
        }
    }

    /// The origin agreed to a change of the connection's state.
    pub(super) fn follow(&mut self, tag: &Tag) {
        match tag {
            Tag::Select(Some(database)) => {
                self.database = *database;
                self.settings.databases.choose(*database);
                self.namespace = namespace(&self.settings, *database);
            }
            Tag::Select(None) => self.lost_track = true,
            Tag::Identify { version, user, .. } => {
                self.version = version.unwrap_or(self.version);
                if user.is_some() {
                    self.user.clone_from(user);
                    (self.blind, self.rights) = (false, None);
                }
            }
            Tag::Reset => {
                // The rest of the state was reset when the command was sent; later changes stay.
                self.database = 0;
                self.namespace = namespace(&self.settings, 0);
                self.user = None;
                (self.blind, self.rights) = (false, None);
                self.version = Version::Resp2;
            }
            Tag::Plain
            | Tag::Restore
            | Tag::Blocking
            | Tag::Topology(_)
            | Tag::Many
            | Tag::Multi
            | Tag::Exec
            | Tag::Discard
            | Tag::Subscribe(_)
            | Tag::Script { .. }
            | Tag::Proof
            | Tag::Unknown
            | Tag::Check(_)
            | Tag::Probe => {}
        }
    }

    /// Begins another command; returns whether it follows ASKING.
    pub(super) fn proceed(&mut self) -> bool {
        self.between = self.may_queue() || self.lost_track || self.asking || self.caching;
        self.caching = false;
        std::mem::take(&mut self.asking)
    }

    /// Whether a script must wait until it is known if the origin queues it. The request that
    /// proves whether the script was refused would become part of a transaction.
    pub(super) fn must_wait(&self, command: Option<&Command>, standing: &Standing) -> bool {
        let writes = |command: &Command| {
            command.flags.contains(Flags::SCRIPT) && command.effect == Effect::Write
        };
        command.is_some_and(writes) && !standing.is_unrestricted() && !self.is_settled()
    }

    /// Marks a script as doubted if the connection may lack the right to run it. Connections with
    /// all rights are not checked.
    pub(super) fn doubt(&self, command: &Command, tag: &mut Tag, standing: &Standing) {
        if let Tag::Script { doubted } = tag {
            let doubts = !standing.is_unrestricted() && !self.may_queue();
            *doubted = doubts.then_some(command.name);
        }
    }

    /// Holds back a request that only a logged-in connection may send: one that can write, or that
    /// changes how later requests are interpreted. Returns `None` if the request may be sent.
    #[cold]
    pub(super) fn held<'m>(
        &self,
        command: Option<&Command>,
        message: &Message<'_>,
        arguments: usize,
    ) -> Option<Request<'m, Tag>> {
        // A transaction was begun by the current user, and a check would become part of it.
        if self.may_queue() && self.unsettled == 0 {
            return None;
        }
        let Some(command) = command else {
            return Some(Request::new(Flow::NeedsLogin, Tag::Unknown));
        };
        let passes = match command.effect {
            Effect::Read | Effect::ReadMany(_) | Effect::ReadUncacheable => true,
            Effect::Connection => !matches!(
                command.name,
                "client|reply" | "client|tracking" | "client|caching" | "asking" | "readonly"
            ),
            Effect::Other => command.name != "config|set",
            _ => false,
        };
        if passes || !command.accepts(arguments) {
            return None;
        }
        let reply = match hush(command, message) {
            Some(hush) => Reply::Hush(hush),
            None if command.effect == Effect::PubSub => Reply::Stream,
            None => Reply::Plain,
        };
        Some(with_reply(Flow::NeedsLogin, Tag::Plain, reply))
    }
}
