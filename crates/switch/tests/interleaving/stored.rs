//! The server's values.

use std::net::SocketAddr;

use switch::agent::{Memory, Store};
use wire::netcache::Key;

use super::KEY;

/// The server's value, with the values it has stored since the newest acknowledged write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Stored {
    memory: Memory,
    since_answer: Vec<Option<Vec<u8>>>,
}

impl Store for Stored {
    fn read(&self, key: &Key) -> Option<Vec<u8>> {
        self.memory.read(key)
    }

    fn write(&mut self, key: Key, value: Option<&[u8]>, writer: SocketAddr, sequence: u32) {
        self.memory.write(key, value, writer, sequence);
        self.since_answer = vec![self.read(&key)];
    }

    fn last_write(&self, key: &Key, writer: SocketAddr) -> Option<u32> {
        self.memory.last_write(key, writer)
    }
}

impl Stored {
    /// A write that bypasses the agent.
    pub(super) fn around(&mut self, value: &[u8]) {
        if self.since_answer.is_empty() {
            self.since_answer.push(None);
        }
        self.memory.write(KEY, Some(value), SocketAddr::from(([10, 0, 0, 9], 9)), 0);
        self.since_answer.push(Some(value.to_vec()));
    }

    /// Whether `value` was stored at some time since the newest acknowledged write.
    pub(super) fn was(&self, value: &Option<Vec<u8>>) -> bool {
        self.since_answer.contains(value) || (self.since_answer.is_empty() && value.is_none())
    }
}
