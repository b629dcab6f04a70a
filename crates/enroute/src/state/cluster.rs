//! The cluster as its nodes report it, and a connection to each.

use std::{
    collections::{BTreeSet, HashMap},
    net::SocketAddr,
    thread,
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use parking_lot::Mutex;
use state::{
    Node as Number,
    agent::Login,
    batch::is_settled,
    members::{self, Member},
    migration::{Claim, Migration, resume},
    query::Query,
    slot::{SLOTS, Slot},
};

use wire::resp::{Limits, Reply};

use super::wave::wave;
use crate::resp_client::blocking::Connection;

/// How a cluster is reached.
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
    /// Nodes ever seen, by their id: a number stays a node's.
    directory: Vec<String>,
}

/// Reports of nodes about slots that are not closed.
pub(super) type Claims = Vec<(Slot, Vec<(Number, Claim)>)>;

/// All primaries, each by what it says of itself.
#[derive(Debug, Clone)]
pub(super) struct View {
    /// By number; nothing of a node of before that is no primary now.
    pub(super) members: Vec<Option<Member>>,
    /// By slot.
    pub(super) owners: Vec<Option<Number>>,
    /// Each node reports another owner, and none reports itself.
    pub(super) lost: BTreeSet<Slot>,
    /// Every primary knows an epoch at least as high as this.
    heard: u64,
}

impl View {
    pub(super) fn member(&self, node: Number) -> anyhow::Result<&Member> {
        let member = self.members.get(usize::from(node.0)).and_then(Option::as_ref);
        member.with_context(|| {
            format!("node number {} is no longer a primary of the cluster", node.0)
        })
    }

    pub(super) fn owner(&self, slot: Slot) -> Option<Number> {
        self.owners.get(slot.number()).copied().flatten()
    }

