//! Connections to the nodes of a cluster, and what they report of it: a [`View`].

use std::{collections::HashMap, net::SocketAddr, thread, time::Duration};

use anyhow::{Context, anyhow};
use parking_lot::Mutex;
use state::{
    Node,
    agent::Login,
    members::{self, Member},
    query::Query,
    slot::Slot,
    view::{Claims, Directory, Look, Misplaced, View},
};
use wire::resp::{Limits, Reply};

use super::wave::wave;
use resp_client::blocking::Connection;

/// How to reach and log in to a cluster.
#[derive(Debug, Clone)]
pub struct Access {
    /// Nodes to begin with.
    pub seeds: Vec<SocketAddr>,
    /// Login at the nodes, the same at all of them.
    pub login: Option<Login>,
}

/// Timeout of connecting to a node, and of a reply.
pub(super) const LIMIT: Duration = Duration::from_secs(2);

/// Maximum number of idle connections to one node.
const IDLE_MAX: usize = 4;

/// Number of queries after which a slot without an owner counts as lost: a slot that changes its
/// owner has none for a moment.
const LOOKS_MAX: usize = 5;
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// Connections to nodes, made when they are used; one that failed is made anew.
pub(super) struct Cluster {
    access: Access,
    idle: Mutex<HashMap<SocketAddr, Vec<Connection>>>,
    directory: Directory,
}

impl Cluster {
    pub(super) fn new(access: &Access) -> Self {
        Self { access: access.clone(), idle: Mutex::default(), directory: Directory::default() }
    }

    pub(super) fn login(&self) -> Option<&Login> {
        self.access.login.as_ref()
    }

    /// A new connection to the node at `address`.
    pub(super) fn connect(&self, address: SocketAddr) -> anyhow::Result<Connection> {
        let mut node = Connection::open(address, LIMIT, &Limits::default())
            .with_context(|| format!("cannot connect to the node {address}"))?;
        if let Some(Login { user, password }) = &self.access.login {
            node.ask(&[b"AUTH", &user[..], &password[..]])
                .context("login failed: check --user and --password-file")?;
        }
        Ok(node)
    }

    /// Asks the node at `address`.
    pub(super) fn query<T>(&self, address: SocketAddr, one: Query<'_, T>) -> anyhow::Result<T> {
        self.with(address, |node| query(node, one))
    }

    /// Asks the node at `address` at once; the results in their order.
    pub(super) fn query_all<T>(
        &self,
        address: SocketAddr,
        queries: Vec<Query<'_, T>>,
    ) -> anyhow::Result<Vec<T>> {
        self.with(address, |node| query_all(node, queries))
    }

    /// Uses a connection to the node at `address`.
    pub(super) fn with<T>(
        &self,
        address: SocketAddr,
        act: impl FnOnce(&mut Connection) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let idle = self.idle.lock().get_mut(&address).and_then(Vec::pop);
        let mut node = match idle {
            Some(node) => node,
            None => self.connect(address)?,
        };
        let outcome = act(&mut node);
        // An error reply leaves the connection usable; after any other error it must not be used
        // again. The error does not distinguish the two.
        if outcome.is_ok() {
            let mut idle = self.idle.lock();
            let idle = idle.entry(address).or_default();
            if idle.len() < IDLE_MAX {
                idle.push(node);
            }
        }
        outcome
    }

    /// Asks the owner of the slot of `key`.
    pub(super) fn query_owner<T>(
        &self,
        view: &View,
        key: &[u8],
        query: Query<'_, T>,
    ) -> anyhow::Result<T> {
        self.query(view.owner_of(key)?, query)
    }

    /// Asks every primary what it owns.
    ///
    /// # Errors
    /// No node answers, or a primary does not: then the open slots are unknown.
    pub(super) fn view(&mut self) -> anyhow::Result<View> {
        let mut view = self.look()?;
        for _ in 1..LOOKS_MAX {
            if view.lost().is_empty() {
                break;
            }
            thread::sleep(LOOK_PAUSE);
            view = self.look()?;
        }
        Ok(view)
    }

    fn look(&mut self) -> anyhow::Result<View> {
        let told = self.known_members()?;
        let asked = |&address: &SocketAddr| self.query(address, members::oneself(address));
        let reports = wave(&Look::primaries(&told), asked);
        let look = Look::new(&told, reports.into_iter().collect::<anyhow::Result<_>>()?)?;
        self.access.seeds = Look::seeds(&told);
        let said = wave(&look.asked(), |&address| {
            self.members_at(address).map(|members| look.denied(&members))
        });
        let said = said.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        Ok(look.view(said.concat(), &mut self.directory))
    }

    fn known_members(&self) -> anyhow::Result<Vec<Member>> {
        let mut why = anyhow!("no node is known; set --cluster");
        for seed in &self.access.seeds {
            match self.members_at(*seed) {
                Ok(members) => return Ok(members),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn members_at(&self, address: SocketAddr) -> anyhow::Result<Vec<Member>> {
        self.query(address, members::nodes(address))
    }

    /// Reports of nodes about slots that are not "closed". Misplaced keys are queried for slots
    /// that are leaving or lost, or for `all`.
    pub(super) fn claims(&mut self, view: &View, all: bool) -> anyhow::Result<Claims> {
        let nodes: Vec<(Node, &Member)> = view.primaries().collect();
        let misplaced = wave(&nodes, |&(node, member)| -> anyhow::Result<Misplaced> {
            let importing: Vec<Slot> = member.importing.iter().map(|(slot, _)| *slot).collect();
            let coming = self.keys_in(member.address, &importing)?;
            let coming = coming.into_iter().map(|(_, keys)| keys).collect();
            let all = all && self.query(member.address, members::foreign_keys(member))? > 0;
            let foreign = self.keys_in(member.address, &view.foreign(node, member, all))?;
            Ok(Misplaced { coming, foreign })
        });
        let misplaced = misplaced.into_iter().collect::<anyhow::Result<_>>()?;
        Ok(view.claims(misplaced, &mut self.directory))
    }

    /// Number of keys of each slot at the node.
    pub(super) fn keys_in(
        &self,
        address: SocketAddr,
        slots: &[Slot],
    ) -> anyhow::Result<Vec<(Slot, u64)>> {
        let queries = slots.iter().map(|&slot| members::keys_in(slot)).collect();
        let keys = self.query_all(address, queries)?;
        Ok(slots.iter().copied().zip(keys).collect())
    }
}

/// Asks over a connection.
pub(super) fn query<T>(node: &mut Connection, query: Query<'_, T>) -> anyhow::Result<T> {
    query_all(node, vec![query])?.pop().context("expected a reply, got none")
}

/// The same of many at once; the results in their order.
pub(super) fn query_all<T>(
    node: &mut Connection,
    queries: Vec<Query<'_, T>>,
) -> anyhow::Result<Vec<T>> {
    let commands: Vec<_> = queries.iter().map(Query::words).collect();
    let replies = node.ask_all(&commands)?;
    let read = |(query, reply): (Query<'_, T>, Reply)| query.read(reply);
    let results: Result<Vec<T>, _> = queries.into_iter().zip(replies).map(read).collect();
    results.with_context(|| node.address().to_string())
}
