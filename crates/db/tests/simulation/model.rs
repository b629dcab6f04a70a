//! The oracle: the database as a map, and the expected replies.

use std::collections::BTreeMap;

/// A database's number, and a key.
pub(crate) type Name = (u8, Vec<u8>);
/// The words of a command.
pub(crate) type Words = Vec<Vec<u8>>;

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) value: Vec<u8>,
    /// Expiry in milliseconds since the Unix epoch.
    pub(crate) ends: Option<u64>,
    /// A version that changes with every write.
    version: u64,
}

/// The connection state of a client.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    pub(crate) database: u8,
    pub(crate) queue: Option<Vec<Words>>,
    watched: Vec<(Name, Option<u64>)>,
}

/// The expected reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Exactly(Vec<u8>),
    /// An array of these, in any order.
    InAnyOrder(Vec<Vec<u8>>),
    /// One of these, or null if there are none.
    OneOf(Vec<Vec<u8>>),
    /// A number from the first to the second.
    Between(usize, usize),
}

/// All databases.
#[derive(Debug, Default)]
pub(crate) struct Model {
    keys: BTreeMap<Name, Held>,
    versions: u64,
    /// Keys that were read or written since they were last taken.
    pub(crate) touched: Vec<Name>,
    now_ms: u64,
}

impl Model {
    /// Returns the present value of the key.
    pub(crate) fn held(&mut self, name: &Name, now_ms: u64) -> Option<&Held> {
        self.keys.get(name).filter(|held| held.ends.is_none_or(|ends| ends > now_ms))
    }

    /// Returns the last value of the key, even if it has expired.
    pub(crate) fn raw(&self, name: &Name) -> Option<(Vec<u8>, Option<u64>)> {
        self.keys.get(name).map(|held| (held.value.clone(), held.ends))
    }

    /// Sets the value of the key.
    pub(crate) fn set(&mut self, name: Name, held: Option<(Vec<u8>, Option<u64>)>) {
        self.versions += 1;
        self.touched.push(name.clone());
        match held {
            Some((value, ends)) => {
                self.keys.insert(name, Held { value, ends, version: self.versions });
            }
            None => drop(self.keys.remove(&name)),
        }
    }

    /// The keys of a database.
    pub(crate) fn names(&self, database: u8, now_ms: u64) -> Vec<Vec<u8>> {
        let is_there = |held: &Held| held.ends.is_none_or(|ends| ends > now_ms);
        let own = self.keys.iter().filter(|((at, _), held)| *at == database && is_there(held));
        own.map(|((_, key), _)| key.clone()).collect()
    }

    /// Executes a client's command; returns the expected reply.
    pub(crate) fn answer(&mut self, talk: &mut Talk, words: &[Vec<u8>], now_ms: u64) -> Answer {
        self.now_ms = now_ms;
        let verb = words[0].as_slice();
        if let Some(queue) = &mut talk.queue
            && !matches!(verb, b"EXEC" | b"DISCARD" | b"MULTI" | b"WATCH")
        {
            queue.push(words.to_vec());
            return Answer::Exactly(b"+QUEUED\r\n".to_vec());
        }
        match verb {
            b"KEYS" => Answer::InAnyOrder(self.names(talk.database, now_ms)),
            b"RANDOMKEY" => Answer::OneOf(self.names(talk.database, now_ms)),
            // Expired keys count until their expiry is noticed.
            b"DBSIZE" => {
                let all = self.keys.keys().filter(|(at, _)| *at == talk.database).count();
                Answer::Between(self.names(talk.database, now_ms).len(), all)
            }
            b"EXEC" => Answer::Exactly(self.execute(talk)),
            _ => Answer::Exactly(self.perform(talk, words)),
        }
    }

    /// A client's transaction ends without effect.
    pub(crate) fn discard(&mut self, talk: &mut Talk) {
        (talk.queue, talk.watched) = (None, Vec::new());
    }

    fn execute(&mut self, talk: &mut Talk) -> Vec<u8> {
        let Some(queue) = talk.queue.take() else {
            return b"-ERR EXEC without MULTI\r\n".to_vec();
        };
        let watched = std::mem::take(&mut talk.watched);
        if watched.iter().any(|(name, version)| self.version(name) != *version) {
            return b"*-1\r\n".to_vec();
        }
        let mut out = format!("*{}\r\n", queue.len()).into_bytes();
        queue.iter().for_each(|words| out.extend(self.perform(talk, words)));
        out
    }