    /// Primaries with their numbers.
    pub(super) fn primaries(&self) -> impl Iterator<Item = (Number, &Member)> {
        let number = |(at, member): (usize, &'_ Option<Member>)| member.is_some().then_some(at);
        let numbers = self.members.iter().enumerate().filter_map(number);
        numbers.filter_map(|at| Some((Number(at as u16), self.members.get(at)?.as_ref()?)))
    }

    /// Nodes that a slot may leave: see [`state::batch`].
    pub(super) fn settled(&self) -> BTreeSet<Number> {
        let members: Vec<&Member> = self.primaries().map(|(_, member)| member).collect();
        let settled =
            self.primaries().filter(|(_, member)| is_settled(member, &members, self.heard));
        settled.map(|(node, _)| node).collect()
    }

    /// Slots of which some node says that they are on their way, and those that are lost.
    pub(super) fn open(&self) -> BTreeSet<Slot> {
        let open = |(_, member): (Number, &Member)| {
            let open = member.migrating.iter().chain(&member.importing);
            open.map(|(slot, _)| *slot).collect::<Vec<_>>()
        };
        self.primaries().flat_map(open).chain(self.lost.iter().copied()).collect()
    }

    /// What is to be done about a slot that is not closed; nothing while its owner does not answer.
    pub(super) fn resume(
        &self,
        slot: Slot,
        claims: &[(Number, Claim)],
        turn: u64,
    ) -> Option<Migration> {
        let owner = self.owner(slot);
        let known = owner.is_some() || self.lost.contains(&slot);
        known.then(|| resume(slot, owner, claims, turn)).flatten()
    }
}

impl Cluster {
    pub(super) fn new(access: &Access) -> Self {
        Self { access: access.clone(), idle: Mutex::default(), directory: Vec::new() }
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

    /// Says one command about `key` to the owner of its slot.
    pub(super) fn ask_owner(
        &self,
        view: &View,
        key: &[u8],
        words: &[impl AsRef<[u8]>],
    ) -> anyhow::Result<Reply> {
        let owner = self.owner(view, key)?;
        self.with(owner, |node| node.ask(words))
    }

    /// Asks the owner of the slot of `key`.
    pub(super) fn query_owner<T>(
        &self,
        view: &View,
        key: &[u8],
        query: Query<'_, T>,
    ) -> anyhow::Result<T> {
        self.query(self.owner(view, key)?, query)
    }

    fn owner(&self, view: &View, key: &[u8]) -> anyhow::Result<SocketAddr> {
        let slot = Slot::of(key);
        let owner = view.owner(slot).with_context(|| without_owner(slot))?;
        Ok(view.member(owner)?.address)
    }

    /// Asks every primary what it owns.
    ///
    /// # Errors
    /// No node answers, or a primary does not: then the open slots are unknown.
    pub(super) fn view(&mut self) -> anyhow::Result<View> {
        let mut view = self.look()?;
        for _ in 1..LOOKS_MAX {
            if view.lost.is_empty() {
                break;
            }
            thread::sleep(LOOK_PAUSE);
            view = self.look()?;
        }
        Ok(view)
    }

    fn look(&mut self) -> anyhow::Result<View> {
        let told = self.anybody()?;
        let primaries = told.iter().filter(|member| member.primary && !member.failing);
        let primaries: Vec<SocketAddr> = primaries.map(|member| member.address).collect();
        let (mut found, mut heard) = (Vec::new(), u64::MAX);
        let asked = |&address: &SocketAddr| self.query(address, members::oneself(address));
        for answer in wave(&primaries, asked) {
            let (own, latest) = answer?;
            if let Some(own) = own.filter(|own| own.primary) {
                found.push(own);
                heard = heard.min(latest);
            }
        }
        if found.is_empty() {
            bail!(
                "expected at least one primary in the cluster, found none; run `redis-cli \
                 --cluster check`"
            );
        }
        let (gone, there): (Vec<&Member>, Vec<_>) = told.iter().partition(|one| one.failing);
        self.access.seeds = there.into_iter().chain(gone).map(|member| member.address).collect();
        let owners = members::owners(&found);
        // Slots of an unreachable node are not lost: one report of an owner is enough.
        let silent = |member: &&Member| !found.iter().any(|asked| asked.id == member.id);
        let silents: BTreeSet<Slot> = told.iter().filter(silent).flat_map(Member::owned).collect();
        let unowned = (0..SLOTS).filter(|&slot| owners.get(slot).is_some_and(Option::is_none));
        let unowned = unowned.filter_map(Slot::new).filter(|slot| !silents.contains(slot));
        let lost = self.lost(&found, &unowned.collect::<Vec<_>>())?;
        let numbers: Vec<Number> = found.iter().map(|member| self.number(&member.id)).collect();
        let owners = owners
            .into_iter()
            .map(|owner| owner.and_then(|owner| numbers.get(owner).copied()))
            .collect();
        let mut members = vec![None; self.directory.len()];
        for (number, member) in numbers.into_iter().zip(found) {
            if let Some(place) = members.get_mut(usize::from(number.0)) {
                *place = Some(member);
            }
        }
        Ok(View { members, owners, lost, heard })
    }

    /// Those of `slots` that no node claims, and that no node reports as owned by a node that was
    /// not asked.
    fn lost(&self, found: &[Member], slots: &[Slot]) -> anyhow::Result<BTreeSet<Slot>> {
        let (mut lost, mut kept) = (BTreeSet::new(), BTreeSet::new());
        if slots.is_empty() {
            return Ok(lost);
        }
        let told = wave(found, |asked| -> anyhow::Result<Vec<(Slot, bool)>> {
            let members = self.members_at(asked.address)?;
            let denied =
                |owner: &Member| !owner.myself && found.iter().any(|member| member.id == owner.id);
            let of = |&slot: &Slot| {
                let owner = members.iter().find(|member| member.owns(slot))?;
                Some((slot, denied(owner)))
            };
            Ok(slots.iter().filter_map(of).collect())
        });
        for told in told {
            for (slot, denied) in told? {
                if denied { &mut lost } else { &mut kept }.insert(slot);
            }
        }
        Ok(&lost - &kept)
    }

    /// The number of the node with this id, which it keeps.
    pub(super) fn number(&mut self, id: &str) -> Number {
        let known = self.directory.iter().position(|known| known == id);
        Number(known.unwrap_or_else(|| {
            self.directory.push(id.to_owned());
            self.directory.len() - 1
        }) as u16)
    }

    fn anybody(&self) -> anyhow::Result<Vec<Member>> {
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
        let leaving = view.primaries().flat_map(|(_, member)| &member.migrating);
        let mut looked: BTreeSet<Slot> = leaving.map(|(slot, _)| *slot).collect();
        looked.extend(&view.lost);
        let nodes: Vec<(Number, &Member)> = view.primaries().collect();
        let keys = wave(&nodes, |&(node, member)| -> anyhow::Result<_> {
            let importing: Vec<Slot> = member.importing.iter().map(|(slot, _)| *slot).collect();
            let coming = self.keys_in(member.address, &importing)?;
            let all = all && self.query(member.address, members::foreign_keys(member))? > 0;
            let foreign: Vec<Slot> = (0..SLOTS)
                .filter_map(Slot::new)
                .filter(|slot| all || looked.contains(slot))
                .filter(|slot| view.owner(*slot) != Some(node) && !importing.contains(slot))
                .collect();
            let keys = self.keys_in(member.address, &foreign)?;
            Ok((coming, foreign.into_iter().zip(keys).collect::<Vec<_>>()))
        });
        let mut claims: std::collections::BTreeMap<Slot, Vec<(Number, Claim)>> = Default::default();
        for ((node, member), keys) in nodes.into_iter().zip(keys) {
            let (coming, foreign) = keys?;
            for (slot, to) in member.migrating.iter().filter(|(slot, _)| !view.lost.contains(slot))
            {
                let to = self.number(to);
                claims.entry(*slot).or_default().push((node, Claim::Migrating(to)));
            }
            for ((slot, from), keys) in member.importing.iter().zip(coming) {
                let from = self.number(from);
                claims.entry(*slot).or_default().push((node, Claim::Importing(from, keys)));
            }
            let said = |(slot, keys): &(Slot, u64)| *keys > 0 || view.lost.contains(slot);
            for (slot, keys) in foreign.into_iter().filter(said) {
                claims.entry(slot).or_default().push((node, Claim::Holding(keys)));
            }
        }
        Ok(claims.into_iter().collect())
    }

    /// How many keys of each slot are at the node.
    pub(super) fn keys_in(&self, address: SocketAddr, slots: &[Slot]) -> anyhow::Result<Vec<u64>> {
        self.query_all(address, slots.iter().map(|&slot| members::keys_in(slot)).collect())
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

/// Error if a slot has no reachable owner.
pub(super) fn without_owner(slot: Slot) -> String {
    let slot = slot.number();
    format!(
        "slot {slot} has no owner, or its owner does not reply: run `enroute state doctor` to \
         diagnose and repair"
    )
}
