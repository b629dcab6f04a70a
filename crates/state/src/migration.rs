//! One slot's way from node to node, by the commands every Redis and Valkey Cluster has.
//!
//! ```text
//! target: SETSLOT IMPORTING     source: SETSLOT MIGRATING
//!                 source: GETKEYSINSLOT, MIGRATE … REPLACE   until none is left
//! target: SETSLOT NODE target   source: SETSLOT NODE target
//! ```
//!
//! Then the slot has moved. The others hear of it from the target; whoever carries moves out tells them
//! too, of many moves at once.
//!
//! While it is under way a key is at the source, where clients find it, or has gone, and the source
//! sends them after it (ASK). So the source's copy is always the newer one and MIGRATE may replace; a
//! prototype that copies, waits and deletes loses every write in between (field notes §5).
//!
//! A target that refuses keys, for want of memory say, gives back what it has:
//!
//! ```text
//! target: SETSLOT STABLE, GETKEYSINSLOT      until none is left; then source: SETSLOT STABLE
//! target: their values    source: takes them    target: drops them, and is importing again
//! ```
//!
//! MIGRATE cannot do that: the source sends who asks for a key it lacks to the target, and so refuses
//! to take one. While the target says STABLE nobody is served the keys there, whoever wants one is
//! sent to and fro: so what the source takes is the latest. The slot is the source's all the time.
//!
//! Every step can be repeated: an answer that was lost, or a crash of whoever moves the slot, leaves
//! one of a few states that [`resume`] reads off the nodes. Nothing else has to be remembered.

use std::{fmt, time::Duration};

use crate::{Node, slot::Slot};

/// Keys moved at once.
pub const KEYS_MAX: usize = 64;
/// Failures in a row after which a migration waits to be resumed.
pub const FAILURES_MAX: u32 = 5;
/// After a failure the same step is tried again so much later, times the failures in a row.
const PATIENCE: Duration = Duration::from_millis(200);

/// What is to be said to one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// `CLUSTER SETSLOT slot IMPORTING source`.
    Import {
        /// Where it comes from.
        from: Node,
    },
    /// `CLUSTER SETSLOT slot MIGRATING target`.
    Migrate {
        /// Where it goes.
        to: Node,
    },
    /// `CLUSTER GETKEYSINSLOT slot KEYS_MAX`.
    Keys,
    /// `MIGRATE target … REPLACE KEYS …`.
    Move {
        /// Where they go.
        to: Node,
        /// The keys.
        keys: Vec<Vec<u8>>,
    },
    /// `CLUSTER SETSLOT slot NODE owner`.
    Own {
        /// Whose the slot is from now on.
        owner: Node,
    },
    /// `CLUSTER SETSLOT slot STABLE`.
    Stable,
    /// The values of keys at the target, to which nobody can write them before they are dropped.
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
    /// The target drops keys that the source has taken, and serves others again to who is sent there.
    Drop {
        /// The source.
        from: Node,
        /// The keys.
        keys: Vec<Vec<u8>>,
    },
}

/// A key with its value, on its way back.
#[derive(Clone, PartialEq, Eq)]
pub struct Value {
    /// The key.
    pub key: Vec<u8>,
    /// As `DUMP` says it.
    pub value: Vec<u8>,
    /// Milliseconds since 1970 at which it expires; 0: never.
    pub expires_ms: u64,
}

impl fmt::Debug for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Value").field("key", &self.key).finish_non_exhaustive()
    }
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// Keys of the slot, of [`Step::Keys`].
    Keys(Vec<Vec<u8>>),
    /// The values there are, of [`Step::Read`].
    Values(Vec<Value>),
    /// The target has refused keys, of [`Step::Move`], and this is why.
    Refused(String),
    /// It was not done, or nobody knows: the connection was lost, the time was over.
    Failed,
}

/// A slot on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    slot: Slot,
    from: Node,
    to: Node,
    stage: Stage,
    /// Keys may be at the target.
    begun: bool,
    /// Why the target has refused keys.
    refusal: Option<String>,
    failures: u32,
    not_before: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    Import,
    Migrate,
    Keys,
    Move(Vec<Vec<u8>>),
    OwnAtTarget,
    OwnAtSource,
    /// The target is to serve nobody, give back what it has, and then the source is to forget it.
    BackAtTarget,
    BackKeys,
    Read(Vec<Vec<u8>>),
    Restore(Vec<Vec<u8>>, Vec<Value>),
    Drop(Vec<Vec<u8>>),
    BackAtSource,
    Over(End),
}

/// How a migration ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The slot is at its new node.
    Moved,
    /// The slot is where it was, and nothing is open.
    Stayed,
    /// The same, as the target has refused it, and this is why.
    Refused(String),
    /// A node cannot be reached. Whoever comes next resumes it.
    Open,
}

impl Migration {
    /// Moves `slot`.
    #[must_use]
    pub fn new(slot: Slot, from: Node, to: Node) -> Self {
        let (stage, begun, failures, not_before) = (Stage::Import, false, 0, Duration::ZERO);
        Self { slot, from, to, stage, begun, refusal: None, failures, not_before }
    }

