//! The nodes of the simulated cluster: their replies, their gossip, and the moves of slots between
//! them.

use super::*;

impl World {
    pub(super) fn serve(&mut self, link: usize) {
        loop {
            let wire = self.wires.get_mut(&link).expect("a wire");
            let decoded = Decoder::default().decode(&wire.input, &Limits::default());
            let Some((request, taken)) = decoded.expect("a command") else { return };
            let words: Vec<String> = request
                .arguments()
                .map(|word| String::from_utf8(word.to_vec()).expect("text"))
                .collect();
            wire.input.drain(..taken);
            let before = wire.from_node.len();
            let answer = self.execute(link, words);
            // A client gets invalidations of its own writes after their replies, as in Redis 7.
            let from_node = &mut self.wires.get_mut(&link).expect("a wire").from_node;
            let told = from_node.split_off(before);
            from_node.extend(answer.into_iter().chain(told));
        }
    }

    fn execute(&mut self, link: usize, words: Vec<String>) -> Vec<u8> {
        let wire = self.wires.get_mut(&link).expect("a wire");
        let node = wire.node;
        match words[0].as_str() {
            "ASKING" => {
                wire.asking = true;
                return b"+OK\r\n".to_vec();
            }
            "CLUSTER" if words[1] == "INFO" => return b"$16\r\ncluster_state:ok\r\n".to_vec(),
            "CLUSTER" => return self.slots(node),
            "HELLO" => return b"%1\r\n+proto\r\n:3\r\n".to_vec(),
            "CLIENT" => {
                wire.caching = words[1] == "CACHING";
                return b"+OK\r\n".to_vec();
            }
            "PTTL" if self.servers[node].keys.contains_key(&words[1]) => {
                return b":-1\r\n".to_vec();
            }
            "PTTL" => return b":-2\r\n".to_vec(),
            "PING" => return b"+PONG\r\n".to_vec(),
            "MULTI" => {
                wire.queued = Some((Vec::new(), false));
                return b"+OK\r\n".to_vec();
            }
            "EXEC" => {
                let asking = std::mem::take(&mut wire.asking);
                let (commands, failed) = wire.queued.take().expect("MULTI before EXEC");
                if failed {
                    return b"-EXECABORT Transaction discarded\r\n".to_vec();
                }
                let all: Vec<String> = commands.iter().map(|words| words[1].clone()).collect();
                if let Some(elsewhere) = self.redirect(node, asking, &all) {
                    return elsewhere;
                }
                let mut answer = format!("*{}\r\n", commands.len()).into_bytes();
                for words in commands {
                    answer.extend(self.apply(node, &words));
                }
                return answer;
            }
            _ => {}
        }
        let asking =
            if wire.queued.is_some() { wire.asking } else { std::mem::take(&mut wire.asking) };
        if words[0] == "FLUSHALL" {
            self.servers[node].keys.clear();
            tell_of_all(&mut self.wires, node);
            return b"+OK\r\n".to_vec();
        }
        let keys = match words[0].as_str() {
            "EXISTS" => words[1..].to_vec(),
            "MSET" => words[1..].iter().step_by(2).cloned().collect(),
            _ => vec![words[1].clone()],
        };
        let elsewhere = self.redirect(node, asking, &keys);
        let wire = self.wires.get_mut(&link).expect("a wire");
        match (&mut wire.queued, elsewhere) {
            (Some((_, failed)), Some(elsewhere)) => {
                *failed = true;
                elsewhere
            }
            (Some((commands, _)), None) => {
                commands.push(words);
                b"+QUEUED\r\n".to_vec()
            }
            (None, Some(elsewhere)) => elsewhere,
            (None, None) => {
                if std::mem::take(&mut wire.caching) {
                    wire.tracked.insert(words[1].clone());
                }
                self.apply(node, &words)
            }
        }
    }

    fn redirect(&mut self, node: usize, asking: bool, keys: &[String]) -> Option<Vec<u8>> {
        let (slot, server) = (slot_of(&keys[0]), &self.servers[node]);
        let distinct: BTreeSet<&String> = keys.iter().collect();
        let there = distinct.iter().filter(|key| server.keys.contains_key(**key)).count();
        let missing = distinct.len() - there;
        let number = Slot::of(keys[0].as_bytes()).number();
        let said = if server.owner[slot] == node {
            let to = server.migrating[slot].filter(|_| missing > 0)?;
            if there > 0 {
                "-TRYAGAIN x".to_owned()
            } else {
                format!("-ASK {number} {}", address(to))
            }
        } else if asking && server.importing[slot].is_some() {
            if distinct.len() < 2 || missing == 0 {
                return None;
            }
            "-TRYAGAIN x".to_owned()
        } else {
            format!("-MOVED {number} {}", address(server.owner[slot]))
        };
        self.redirected += 1;
        self.tried_again += u64::from(said.starts_with("-T"));
        Some(format!("{said}\r\n").into_bytes())
    }

