//! The store whose values an agent keeps coherent.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
};

use wire::netcache::Key;

/// The store of the agent. The value is that of a message: with [`Flags::LONG_KEY`] the key comes
/// first. The last writer of each value is stored with it and has the same lifetime: a write may
/// arrive again after the agent was restarted, and must not be applied again.
pub trait Store {
    /// The value, if there is one.
    fn read(&self, key: &Key) -> Option<Vec<u8>>;
    /// Stores the value, or deletes it, and records this write as the last of its writer.
    fn write(&mut self, key: Key, value: Option<&[u8]>, writer: SocketAddr, sequence: u32);
    /// The writer's last write to the key.
    fn last_write(&self, key: &Key, writer: SocketAddr) -> Option<u32>;

    /// Keys whose values other writers changed since the last call:
    /// [`Agent::changed`](super::Agent::changed).
    fn changed(&self) -> Vec<Key> {
        Vec::new()
    }

    /// The error of a failed operation: no later output of the agent may be sent.
    fn failure(&self) -> Option<String> {
        None
    }
}

/// Maximum number of writers in a [`Memory`]; above it the oldest is dropped.
pub const WRITERS_MAX: usize = 65_536;

/// A store in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    values: BTreeMap<Key, Vec<u8>>,
    last: BTreeMap<(SocketAddr, Key), u32>,
    writers: VecDeque<(SocketAddr, Key)>,
}

impl Store for Memory {
    fn read(&self, key: &Key) -> Option<Vec<u8>> {
        self.values.get(key).cloned()
    }

    fn write(&mut self, key: Key, value: Option<&[u8]>, writer: SocketAddr, sequence: u32) {
        match value {
            Some(value) => drop(self.values.insert(key, value.to_vec())),
            None => drop(self.values.remove(&key)),
        }
        if self.last.insert((writer, key), sequence).is_none() {
            self.writers.push_back((writer, key));
            if self.writers.len() > WRITERS_MAX
                && let Some(oldest) = self.writers.pop_front()
            {
                self.last.remove(&oldest);
            }
        }
    }

    fn last_write(&self, key: &Key, writer: SocketAddr) -> Option<u32> {
        self.last.get(&(writer, *key)).copied()
    }
}
