//! Migration of one slot between nodes, by the commands of every Redis and Valkey Cluster.
//!
//! ```text
//! target: SETSLOT IMPORTING     source: SETSLOT MIGRATING, and whose turn it is
//!                 source: GETKEYSINSLOT, MIGRATE … REPLACE   until none is left
//! source: SETSLOT NODE target   target: SETSLOT NODE target
//! ```
//!
//! Then the slot has moved. The target informs the other nodes; the placer informs them too, for
//! many moves at once.
//!
//! The source changes first, and each node waits until no reply of the other over the cluster bus
//! is outstanding: so no node claims the slot when the target takes it, and no claim is in flight.
//! Otherwise some versions (Redis 7.0.12 to 7.0.15, 7.2.0 to 7.2.3) may remember that an earlier
//! owner did not claim the slot, keep that while they own it, then accept any claim, drop the keys,
//! and leave the slot without an owner. In between, clients are redirected back and forth.
//!
//! During the migration a key is at the source, where clients find it, or at the target, to which
//! the source redirects them (ASK). So the source's copy is always the newer one and MIGRATE may
//! replace; a prototype that copies, waits and deletes loses every write in between (field notes
//! §5).
//!
//! A MIGRATE with an unknown outcome leaves keys at both ends, and a key that is then deleted at
//! the source would reappear at the target. So clients are not redirected there until it has
//! dropped them:
//!
//! ```text
//! source: MIGRATE …          until it is done, redirects clients to a third node and back
//! source: turn and keys      target: drops them      source: redirects clients to the target
//! ```
//!
//! During the migration a note is stored among the slot's keys, at the source and ahead of every
//! batch: the current turn, and the keys whose state is unknown. So a placer that resumes needs no
//! state of its own, and a late step finds a different turn.
//!
//! A target that refuses keys, for example for lack of memory, returns those that it has:
//!
//! ```text
//! target: SETSLOT STABLE, GETKEYSINSLOT      until none is left; then source: SETSLOT STABLE
//! target: their values    source: takes them    target: drops them, and is importing again
//! ```
//!
//! MIGRATE cannot do that: the source redirects requests for missing keys to the target, and so
//! refuses to import one. While the slot is STABLE at the target, no client is served the keys
//! there, and requests for them are redirected back and forth: so the source takes the latest
//! values. The source owns the slot all the time.
//!
//! Every step can be repeated: a lost reply, or a crash of the placer, leaves one of a few states
//! that [`resume`] reads from the nodes.

use std::{cmp::Reverse, fmt, time::Duration};

use crate::{Node, slot::Slot};

/// Number of keys moved at once.
pub const KEYS_MAX: usize = 64;
/// Failures in a row after which a migration waits to be resumed.
pub const FAILURES_MAX: u32 = 5;
/// Delay before a failed step is retried, times the number of consecutive failures.
const PATIENCE: Duration = Duration::from_millis(200);

/// A step for one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// `CLUSTER SETSLOT slot IMPORTING source`.
    Import {
        /// The node it comes from.
        from: Node,
    },
    /// The source records the current turn. If no note was there it sends clients to the target for
    /// keys it lacks (`CLUSTER SETSLOT slot MIGRATING target`), else to a third node.
    Turn {
        /// The node that the slot goes to.
        to: Node,
        /// The turn.
        turn: u64,
    },
    /// The target accepts nothing that was sent before, and drops its keys of a batch.
    Settle {
        /// The turn of the batch; if the target has the note of another, no key of this one has
        /// arrived.
        batch: u64,
        /// The keys; none: those of the note there.
        keys: Vec<Vec<u8>>,
    },
    /// If it is this turn: the source redirects clients to the target from now on, and the next
    /// turn is the following number.
    Send {
        /// The target.
        to: Node,
        /// The turn.
        turn: u64,
    },
    /// If it is this turn: `MIGRATE target … REPLACE KEYS …` of [`KEYS_MAX`] keys and a note ahead
    /// of them. Until it has succeeded, clients are redirected to a third node; then the next turn
    /// is the following number.
    Move {
        /// The node they go to.
        to: Node,
        /// The turn.
        turn: u64,
    },
    /// `CLUSTER GETKEYSINSLOT slot KEYS_MAX`.
    Keys,
    /// `CLUSTER SETSLOT slot NODE owner`, and removal of the note, once no message of the other
    /// node of the move is outstanding.
    Own {
        /// The owner of the slot from now on.
        owner: Node,
    },
    /// `CLUSTER SETSLOT slot STABLE`, and removal of the note.
    Stable,
    /// Reads values of keys at the target, where no client can write them before they are dropped.
    Read {
        /// The source.
        from: Node,
        /// The keys.
        keys: Vec<Vec<u8>>,
    },
    /// The source, whose slot is leaving for the target, takes values of keys it does not have.
    Restore {
        /// The target.
        to: Node,
        /// The values.
        values: Vec<Value>,
    },
    /// The target drops keys that the source has taken, and serves the others again to redirected
    /// clients.
    Drop {
        /// The source.
        from: Node,
        /// The keys.
        keys: Vec<Vec<u8>>,
    },
}