    fn version(&mut self, name: &Name) -> Option<u64> {
        let now_ms = self.now_ms;
        self.held(name, now_ms).map(|held| held.version)
    }

    fn look(&mut self, name: &Name) -> Option<Held> {
        self.touched.push(name.clone());
        let now_ms = self.now_ms;
        self.held(name, now_ms).cloned()
    }

    fn perform(&mut self, talk: &mut Talk, words: &[Vec<u8>]) -> Vec<u8> {
        let name = |at: usize| (talk.database, words[at].clone());
        let text = |at: usize| std::str::from_utf8(&words[at]).expect("text");
        let number = |at: usize| text(at).parse::<i64>().expect("a number");
        match words[0].as_slice() {
            b"PING" => b"+PONG\r\n".to_vec(),
            b"RESCALE" => ok(),
            b"SELECT" => {
                talk.database = number(1) as u8;
                ok()
            }
            b"MULTI" if talk.queue.is_some() => b"-ERR MULTI calls can not be nested\r\n".to_vec(),
            b"MULTI" => {
                talk.queue = Some(Vec::new());
                ok()
            }
            b"DISCARD" if talk.queue.is_none() => b"-ERR DISCARD without MULTI\r\n".to_vec(),
            b"DISCARD" => {
                self.discard(talk);
                ok()
            }
            b"WATCH" if talk.queue.is_some() => {
                b"-ERR WATCH inside MULTI is not allowed\r\n".to_vec()
            }
            b"WATCH" => {
                let name = name(1);
                if !talk.watched.iter().any(|(watched, _)| *watched == name) {
                    let version = self.version(&name);
                    talk.watched.push((name, version));
                }
                ok()
            }
            b"GET" => bulk(self.look(&name(1)).map(|held| held.value)),
            b"STRLEN" => integer(self.look(&name(1)).map_or(0, |held| held.value.len() as i64)),
            b"EXISTS" => integer(i64::from(self.look(&name(1)).is_some())),
            b"PTTL" => integer(match self.look(&name(1)) {
                None => -2,
                Some(held) => held.ends.map_or(-1, |ends| (ends - self.now_ms) as i64),
            }),
            b"PEXPIRETIME" => integer(match self.look(&name(1)) {
                None => -2,
                Some(held) => held.ends.map_or(-1, |ends| ends as i64),
            }),
            b"MGET" => {
                let mut out = format!("*{}\r\n", words.len() - 1).into_bytes();
                for at in 1..words.len() {
                    out.extend(bulk(self.look(&name(at)).map(|held| held.value)));
                }
                out
            }
            b"FLUSHDB" | b"FLUSHALL" => {
                let own = (words[0] == b"FLUSHDB").then_some(talk.database);
                let names = self.keys.keys().filter(|(at, _)| own.is_none_or(|own| own == *at));
                let names: Vec<Name> = names.cloned().collect();
                names.into_iter().for_each(|name| self.set(name, None));
                ok()
            }
            _ => self.write(talk.database, words),
        }
    }

