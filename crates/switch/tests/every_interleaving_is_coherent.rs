//! The per-key protocol, model-checked: packets between clients, switch, controller and agent are
//! reordered, lost and duplicated, while keys are inserted and evicted, leases expire and the agent
//! restarts, in every order within the budgets below.
//!
//! The agent is the real one. Switch and controller are models of `bpf/netcache.h` and
//! `controller.rs` for one key (`interleaving/`). Checked in every state: the value that the switch
//! may serve is the value that the server stores, whatever an outside attacker sends from any of
//! their addresses. After a write that bypasses the agent, this holds again once the agent has
//! learned of the write and has nothing pending; and the served value is never older than an
//! acknowledged write.
#![allow(clippy::print_stdout, reason = "a test says what it skips and what it saw")]

#[expect(unreachable_pub, reason = "a part of this test")]
mod interleaving;

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use interleaving::{Broken, Budgets, State};

/// Returns the number of states seen, or the shortest path found to a stale read.
fn explore(budgets: Budgets, broken: Broken, states_max: usize) -> Result<usize, Vec<String>> {
    let mut seen: HashSet<u64> = HashSet::new();
    let mut ways: Vec<(usize, String)> = vec![(0, "begin".into())];
    let mut layer = vec![(0, State::new(budgets, broken))];
    while !layer.is_empty() {
        let mut next_layer = Vec::new();
        for (way, state) in layer {
            for (what, mut next) in state.steps(broken) {
                // States that differ only in statistics are the same.
                let mut hasher = DefaultHasher::new();
                next.agent.forget_statistics();
                next.hash(&mut hasher);
                if !seen.insert(hasher.finish()) {
                    continue;
                }
                ways.push((way, what));
                if !next.is_coherent() {
                    let mut path = vec![format!("{next:#?}")];
                    let mut at = ways.len() - 1;
                    while at != 0 {
                        path.push(ways[at].1.clone());
                        at = ways[at].0;
                    }
                    path.reverse();
                    return Err(path);
                }
                next_layer.push((ways.len() - 1, next));
            }
            assert!(seen.len() <= states_max, "more than {states_max} states");
        }
        layer = next_layer;
    }
    Ok(seen.len())
}

const SMALL: Budgets = Budgets {
    writes: 2,
    changes: 0,
    losses: 0,
    repeats: 1,
    inserts: 1,
    evictions: 0,
    moves: 0,
    resends: 0,
    lapses: 0,
    restarts: 0,
    forgeries: 0,
};

fn holds(budgets: Budgets) {
    match explore(budgets, Broken::default(), 20_000_000) {
        Ok(states) => println!("{states} states of {budgets:?} are coherent"),
        Err(path) => panic!("stale:\n{}", path.join("\n")),
    }
}

#[test]
fn writes_inserts_losses_and_repeats() {
    holds(SMALL);
    holds(Budgets { losses: 1, resends: 1, repeats: 0, ..SMALL });
    holds(Budgets { evictions: 1, inserts: 2, repeats: 0, ..SMALL });
}

#[test]
fn values_that_move_to_another_row() {
    holds(Budgets { moves: 1, ..SMALL });
    holds(Budgets { moves: 2, writes: 1, losses: 1, resends: 1, ..SMALL });
    holds(Budgets { moves: 1, writes: 1, changes: 1, ..SMALL });
    holds(Budgets { moves: 1, writes: 1, lapses: 1, repeats: 0, ..SMALL });
    holds(Budgets { moves: 1, writes: 1, restarts: 1, repeats: 0, ..SMALL });
    holds(Budgets { moves: 1, writes: 1, forgeries: 1, repeats: 0, ..SMALL });
}

#[test]
fn writes_around_the_agent() {
    let around = Budgets { writes: 1, changes: 1, ..SMALL };
    holds(around);
    holds(Budgets { changes: 2, repeats: 0, ..around });
    holds(Budgets { losses: 1, resends: 1, repeats: 0, ..around });
    holds(Budgets { evictions: 1, inserts: 2, repeats: 0, ..around });
    holds(Budgets { lapses: 1, repeats: 0, ..around });
}

#[test]
fn leases_and_restarts() {
    holds(Budgets { writes: 1, lapses: 1, repeats: 0, ..SMALL });
    holds(Budgets { writes: 1, restarts: 1, repeats: 0, ..SMALL });
}

/// Messages of every operation, from every address, on every path.
#[test]
fn messages_of_a_sender_that_may_send_none() {
    let hostile = Budgets { writes: 1, forgeries: 1, repeats: 0, ..SMALL };
    holds(hostile);
    holds(Budgets { evictions: 1, inserts: 2, ..hostile });
    holds(Budgets { writes: 0, restarts: 1, ..hostile });
    // A question, its answer, and a write.
    holds(Budgets { writes: 0, forgeries: 3, ..hostile });
    // The rule for interfaces keeps foreign values from being served; unguessable versions keep the
    // switch coherent even without the rule.
    let takes_all = Broken { takes_all: true, ..Broken::default() };
    explore(hostile, takes_all, 5_000_000).expect("valid versions cannot be guessed");
}

#[test]
#[ignore = "minutes: make soak"]
fn many_messages_of_a_sender_that_may_send_none() {
    let hostile = Budgets { writes: 1, forgeries: 2, repeats: 0, ..SMALL };
    holds(hostile);
    holds(Budgets { writes: 2, forgeries: 1, ..hostile });
    holds(Budgets { forgeries: 1, losses: 1, resends: 1, ..hostile });
    holds(Budgets { forgeries: 1, changes: 1, ..hostile });
    holds(Budgets { forgeries: 1, lapses: 1, ..hostile });
}

#[test]
#[ignore = "a minute: make soak"]
fn everything_at_once() {
    let most = Budgets { evictions: 1, inserts: 2, repeats: 1, losses: 1, resends: 1, ..SMALL };
    holds(most);
    // With duplicates or leases this needs more than 8 GiB.
    holds(Budgets { changes: 1, repeats: 0, ..most });
    holds(Budgets { writes: 2, lapses: 1, restarts: 1, repeats: 0, ..SMALL });
    holds(Budgets { writes: 1, changes: 2, losses: 1, resends: 1, repeats: 0, ..SMALL });
}

#[test]
fn each_rule_is_needed() {
    for (broken, budgets) in [
        (Broken { any_update: true, ..Broken::default() }, SMALL),
        (Broken { no_tags: true, any_update: true, ..Broken::default() }, SMALL),
        (
            Broken { late_install: true, ..Broken::default() },
            Budgets { evictions: 1, lapses: 1, ..SMALL },
        ),
        (
            Broken { keeps_entries: true, ..Broken::default() },
            Budgets { restarts: 1, lapses: 0, ..SMALL },
        ),
        (
            Broken { hears_when_idle: true, ..Broken::default() },
            Budgets { changes: 1, writes: 1, ..SMALL },
        ),
        (Broken { moves_any: true, ..Broken::default() }, Budgets { moves: 1, ..SMALL }),
        (
            Broken { believes_tags: true, ..Broken::default() },
            Budgets { writes: 0, forgeries: 1, ..SMALL },
        ),
        // The trusted part: an attacker cannot read the messages between switch, agent and
        // controller.
        (
            Broken { readable: true, ..Broken::default() },
            Budgets { writes: 1, forgeries: 1, ..SMALL },
        ),
    ] {
        let path = explore(budgets, broken, 5_000_000).expect_err(&format!("{broken:?} is found"));
        println!("{broken:?}: stale after {} steps", path.len() - 1);
    }
}