/// A key with its value, to be returned to the source.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Value {
    /// The key.
    pub key: Vec<u8>,
    /// The value in the format of `DUMP`.
    pub value: Vec<u8>,
    /// Milliseconds since 1970 at which it expires; 0: never.
    pub expires_ms: u64,
}

impl fmt::Debug for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Value").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// The note that was there, of [`Step::Turn`]: the turn of the latest batch, and those of its
    /// keys with an unknown state.
    Noted(u64, Vec<Vec<u8>>),
    /// The number of keys left at the source, of [`Step::Move`].
    Left(u64),
    /// Keys of the slot, of [`Step::Keys`].
    Keys(Vec<Vec<u8>>),
    /// The values there are, of [`Step::Read`].
    Values(Vec<Value>),
    /// The target has refused keys, of [`Step::Move`]; with the reason.
    Refused(String),
    /// It failed, or its outcome is unknown: the connection was lost, or it timed out.
    Failed,
}

/// A slot that is moving.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Migration {
    slot: Slot,
    from: Node,
    to: Node,
    stage: Stage,
    turn: u64,
    /// Keys may be at the target.
    begun: bool,
    /// Reason why the target has refused keys, and the number of consecutive refusals.
    refusal: Option<(String, u32)>,
    /// Number of failed steps since the last one that made progress.
    failures: u32,
    not_before: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Stage {
    Import,
    Turn,
    Settle(u64, Vec<Vec<u8>>),
    Send,
    Move,
    /// It has no owner, and the target must become it.
    Adopt,
    OwnAtSource,
    OwnAtTarget,
    /// The target stops serving it and returns its keys; then the source ends the migration.
    BackAtTarget,
    BackKeys,
    Read(Vec<Vec<u8>>),
    Restore(Vec<Vec<u8>>, Vec<Value>),
    Drop(Vec<Vec<u8>>),
    BackAtSource,
    Over(End),
}

/// The outcome of a migration.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum End {
    /// The slot is at its new node.
    Moved,
    /// The slot is at its former node and closed.
    Stayed,
    /// The same, because the target has refused it; with the reason.
    Refused(String),
    /// A node cannot be reached. The next placer resumes it.
    Open,
}

impl End {
    /// Why the slot is not at its new node; `None` if it is.
    #[must_use]
    pub fn refusal(self) -> Option<String> {
        match self {
            Self::Moved => None,
            Self::Refused(why) => Some(why),
            Self::Stayed => Some("the move was given up".to_owned()),
            Self::Open => Some("the slot move is left open; will retry".to_owned()),
        }
    }
}

impl Migration {
    /// Moves `slot`. `turn` must be later than every earlier turn, and so must the next thousands:
    /// nanoseconds since 1970, for example.
    #[must_use]
    pub fn new(slot: Slot, from: Node, to: Node, turn: u64) -> Self {
        let (stage, begun, failures, not_before) = (Stage::Import, false, 0, Duration::ZERO);
        Self { slot, from, to, stage, turn, begun, refusal: None, failures, not_before }
    }

    /// The slot.
    #[must_use]
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// Returns its source and its destination.
    #[must_use]
    pub fn way(&self) -> (Node, Node) {
        (self.from, self.to)
    }

