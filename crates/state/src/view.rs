//! The cluster as all its primaries report it: the owner of each slot, the slots that are not
//! closed, and how to resume them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use crate::{
    Node,
    batch::is_settled,
    members::{self, Member},
    migration::{Claim, Migration, resume},
    moves::Move,
    slot::{SLOTS, Slot},
};

mod findings;
mod look;

pub use look::{Denied, Look};

/// Reports of nodes about slots that are not closed.
pub type Claims = Vec<(Slot, Vec<(Node, Claim)>)>;

/// Errors of a view.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Missing {
    /// No node is a primary.
    #[error(
        "expected at least one primary in the cluster, found none; run `redis-cli --cluster check`"
    )]
    Primaries,
    /// The node has left the cluster, or is not a primary now.
    #[error("node number {} is no longer a primary of the cluster", .0.0)]
    Node(Node),
    /// No primary listens at this address.
    #[error("{0} is not a primary of the cluster")]
    Address(SocketAddr),
    /// The slot has no reachable owner.
    #[error(
        "slot {} has no owner, or its owner does not reply: run `enroute state doctor` to diagnose and repair",
        .0.number()
    )]
    Owner(Slot),
}

/// Numbers of all nodes since the start, by id; a node keeps its number.
#[derive(Debug, Default)]
pub struct Directory(Vec<String>);

impl Directory {
    /// The number of the node with this id, which it keeps.
    pub fn number(&mut self, id: &str) -> Node {
        let known = self.0.iter().position(|known| known == id);
        Node(known.unwrap_or_else(|| {
            self.0.push(id.to_owned());
            self.0.len() - 1
        }) as u16)
    }
}

/// All primaries, each as it reports itself.
#[derive(Debug, Clone)]
pub struct View {
    /// By number; `None` for a former node that is not a primary now.
    members: Vec<Option<Member>>,
    /// By slot.
    owners: Vec<Option<Node>>,
    /// Each node reports another owner, and none reports itself.
    lost: BTreeSet<Slot>,
    /// Every primary knows an epoch at least as high as this.
    heard: u64,
}

/// Number of keys that a primary has in slots that it does not own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Misplaced {
    /// For each slot that it imports, in order.
    pub coming: Vec<u64>,
    /// For other slots.
    pub foreign: Vec<(Slot, u64)>,
}

impl View {
    /// A primary.
    ///
    /// # Errors
    /// It is none now.
    pub fn member(&self, node: Node) -> Result<&Member, Missing> {
        let member = self.members.get(node.index()).and_then(Option::as_ref);
        member.ok_or(Missing::Node(node))
    }

    /// By number; `None` for a node that is not a primary now.
    #[must_use]
    pub fn members(&self) -> &[Option<Member>] {
        &self.members
    }

    /// The owner of a slot.
    #[must_use]
    pub fn owner(&self, slot: Slot) -> Option<Node> {
        self.owners.get(slot.number()).copied().flatten()
    }

    /// Address of the owner of the slot of `key`.
    ///
    /// # Errors
    /// It has none.
    pub fn owner_of(&self, key: &[u8]) -> Result<SocketAddr, Missing> {
        let slot = Slot::of(key);
        let owner = self.owner(slot).ok_or(Missing::Owner(slot))?;
        Ok(self.member(owner)?.address)
    }

    /// Primaries with their numbers.
    pub fn primaries(&self) -> impl Iterator<Item = (Node, &Member)> {
        let members = self.members.iter().enumerate();
        members.filter_map(|(at, member)| Some((Node(at as u16), member.as_ref()?)))
    }

    /// Slots without an owner: each node reports another one, and none reports itself.
    #[must_use]
    pub fn lost(&self) -> &BTreeSet<Slot> {
        &self.lost
    }

    /// Nodes that a slot may leave: see [`crate::batch`].
    #[must_use]
    pub fn settled(&self) -> BTreeSet<Node> {
        let members: Vec<&Member> = self.primaries().map(|(_, member)| member).collect();
        let settled =
            self.primaries().filter(|(_, member)| is_settled(member, &members, self.heard));
        settled.map(|(node, _)| node).collect()
    }

    /// Slots that some node reports as moving, and slots that are lost.
    #[must_use]
    pub fn open(&self) -> BTreeSet<Slot> {
        let open = |(_, member): (Node, &Member)| {
            let open = member.migrating.iter().chain(&member.importing);
            open.map(|(slot, _)| *slot).collect::<Vec<_>>()
        };
        self.primaries().flat_map(open).chain(self.lost.iter().copied()).collect()
    }