    /// The commands that change keys.
    fn write(&mut self, database: u8, words: &[Vec<u8>]) -> Vec<u8> {
        let name = |at: usize| (database, words[at].clone());
        let text = |at: usize| std::str::from_utf8(&words[at]).expect("text");
        let number = |at: usize| text(at).parse::<i64>().expect("a number");
        match words[0].as_slice() {
            b"SET" => self.set_with_options(name(1), words),
            b"MSET" => {
                (1..words.len())
                    .step_by(2)
                    .for_each(|at| self.set(name(at), Some((words[at + 1].clone(), None))));
                ok()
            }
            b"DEL" => {
                let mut count = 0;
                for at in 1..words.len() {
                    if self.look(&name(at)).is_some() {
                        count += 1;
                        self.set(name(at), None);
                    }
                }
                integer(count)
            }
            b"GETDEL" => {
                let held = self.look(&name(1));
                if held.is_some() {
                    self.set(name(1), None);
                }
                bulk(held.map(|held| held.value))
            }
            b"APPEND" => {
                let held = self.look(&name(1));
                let (mut value, ends) =
                    held.map_or((Vec::new(), None), |held| (held.value, held.ends));
                value.extend_from_slice(&words[2]);
                let length = value.len() as i64;
                self.set(name(1), Some((value, ends)));
                integer(length)
            }
            b"INCRBY" => self.increment(name(1), number(2)),
            b"PEXPIRE" => {
                let Some(held) = self.look(&name(1)) else { return integer(0) };
                let ends = self.now_ms as i64 + number(2);
                let there = ends > self.now_ms as i64;
                self.set(name(1), there.then_some((held.value, Some(ends as u64))));
                integer(1)
            }
            b"PERSIST" => {
                let held = self.look(&name(1)).filter(|held| held.ends.is_some());
                let changes = held.is_some();
                if let Some(held) = held {
                    self.set(name(1), Some((held.value, None)));
                }
                integer(i64::from(changes))
            }
            b"RENAME" => {
                let Some(held) = self.look(&name(1)) else {
                    return b"-ERR no such key\r\n".to_vec();
                };
                if words[1] != words[2] {
                    self.set(name(2), Some((held.value, held.ends)));
                    self.set(name(1), None);
                }
                ok()
            }
            b"COPY" | b"MOVE" => self.copy(name(1), words),
            other => panic!("{}: not in the model", other.escape_ascii()),
        }
    }

    fn increment(&mut self, name: Name, by: i64) -> Vec<u8> {
        let held = self.look(&name);
        let before = held.as_ref().map_or(Some(0), |held| {
            let text = std::str::from_utf8(&held.value).ok()?;
            text.parse::<i64>().ok().filter(|number| number.to_string() == text)
        });
        let Some(before) = before else {
            return b"-ERR value is not an integer or out of range\r\n".to_vec();
        };
        let (after, ends) = (before + by, held.and_then(|held| held.ends));
        self.set(name, Some((after.to_string().into_bytes(), ends)));
        integer(after)
    }

    /// SET KEY VALUE, and of its options NX, XX, GET, KEEPTTL and PX.
    fn set_with_options(&mut self, name: Name, words: &[Vec<u8>]) -> Vec<u8> {
        let options: Vec<&str> =
            words[3..].iter().map(|word| std::str::from_utf8(word).expect("text")).collect();
        let old = self.look(&name);
        let after = |name: &str| options.iter().skip_while(|word| **word != name).nth(1);
        let mut ends = after("PX").map(|ms| self.now_ms + ms.parse::<u64>().expect("a number"));
        if options.contains(&"KEEPTTL") {
            ends = old.as_ref().and_then(|old| old.ends);
        }
        let refused =
            options.contains(&"NX") && old.is_some() || options.contains(&"XX") && old.is_none();
        if !refused {
            self.set(name, Some((words[2].clone(), ends)));
        }
        match (options.contains(&"GET"), refused) {
            (true, _) => bulk(old.map(|old| old.value)),
            (false, true) => bulk(None),
            (false, false) => ok(),
        }
    }

    /// COPY FROM TO DB n [REPLACE], and MOVE KEY n.
    fn copy(&mut self, from: Name, words: &[Vec<u8>]) -> Vec<u8> {
        let is_copy = words[0] == b"COPY";
        let text = std::str::from_utf8(&words[if is_copy { 4 } else { 2 }]).expect("text");
        let to = (text.parse().expect("a database"), words[if is_copy { 2 } else { 1 }].clone());
        if from == to || (!is_copy && from.0 == to.0) {
            return b"-ERR source and destination objects are the same\r\n".to_vec();
        }
        let (held, present) = (self.look(&from), self.look(&to).is_some());
        let Some(held) = held.filter(|_| !present || words.len() > 5) else { return integer(0) };
        self.set(to, Some((held.value, held.ends)));
        if !is_copy {
            self.set(from, None);
        }
        integer(1)
    }
}

fn ok() -> Vec<u8> {
    b"+OK\r\n".to_vec()
}

fn integer(number: i64) -> Vec<u8> {
    format!(":{number}\r\n").into_bytes()
}

fn bulk(value: Option<Vec<u8>>) -> Vec<u8> {
    let Some(value) = value else { return b"$-1\r\n".to_vec() };
    [format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat()
}
