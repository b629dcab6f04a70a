//! Execution of a step by a node.

use super::*;

impl Cluster {
    /// The outcome of a step at the node; `None` if the node refuses it.
    pub(in super::super) fn run(&mut self, node: Node, step: &Step) -> Outcome {
        let owns = self.at(node).owner.1 == node.0;
        match step {
            Step::Import { from } if !owns => self.at(node).importing = Some(*from),
            Step::Turn { to, turn } if owns => {
                let third = other(node, *to);
                let server = self.at(node);
                let Some((whose, batch, keys)) = &mut server.note else {
                    (server.note, server.migrating) = (Some((*turn, *turn, vec![])), Some(*to));
                    return Outcome::Done;
                };
                (*whose, server.migrating) = (*turn, Some(third));
                return Outcome::Noted(*batch, keys.clone());
            }
            Step::Settle { batch, keys } if owns || self.at(node).importing.is_some() => {
                self.late.retain(|&(to, ..)| to != node || !self.settles);
                let settles = self.settles;
                let server = self.at(node);
                if let Some((_, _, noted)) = server.note.take_if(|note| note.1 == *batch && settles)
                {
                    let keys = if keys.is_empty() { &noted } else { keys };
                    server.keys.retain(|key, _| !keys.contains(&vec![*key]));
                }
            }
            Step::Send { to, turn } if owns && self.is_turn(node, *turn) => {
                let (server, next) = (self.at(node), turn + 1);
                (server.note, server.migrating) = (Some((next, next, vec![])), Some(*to));
            }
            Step::Move { to, turn } if owns && self.is_turn(node, *turn) => {
                return self.migrate(node, *to, *turn);
            }
            Step::Keys => {
                let keys = self.at(node).keys.keys().take(KEYS_MAX).map(|&key| vec![key]);
                return Outcome::Keys(keys.collect());
            }
            Step::Own { owner } if !self.hand_over(node, *owner, owns) => return Outcome::Failed,
            Step::Own { .. } => {}
            Step::Read { keys, .. } if !owns => {
                self.at(node).importing = None;
                return Outcome::Values(self.values(node, keys));
            }
            Step::Restore { to, values } if owns => {
                for Value { key, value, .. } in values {
                    let value = u64::from_le_bytes(value[..].try_into().expect("eight bytes"));
                    self.at(node).keys.entry(key[0]).or_insert(value);
                }
                self.at(node).migrating = Some(*to);
            }
            Step::Drop { from, keys } if !owns => {
                self.at(node).importing = Some(*from);
                self.at(node).keys.retain(|key, _| !keys.contains(&vec![*key]));
            }
            Step::Stable => {
                let server = self.at(node);
                server.forget_note(owns);
                (server.migrating, server.importing) = (None, None);
            }
            Step::Import { .. }
            | Step::Turn { .. }
            | Step::Settle { .. }
            | Step::Send { .. }
            | Step::Move { .. }
            | Step::Read { .. }
            | Step::Restore { .. }
            | Step::Drop { .. } => return Outcome::Failed,
        }
        Outcome::Done
    }

    /// Sets `owner` as the owner of the slot at `node`; false if it refuses because it still has
    /// keys of the slot.
    fn hand_over(&mut self, node: Node, owner: Node, owns: bool) -> bool {
        self.wait();
        if owner == node {
            if self.at(node).importing.take().is_some() || owns {
                self.epoch += 1;
                (self.at(node).owner, self.at(node).note) = ((self.epoch, node.0), None);
                self.tell(node);
            } else {
                // It claims the slot with no new epoch, so others may not accept it, and sends no
                // broadcast.
                self.at(node).owner.1 = node.0;
            }
            return true;
        }
        self.at(node).forget_note(owns);
        if owns && !self.at(node).keys.is_empty() {
            return false;
        }
        let epoch = self.at(owner).owner.0.max(self.at(node).owner.0);
        self.at(node).owner = (epoch, owner.0);
        self.at(node).migrating = None;
        true
    }

    /// Those of `keys` that the node has, with their values.
    fn values(&self, node: Node, keys: &[Vec<u8>]) -> Vec<Value> {
        let value = |key: &Vec<u8>| {
            let value = self.servers[usize::from(node.0)].keys.get(&key[0])?;
            let (key, value) = (key.clone(), value.to_le_bytes().to_vec());
            Some(Value { key, value, expires_ms: 0 })
        };
        keys.iter().filter_map(value).collect()
    }

    fn is_turn(&self, node: Node, turn: u64) -> bool {
        self.servers[usize::from(node.0)].note.as_ref().is_some_and(|note| note.0 == turn)
    }

    /// The script of [`Step::Move`]: no other request is served during it.
    fn migrate(&mut self, node: Node, to: Node, turn: u64) -> Outcome {
        let before = self.at(node).clone();
        let batch: Vec<(u8, u64)> =
            before.keys.iter().take(BATCH).map(|(&key, &value)| (key, value)).collect();
        if batch.is_empty() {
            self.at(node).note = None;
            return Outcome::Left(0);
        }
        let noted: Vec<Vec<u8>> = batch.iter().map(|&(key, _)| vec![key]).collect();
        let third = other(node, to);
        // The numbers of executed and of acknowledged commands; the others arrive later, or never.
        let (mut executed, mut acknowledged) = (batch.len(), batch.len());
        let target = self.at(to);
        let takes = target.importing.is_some() || target.owner.1 == to.0;
        let mut refused = !takes;
        let loses = self.loses && takes && self.chance.one_in(3);
        if loses {
            executed = self.chance.below(batch.len() + 1);
            acknowledged = self.chance.below(executed + 1);
        }
        // The note precedes the keys.
        if takes && (executed > 0 || self.chance.one_in(2)) {
            self.at(to).note = Some((turn, turn, noted));
        } else if loses {
            return self.lost(node, turn, third, &batch);
        }
        for (at, &(key, value)) in batch.iter().enumerate() {
            let may = takes && self.at(to).has_room(key);
            if at < executed && may {
                self.at(to).keys.insert(key, value);
                if at < acknowledged {
                    self.at(node).keys.remove(&key);
                }
            } else if at < executed {
                refused = true;
            } else if self.chance.one_in(2) {
                self.late.push((to, key, value));
            }
        }
        if loses && self.chance.one_in(3) {
            // The node is killed: the only effect of the script on disk is the redirection of
            // clients.
            *self.at(node) = Server { migrating: Some(third), ..before };
            return Outcome::Failed;
        }
        if !loses && !refused {
            let server = self.at(node);
            server.note = (!server.keys.is_empty()).then_some((turn + 1, turn + 1, vec![]));
            server.migrating = Some(to);
            return Outcome::Left(server.keys.len() as u64);
        }
        let failed = self.lost(node, turn, third, &batch);
        if refused { Outcome::Refused("OOM".to_owned()) } else { failed }
    }

    /// MIGRATE fails: the migration receives the keys with an unknown state.
    fn lost(&mut self, node: Node, turn: u64, third: Node, batch: &[(u8, u64)]) -> Outcome {
        let server = self.at(node);
        let left = batch.iter().filter(|(key, _)| server.keys.contains_key(key));
        let left: Vec<Vec<u8>> = left.map(|&(key, _)| vec![key]).collect();
        // A batch without remaining keys must not look like one whose note only the target has.
        let batch = if left.is_empty() { turn + 1 } else { turn };
        server.note = Some((turn, batch, left));
        server.migrating = Some(third);
        Outcome::Failed
    }
}