    /// The next step and its node; nothing while it waits, or once it has ended.
    #[must_use]
    pub fn ready(&self, now: Duration) -> Option<(Node, Step)> {
        if now < self.not_before {
            return None;
        }
        let (from, to, turn) = (self.from, self.to, self.turn);
        Some(match &self.stage {
            Stage::Import | Stage::Adopt => (to, Step::Import { from }),
            Stage::Turn => (from, Step::Turn { to, turn }),
            Stage::Settle(batch, keys) => (to, Step::Settle { batch: *batch, keys: keys.clone() }),
            Stage::Send => (from, Step::Send { to, turn }),
            Stage::Move => (from, Step::Move { to, turn }),
            Stage::OwnAtSource => (from, Step::Own { owner: to }),
            Stage::OwnAtTarget => (to, Step::Own { owner: to }),
            Stage::BackAtTarget => (to, Step::Stable),
            Stage::BackKeys => (to, Step::Keys),
            Stage::Read(keys) => (to, Step::Read { from, keys: keys.clone() }),
            Stage::Restore(_, values) => (from, Step::Restore { to, values: values.clone() }),
            Stage::Drop(keys) => (to, Step::Drop { from, keys: keys.clone() }),
            Stage::BackAtSource => (from, Step::Stable),
            Stage::Over(_) => return None,
        })
    }

    /// Records the result of the step that was ready.
    pub fn step(&mut self, outcome: Outcome, now: Duration) {
        // The step was sent, or may have been: the source may redirect clients to the target from
        // now on.
        self.begun |= self.stage == Stage::Turn;
        match (&self.stage, &outcome) {
            (_, Outcome::Failed | Outcome::Refused(_)) => return self.fail(outcome, now),
            // These steps lead back to the step that failed.
            (Stage::Turn | Stage::Settle(..) | Stage::Send, _) => {}
            (Stage::Move, _) => (self.failures, self.refusal) = (0, None),
            _ => self.failures = 0,
        }
        self.stage = match (&mut self.stage, outcome) {
            (Stage::Import, _) => Stage::Turn,
            (Stage::Turn, Outcome::Noted(batch, keys)) => Stage::Settle(batch, keys),
            (Stage::Turn, _) => Stage::Move,
            (Stage::Settle(..), _) => Stage::Send,
            (Stage::Send, _) => {
                self.turn += 1;
                self.sent(now)
            }
            (Stage::Move, Outcome::Left(0)) | (Stage::Adopt, _) => Stage::OwnAtSource,
            (Stage::Move, _) => {
                self.turn += 1;
                Stage::Move
            }
            (Stage::OwnAtSource, _) => Stage::OwnAtTarget,
            (Stage::OwnAtTarget, _) => Stage::Over(End::Moved),
            (Stage::BackAtTarget, _) => Stage::BackKeys,
            (Stage::BackKeys, Outcome::Keys(keys)) if !keys.is_empty() => Stage::Read(keys),
            (Stage::BackKeys, _) => Stage::BackAtSource,
            (Stage::Read(keys), Outcome::Values(values)) => {
                Stage::Restore(std::mem::take(keys), values)
            }
            (Stage::Read(_), _) => Stage::BackKeys,
            (Stage::Restore(keys, _), _) => Stage::Drop(std::mem::take(keys)),
            (Stage::Drop(_), _) => Stage::BackAtTarget,
            (Stage::BackAtSource, _) => {
                let refusal = self.refusal.take();
                Stage::Over(refusal.map_or(End::Stayed, |(why, _)| End::Refused(why)))
            }
            (Stage::Over(end), _) => Stage::Over(end.clone()),
        };
    }

    /// Returns its outcome, once it has ended.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        match &self.stage {
            Stage::Over(end) => Some(end.clone()),
            _ => None,
        }
    }

    /// The next step when nothing is unknown.
    fn sent(&mut self, now: Duration) -> Stage {
        let refused = self.refusal.as_ref().map_or(0, |&(_, times)| times);
        if refused >= FAILURES_MAX {
            return Stage::BackAtTarget;
        }
        self.not_before = now + PATIENCE * self.failures.max(refused);
        Stage::Move
    }

    fn fail(&mut self, outcome: Outcome, now: Duration) {
        // A sent step may arrive late, so no step is sent twice in the same turn.
        self.turn += 1;
        let refused = self.refusal.as_ref().map_or(0, |&(_, times)| times);
        match (&self.stage, outcome) {
            (Stage::Move, Outcome::Refused(why)) => self.refusal = Some((why, refused + 1)),
            (Stage::Move, _) => (self.failures, self.refusal) = (self.failures + 1, None),
            _ => self.failures += 1,
        }
        if self.failures >= FAILURES_MAX {
            self.failures = 0;
            self.stage = match &self.stage {
                Stage::Import if !self.begun => Stage::BackAtTarget,
                _ => Stage::Over(End::Open),
            };
        } else if matches!(self.stage, Stage::Move | Stage::Send) {
            // Its outcome is unknown, and clients wait for moved keys until it is known.
            self.stage = Stage::Turn;
        } else {
            self.not_before = now + PATIENCE * self.failures;
        }
    }
}