    /// The slot.
    #[must_use]
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// Where it comes from, and where it goes.
    #[must_use]
    pub fn way(&self) -> (Node, Node) {
        (self.from, self.to)
    }

    /// What is to be said to whom now; nothing while it waits, or once it has ended.
    #[must_use]
    pub fn ready(&self, now: Duration) -> Option<(Node, Step)> {
        if now < self.not_before {
            return None;
        }
        let (from, to) = (self.from, self.to);
        Some(match &self.stage {
            Stage::Import => (to, Step::Import { from }),
            Stage::Migrate => (from, Step::Migrate { to }),
            Stage::Keys => (from, Step::Keys),
            Stage::Move(keys) => (from, Step::Move { to, keys: keys.clone() }),
            Stage::OwnAtTarget => (to, Step::Own { owner: to }),
            Stage::OwnAtSource => (from, Step::Own { owner: to }),
            Stage::BackAtTarget => (to, Step::Stable),
            Stage::BackKeys => (to, Step::Keys),
            Stage::Read(keys) => (to, Step::Read { from, keys: keys.clone() }),
            Stage::Restore(_, values) => (from, Step::Restore { to, values: values.clone() }),
            Stage::Drop(keys) => (to, Step::Drop { from, keys: keys.clone() }),
            Stage::BackAtSource => (from, Step::Stable),
            Stage::Over(_) => return None,
        })
    }

    /// The step that was ready has come to this.
    pub fn step(&mut self, outcome: Outcome, now: Duration) {
        // Asked or only perhaps asked, the source may send clients to the target from now on.
        self.begun |= self.stage == Stage::Migrate;
        if matches!(self.stage, Stage::Move(_)) {
            self.refusal = None;
        }
        match outcome {
            Outcome::Failed => return self.fail(now),
            Outcome::Refused(why) => {
                self.refusal = Some(why);
                return self.fail(now);
            }
            _ => self.failures = 0,
        }
        self.stage = match (&mut self.stage, outcome) {
            (Stage::Import, _) => Stage::Migrate,
            (Stage::Migrate | Stage::Move(_), _) => Stage::Keys,
            (Stage::Keys, Outcome::Keys(keys)) if !keys.is_empty() => Stage::Move(keys),
            (Stage::Keys, _) => Stage::OwnAtTarget,
            // From here on the target has it: the cluster agrees whatever happens to us.
            (Stage::OwnAtTarget, _) => Stage::OwnAtSource,
            (Stage::OwnAtSource, _) => Stage::Over(End::Moved),
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
                Stage::Over(self.refusal.take().map_or(End::Stayed, End::Refused))
            }
            (Stage::Over(end), _) => Stage::Over(end.clone()),
        };
    }

    /// How it ended, once it has.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        match &self.stage {
            Stage::Over(end) => Some(end.clone()),
            _ => None,
        }
    }

    fn fail(&mut self, now: Duration) {
        self.failures += 1;
        self.not_before = now + PATIENCE * self.failures;
        if self.failures < FAILURES_MAX {
            return;
        }
        self.failures = 0;
        self.stage = match &mut self.stage {
            Stage::Import if !self.begun => Stage::BackAtTarget,
            Stage::Move(_) if self.refusal.is_some() => Stage::BackAtTarget,
            _ => Stage::Over(End::Open),
        };
    }
}

/// What one node says of a slot (`CLUSTER NODES`, `CLUSTER COUNTKEYSINSLOT`) that is more than
/// "closed".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It is mine and goes to that node.
    Migrating(Node),
    /// It comes from that node, and so many of its keys are here.
    Importing(Node, u64),
    /// It is not mine, I know of no migration, and so many of its keys are here: what a failover in
    /// the middle leaves, as replicas know nothing of migrations.
    Holding(u64),
}

/// What is to be done about a slot that somebody has left open: `owner` is whose it is, by the nodes'
/// agreement, and `claims` what nodes say of it. Nothing if it is closed.
#[must_use]
pub fn resume(slot: Slot, owner: Node, claims: &[(Node, Claim)]) -> Option<Migration> {
    let begin =
        |from, to, stage, begun| Some(Migration { stage, begun, ..Migration::new(slot, from, to) });
    let migrating = claims.iter().find(|(_, claim)| matches!(claim, Claim::Migrating(_)));
    let &(node, claim) = migrating.or_else(|| claims.first())?;
    match claim {
        // The target owned it before the source heard: only the closing is left.
        Claim::Migrating(to) if owner == to => begin(node, to, Stage::OwnAtSource, true),
        // Keys may have gone. Forward none is lost, and none can be written at both.
        Claim::Migrating(to) => begin(node, to, Stage::Import, true),
        Claim::Importing(from, _) if owner == node => begin(from, node, Stage::OwnAtTarget, true),
        Claim::Holding(_) if owner == node => None,
        // Nobody is sent there any more, and nobody was while keys could be written.
        Claim::Importing(from, 0) => begin(from, node, Stage::BackAtTarget, false),
        Claim::Importing(..) | Claim::Holding(_) => begin(owner, node, Stage::Import, true),
    }
}

#[cfg(test)]
mod tests;