    /// The migration that resumes a slot that is not closed; `None` while its owner does not
    /// answer.
    #[must_use]
    pub fn resume(&self, slot: Slot, claims: &[(Node, Claim)], turn: u64) -> Option<Migration> {
        let owner = self.owner(slot);
        let known = owner.is_some() || self.lost.contains(&slot);
        known.then(|| resume(slot, owner, claims, turn)).flatten()
    }

    /// Those of `claims` that can be resumed, or that wait for an owner.
    #[must_use]
    pub fn unfinished(&self, mut claims: Claims) -> Claims {
        claims.retain(|(slot, claims)| {
            self.owner(*slot).is_none() || self.resume(*slot, claims, 0).is_some()
        });
        claims
    }

    /// Moves of these slots to the primary at `to`, without slots that are there already.
    ///
    /// # Errors
    /// There is no such primary, or a slot has no owner.
    pub fn moves(&self, slots: &[Slot], to: SocketAddr) -> Result<Vec<Move>, Missing> {
        let target = self.primaries().find(|(_, member)| member.address == to);
        let (to, _) = target.ok_or(Missing::Address(to))?;
        let way = |&slot: &Slot| {
            let from = self.owner(slot).ok_or(Missing::Owner(slot))?;
            Ok(Move { slot, from, to, saves_us: 0.0 })
        };
        let moves = slots.iter().map(way).collect::<Result<Vec<Move>, Missing>>()?;
        Ok(moves.into_iter().filter(|one| one.from != to).collect())
    }

    /// Describes a move.
    #[must_use]
    pub fn line(&self, Move { slot, from, to, saves_us }: Move) -> String {
        let at = |node: Node| {
            self.member(node)
                .map_or_else(|_| format!("node {}", node.0), |member| member.address.to_string())
        };
        let line = format!("slot {} {} -> {}", slot.number(), at(from), at(to));
        if saves_us > 0.0 { format!("{line}, saves {saves_us:.0} us/s") } else { line }
    }

    /// The owners of moved slots that `node` must be told: of slots for which it was neither source
    /// nor target.
    #[must_use]
    pub fn news_for(&self, node: Node, moved: &[Move]) -> Vec<(Slot, &str)> {
        let news = moved.iter().filter(|one| one.from != node && one.to != node);
        news.filter_map(|one| Some((one.slot, self.member(one.to).ok()?.id.as_str()))).collect()
    }

    /// Slots whose keys a primary is asked to count although it neither owns nor imports them:
    /// slots that are leaving their node or lost, or `all`.
    #[must_use]
    pub fn foreign(&self, node: Node, member: &Member, all: bool) -> Vec<Slot> {
        let leaving = self.primaries().flat_map(|(_, member)| &member.migrating);
        let mut looked: BTreeSet<Slot> = leaving.map(|(slot, _)| *slot).collect();
        looked.extend(&self.lost);
        let comes = |slot: &Slot| member.importing.iter().any(|(coming, _)| coming == slot);
        (0..SLOTS)
            .filter_map(Slot::new)
            .filter(|slot| all || looked.contains(slot))
            .filter(|slot| self.owner(*slot) != Some(node) && !comes(slot))
            .collect()
    }

    /// Reports about slots that are not closed; `misplaced` has one entry per primary, in order.
    #[must_use]
    pub fn claims(&self, misplaced: Vec<Misplaced>, directory: &mut Directory) -> Claims {
        let mut claims = BTreeMap::<Slot, Vec<(Node, Claim)>>::new();
        for ((node, member), Misplaced { coming, foreign }) in self.primaries().zip(misplaced) {
            for (slot, to) in &member.migrating {
                if !self.lost.contains(slot) {
                    let to = directory.number(to);
                    claims.entry(*slot).or_default().push((node, Claim::Migrating(to)));
                }
            }
            for ((slot, from), keys) in member.importing.iter().zip(coming) {
                let from = directory.number(from);
                claims.entry(*slot).or_default().push((node, Claim::Importing(from, keys)));
            }
            let said = |(slot, keys): &(Slot, u64)| *keys > 0 || self.lost.contains(slot);
            for (slot, keys) in foreign.into_iter().filter(said) {
                claims.entry(slot).or_default().push((node, Claim::Holding(keys)));
            }
        }
        claims.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