/// Report of one node about a slot (`CLUSTER NODES`, `CLUSTER COUNTKEYSINSLOT`) that is more than
/// "closed".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The node owns it, and it is migrating to that node.
    Migrating(Node),
    /// It is importing from that node, and has this many of its keys.
    Importing(Node, u64),
    /// The node does not own it, has no open migration for it, and has this many of its keys: the
    /// result of a failover during a migration, as replicas do not know of migrations. Reported by
    /// every node if it has no owner.
    Holding(u64),
}

/// The migration of a slot that was left open: `owner` is its owner by the nodes' agreement, if
/// any, `claims` the reports of nodes about it, and `turn` as for [`Migration::new`]. Nothing if it
/// is closed.
#[must_use]
pub fn resume(
    slot: Slot,
    owner: Option<Node>,
    claims: &[(Node, Claim)],
    turn: u64,
) -> Option<Migration> {
    let begin = |from, to, stage, begun| {
        Some(Migration { stage, begun, ..Migration::new(slot, from, to, turn) })
    };
    let Some(owner) = owner else {
        let (from, to) = heir(claims)?;
        return begin(from, to, Stage::Adopt, true);
    };
    let migrating = claims.iter().find(|(_, claim)| matches!(claim, Claim::Migrating(_)));
    let &(node, claim) = migrating.or_else(|| claims.first())?;
    // The source may name a third node. The target has keys, or waits for them.
    let target = |to| {
        let others = claims.iter().filter(|&&(other, _)| other != node);
        let likely = |&&(other, claim): &&(Node, Claim)| match claim {
            Claim::Importing(from, keys) if from == node => (2, other == to, keys),
            Claim::Holding(keys) => (1, other == to, keys),
            _ => (0, other == to, 0),
        };
        let target = others.max_by_key(likely).filter(|claim| likely(claim).0 > 0);
        target.map_or(to, |&(target, _)| target)
    };
    match claim {
        // The target owned it before the source was informed: only the closing is left.
        Claim::Migrating(_) if owner != node => begin(node, owner, Stage::OwnAtSource, true),
        // Keys may have moved. Continuing forward loses none, and none can be written at both
        // nodes.
        Claim::Migrating(to) => begin(node, target(to), Stage::Import, true),
        Claim::Importing(from, _) if owner == node => begin(from, node, Stage::OwnAtTarget, true),
        Claim::Holding(_) if owner == node => None,
        // No client is redirected there any more, and none was redirected while keys could be
        // written.
        Claim::Importing(from, 0) => begin(from, node, Stage::BackAtTarget, false),
        Claim::Importing(..) | Claim::Holding(_) => begin(owner, node, Stage::Import, true),
    }
}

/// New owner of a slot without an owner, and the other node involved: the owner is a node with its
/// keys. Keys at a source are newer than those at its target; if both have some, the slot is open
/// afterwards.
fn heir(claims: &[(Node, Claim)]) -> Option<(Node, Node)> {
    let likely = |&&(node, claim): &&(Node, Claim)| {
        let (place, keys) = match claim {
            Claim::Migrating(_) => (0, 0),
            Claim::Holding(keys) => (if keys > 0 { 4 } else { 1 }, keys),
            Claim::Importing(_, keys) => (if keys > 0 { 3 } else { 2 }, keys),
        };
        (place, keys, Reverse(node))
    };
    let &(to, _) = claims.iter().max_by_key(likely)?;
    let &(from, _) = claims.iter().find(|&&(node, _)| node != to)?;
    Some((from, to))
}

#[cfg(test)]
mod tests;
