//! Replicas of what is read everywhere (beyond the paper): which slots agents keep copies of.
//!
//! The same cost as in [`crate::placement`]: what is waited in a second. A slot can be near one host
//! only; what the others wait for their reads, copies can save, as far as the slot is not written. The
//! host that gains most is left out: that one placement can serve. How copies stay coherent is the
//! agents' business ([`crate::agent`]).

use std::collections::BTreeSet;

use crate::{
    placement::{Demand, Problem},
    slot::Slot,
};

/// A slot is copied when that saves so much waiting in a second, in microseconds: one client that waits
/// one hundredth of its time.
pub const SAVES_US_MIN: f64 = 10_000.0;
/// One that is copied stays so down to this share of it.
const KEPT_FROM: f64 = 0.5;
/// Slots copied at once; those that save most are.
pub const SLOTS_MAX: usize = 1_024;
/// What every write costs a host that has copies, in reads that wait: one that finds no copy, and the
/// question when its key expires.
const READS_PER_WRITE: f64 = 2.0;

/// What copies of a slot save its readers in a second, in microseconds, the one that gains most left
/// out.
#[must_use]
pub fn saves_us(problem: &Problem<'_>, demand: &Demand) -> f64 {
    let writes: f64 = demand.accesses.iter().map(|(_, rate)| rate.writes).sum();
    let gains = demand.accesses.iter().filter_map(|&(host, rate)| {
        let delay = f64::from(problem.delays.between(host, demand.owner));
        let saved = rate.reads + rate.copied - READS_PER_WRITE * writes;
        (delay.is_finite() && saved > 0.0).then_some(saved * delay)
    });
    let (sum, most) = gains.fold((0.0, 0.0_f64), |(sum, most), gain| (sum + gain, most.max(gain)));
    sum - most
}

/// The slots to be copied, if those of `before` are now. Pinned slots may be.
#[must_use]
pub fn choose(problem: &Problem<'_>, before: &BTreeSet<Slot>) -> BTreeSet<Slot> {
    let mut chosen: Vec<(f64, Slot)> = Vec::new();
    for demand in problem.demands {
        let kept = if before.contains(&demand.slot) { KEPT_FROM } else { 1.0 };
        let saves = saves_us(problem, demand);
        if saves >= SAVES_US_MIN * kept {
            chosen.push((saves, demand.slot));
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

    /// Of a slot at node 0 that three hosts use: the first reads and writes so often a second, and the
    /// others read, all but `copied` of them at the node.
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
        assert!(!chosen(25.0, [0.0, 50.0, 50.0], 0.0, false));
    }

    #[test]
    fn what_copies_answer_counts_as_read() {
        assert!(chosen(1.0, [0.0, 50.0, 50.0], 0.98, true));
        // Two reads a second that nobody else gains by: enough to stay, too little to begin.
        assert!(chosen(0.0, [0.0, 1.5, 1.5], 0.5, true));
        assert!(!chosen(0.0, [0.0, 1.5, 1.5], 0.5, false));
    }
}
