//! Copies of slots that are read everywhere (beyond the paper): selects the slots that agents copy.
//!
//! The cost is that of [`crate::placement`]: waiting time per second. A slot can be near one host
//! only; copies save the waiting time of reads of the other hosts, unless the slot is written
//! between two reads of a host. The host that gains most is excluded, because placement can serve
//! it. The agents keep the copies coherent ([`crate::agent`]).

use std::collections::BTreeSet;

use crate::{
    placement::{Demand, Problem},
    slot::Slot,
};

/// A slot is copied when that saves at least this waiting time, in microseconds per second: one
/// client that waits one hundredth of its time.
pub const SAVES_US_MIN: f64 = 10_000.0;
/// A copied slot stays copied while the benefit is at least this share of the required one.
const KEPT_FROM: f64 = 0.5;
/// Maximum number of copied slots; those that save most are selected.
pub const SLOTS_MAX: usize = 1_024;
/// Minimum share of reads that copies must answer: a read without a copy costs its node three
/// commands instead of one.
const ANSWERED_MIN: f64 = 0.5;

/// The benefit of copies of a slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Use {
    /// Waiting time that they save its readers, in microseconds per second, without the reader that
    /// gains most.
    pub saves_us: f64,
    /// The share of all reads that they answer.
    pub answered: f64,
}

/// Returns the benefit that copies of this slot would have, or have.
#[must_use]
pub fn weigh(problem: &Problem<'_>, demand: &Demand) -> Use {
    let writes: f64 = demand.accesses.iter().map(|(_, rate)| rate.writes).sum();
    let (mut all, mut answered, mut saves, mut most) = (0.0, 0.0, 0.0, 0.0_f64);
    for &(host, rate) in &demand.accesses {
        let reads = rate.reads + rate.copied;
        // With reads and writes in random order, the probability that a read follows a read is the
        // share of reads.
        let after_reads = if reads > 0.0 { reads * reads / (reads + writes) } else { 0.0 };
        (all, answered) = (all + reads, answered + after_reads);
        let delay = f64::from(problem.delays.between(host, demand.owner));
        if delay.is_finite() {
            saves += after_reads * delay;
            most = most.max(after_reads * delay);
        }
    }
    Use { saves_us: saves - most, answered: if all > 0.0 { answered / all } else { 0.0 } }
}

/// The slots to be copied, if those of `before` are now. Pinned slots may be.
#[must_use]
pub fn choose(problem: &Problem<'_>, before: &BTreeSet<Slot>) -> BTreeSet<Slot> {
    let mut chosen: Vec<(f64, Slot)> = Vec::new();
    for demand in problem.demands {
        let kept = if before.contains(&demand.slot) { KEPT_FROM } else { 1.0 };
        let Use { saves_us, answered } = weigh(problem, demand);
        if saves_us >= SAVES_US_MIN * kept && answered >= ANSWERED_MIN * kept {
            chosen.push((saves_us, demand.slot));
        }
    }
    chosen.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    chosen.truncate(SLOTS_MAX);
    chosen.into_iter().map(|(_, slot)| slot).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        Host, Node,
        accesses::Rate,
        delays::Matrix,
        placement::{Capacity, MoveCost},
    };

    /// Whether a slot at node 0 is copied that three hosts use: the first one reads and writes at
    /// these rates, the others read; all but `copied` reads reach the node.
    fn chosen(writes: f64, reads: [f64; 3], copied: f64, before: bool) -> bool {
        let mut delays = Matrix::unknown(3, 1);
        for host in 0..3 {
            let us = if host == 0 { 50 } else { 5_000 };
            delays.set(Host(host), Node(0), Duration::from_micros(us));
        }
        let slot = Slot::of(b"a");
        let rate = |host: u16| {
            let all = reads[usize::from(host)];
            let writes = if host == 0 { writes } else { 0.0 };
            Rate { reads: all * (1.0 - copied), writes, bytes: 0.0, copied: all * copied }
        };
        let accesses = (0..3).map(|host| (Host(host), rate(host))).collect();
        let demands = [Demand { slot, owner: Node(0), bytes: 1, accesses, pinned: false }];
        let nodes = [Capacity { bytes: 9, accesses: 1e9, replication_us: 0.0 }];
        let moving = MoveCost { fixed_us: 0.0, per_byte_us: 0.0, dwell_s: 1.0 };
        let problem = Problem { delays: &delays, nodes: &nodes, demands: &demands, moving };
        let before = if before { [slot].into() } else { BTreeSet::new() };
        choose(&problem, &before).contains(&slot)
    }

    #[test]
    fn what_is_read_everywhere_is_copied_and_what_one_host_reads_is_moved() {
        assert!(chosen(1.0, [0.0, 50.0, 50.0], 0.0, false));
        assert!(!chosen(1.0, [0.0, 500.0, 0.0], 0.0, false));
        // Four of five reads are the first after a write.
        assert!(!chosen(200.0, [0.0, 50.0, 50.0], 0.0, false));
        assert!(chosen(40.0, [0.0, 50.0, 50.0], 0.0, false));
        assert!(!chosen(60.0, [0.0, 50.0, 50.0], 0.0, false));
        assert!(chosen(60.0, [0.0, 50.0, 50.0], 0.0, true));
    }

    #[test]
    fn what_copies_answer_counts_as_read() {
        assert!(chosen(1.0, [0.0, 50.0, 50.0], 0.98, true));
        // Two reads a second by only one more host: enough to keep the copies, not to begin.
        assert!(chosen(0.0, [0.0, 1.5, 1.5], 0.5, true));
        assert!(!chosen(0.0, [0.0, 1.5, 1.5], 0.5, false));
    }
}