    fn apply(&mut self, node: usize, words: &[String]) -> Vec<u8> {
        let keys = &mut self.servers[node].keys;
        let number = match words[0].as_str() {
            "RPUSH" => {
                tell_of_change(&mut self.wires, node, &words[1]);
                let list = keys.entry(words[1].clone()).or_default();
                list.push(words[2].parse().expect("a mark"));
                list.len()
            }
            "MSET" => {
                for pair in words[1..].chunks(2) {
                    tell_of_change(&mut self.wires, node, &pair[0]);
                    let list = keys.entry(pair[0].clone()).or_default();
                    list.push(pair[1].parse().expect("a mark"));
                }
                return b"+OK\r\n".to_vec();
            }
            "LLEN" => keys.get(&words[1]).map_or(0, Vec::len),
            _ => words[1..].iter().filter(|key| keys.contains_key(*key)).count(),
        };
        format!(":{number}\r\n").into_bytes()
    }

    fn slots(&self, node: usize) -> Vec<u8> {
        let of = |number: usize| {
            let owned = TAGS
                .iter()
                .enumerate()
                .filter(|&(slot, _)| self.servers[node].owner[slot] == number);
            let slots: String =
                owned.map(|(_, tag)| format!(" {}", Slot::of(tag.as_bytes()).number())).collect();
            format!("{number} {}@1 master - 0 0 1 connected{slots}\n", address(number))
        };
        let text: String = (0..NODES).map(of).collect();
        format!("${}\r\n{text}\r\n", text.len()).into_bytes()
    }

    /// Executes one step of the move of some slot.
    pub(super) fn migrate(&mut self) {
        let slot = self.some(3);
        let moving = (0..NODES).find(|&node| self.servers[node].migrating[slot].is_some());
        let Some(from) = moving else {
            let agreed = self.servers[0].owner[slot];
            let to = self.some(NODES);
            if self.servers.iter().all(|server| server.owner[slot] == agreed) {
                if to == agreed || self.now < self.settled[slot] + REST {
                    return;
                }
                self.servers[to].importing[slot] = Some(agreed);
                self.servers[agreed].migrating[slot] = Some(to);
                return;
            }
            // One node learns the owner.
            let owner =
                (0..NODES).find(|&node| self.servers[node].owner[slot] == node).expect("an owner");
            let node = self.some(NODES);
            self.servers[node].owner[slot] = owner;
            self.settled[slot] = self.now;
            return;
        };
        let to = self.servers[from].migrating[slot].expect("it is moving");
        let next = self.servers[from].keys.keys().find(|key| slot_of(key) == slot).cloned();
        if let Some(key) = next {
            tell_of_change(&mut self.wires, from, &key);
            let list = self.servers[from].keys.remove(&key).expect("it is there");
            let before = self.servers[to].keys.insert(key, list);
            assert_eq!(before, None, "two nodes have the key");
        } else if self.servers[to].owner[slot] == to {
            self.servers[from].migrating[slot] = None;
            self.servers[from].owner[slot] = to;
        } else {
            self.servers[to].importing[slot] = None;
            self.servers[to].owner[slot] = to;
        }
    }
}

/// Sends an invalidation of all keys to the connections that track any at `node`.
fn tell_of_all(wires: &mut BTreeMap<usize, Wire>, node: usize) {
    for wire in wires.values_mut().filter(|wire| wire.node == node && !wire.tracked.is_empty()) {
        wire.tracked.clear();
        wire.from_node.extend(b">2\r\n$10\r\ninvalidate\r\n_\r\n");
    }
}

/// Sends invalidations to the connections that track `key` at `node`.
fn tell_of_change(wires: &mut BTreeMap<usize, Wire>, node: usize, key: &str) {
    for wire in wires.values_mut().filter(|wire| wire.node == node) {
        if wire.tracked.remove(key) {
            let push = format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n{key}\r\n", key.len());
            wire.from_node.extend(push.into_bytes());
        }
    }
}
