//! The possible next steps.

use std::time::Duration;

use switch::agent::Config;
use wire::netcache::{Message, Op};

use super::{ASKED, Broken, End, KEY, State, agent, drawn};

impl State {
    /// Every state one step away, with what was done.
    pub fn steps(&self, broken: Broken) -> Vec<(String, Self)> {
        let mut steps = Vec::new();
        let mut step = |what: String, change: &dyn Fn(&mut Self)| {
            let mut next = self.clone();
            change(&mut next);
            steps.push((what, next));
        };
        for (index, packet) in self.network.iter().enumerate() {
            let said = Message::decode(&packet.bytes).expect("our own");
            let name = format!("{:?} {} to {:?}", said.op, said.version, packet.to);
            step(format!("deliver {name}"), &|next| {
                let packet = next.network.remove(index);
                next.deliver(&packet, broken);
            });
            if self.budgets.repeats > 0 {
                step(format!("deliver and keep {name}"), &|next| {
                    next.budgets.repeats -= 1;
                    next.deliver(packet, broken);
                });
            }
            if self.budgets.losses > 0 {
                step(format!("lose {name}"), &|next| {
                    next.budgets.losses -= 1;
                    next.network.remove(index);
                });
            }
        }
        let left = &self.budgets;
        if left.writes > 0 {
            step("write".into(), &|next| {
                let number = next.budgets.writes;
                next.budgets.writes -= 1;
                let value = [number];
                let put = Message { value: &value, ..Message::new(Op::Put, 1, KEY) };
                next.send(End::Client(number), End::Switch, &put);
            });
        }
        if left.changes > 0 {
            step("write around the agent".into(), &|next| {
                next.budgets.changes -= 1;
                next.store.around(&[100 + next.budgets.changes]);
                next.unheard = true;
            });
        }
        if self.unheard {
            step("the agent hears of it".into(), &|next| {
                next.unheard = false;
                if next.is_idle() || !broken.hears_when_idle {
                    next.agent.changed(KEY, &mut next.store, next.now);
                    next.flush_agent();
                }
            });
        }
        if left.resends > 0 && self.agent.poll_timeout().is_some() {
            step("send again".into(), &|next| {
                next.budgets.resends -= 1;
                next.now += Config::default().resend_max;
                next.agent.handle_timeout(&mut next.store, next.now);
                next.flush_agent();
            });
        }
        self.steps_of_the_controller(broken, &mut step);
        self.steps_of_leases(broken, &mut step);
        self.steps_of_hostility(broken, &mut step);
        steps
    }

    fn steps_of_the_controller(
        &self,
        broken: Broken,
        step: &mut impl FnMut(String, &dyn Fn(&mut Self)),
    ) {
        let left = &self.budgets;
        if left.moves > 0 && self.entry.is_some() {
            step("move the value".into(), &|next| {
                next.budgets.moves -= 1;
                if let Some(entry) = &mut next.entry
                    && (entry.valid_version == entry.version || broken.moves_any)
                {
                    entry.version += 1;
                    entry.valid_version = entry.version;
                }
            });
        }
        if left.inserts > 0 && self.entry.is_none() && self.pending.is_none() {
            step("fetch".into(), &|next| {
                next.budgets.inserts -= 1;
                next.versions += 1;
                let version = drawn(next.versions);
                next.pending = Some(version);
                let ask = Message { version, ..Message::new(Op::Fetch, 0, KEY) };
                next.send(End::Controller, End::Agent, &ask);
            });
        }
        if left.evictions > 0 && (self.entry.is_some() || self.pending.is_some()) {
            step("evict or give up".into(), &|next| {
                next.budgets.evictions -= 1;
                next.entry = None;
                next.pending = None;
            });
        }
    }

    fn steps_of_leases(&self, broken: Broken, step: &mut impl FnMut(String, &dyn Fn(&mut Self))) {
        let left = &self.budgets;
        if !self.leases {
            return;
        }
        if self.lease && left.lapses > 0 {
            step("the switch's lease ends".into(), &|next| next.lease = false);
        }
        if !self.lease && left.lapses > 0 {
            step("the agent's lease ends".into(), &|next| {
                next.budgets.lapses -= 1;
                next.promise += 1;
                next.now += Duration::from_secs(10);
                next.agent.handle_timeout(&mut next.store, next.now);
                next.flush_agent();
            });
        }
        if left.restarts > 0 {
            step("the agent restarts".into(), &|next| {
                next.budgets.restarts -= 1;
                next.agent = agent(next.generation + 50, next.now, broken);
            });
        }
        let asked = self.network.iter().any(|packet| {
            Message::decode(&packet.bytes)
                .is_ok_and(|said| matches!(said.op, Op::Lease | Op::Leased))
        });
        if !asked {
            step("ask for the lease".into(), &|next| {
                let version = next.generation;
                let ask = Message { version, ..Message::new(Op::Lease, ASKED, [0; 16]) };
                next.send(End::Controller, End::Agent, &ask);
            });
        }
    }
}
