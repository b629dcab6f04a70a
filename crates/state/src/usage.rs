//! Memory use and limit of a node, and the use of its slots.

use wire::resp::Reply;

use crate::{
    query::{Query, number, text, unexpected, words},
    slot::{SLOTS, Slot},
};

/// Memory of a node, in bytes (`INFO memory`). Missing fields are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Of all keys.
    pub dataset: u64,
    /// Of everything.
    pub used: u64,
    /// `maxmemory`, if there is a limit.
    pub limit: Option<u64>,
}

/// The memory of a node.
#[must_use]
pub fn memory() -> Query<'static, Memory> {
    Query::new(words!["INFO", "memory"], |reply| {
        let info = text(&reply)?;
        let of = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
        };
        let limit = Some(of("maxmemory")).filter(|limit| *limit > 0);
        Ok(Memory { dataset: of("used_memory_dataset"), used: of("used_memory"), limit })
    })
}

/// Use of a slot since its node has it (`CLUSTER SLOT-STATS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotUsage {
    /// The slot.
    pub slot: Slot,
    /// Number of its keys.
    pub keys: u64,
    /// Processor time of its commands, in microseconds; `None` if the node does not count it
    /// (`cluster-slot-stats-enabled no`).
    pub processor_us: Option<u64>,
}

/// The use of all slots of a node; `None` if the node cannot tell it (Valkey before 8, Redis before
/// 8.2).
#[must_use]
pub fn slots() -> Query<'static, Option<Vec<SlotUsage>>> {
    let words = words!["CLUSTER", "SLOT-STATS", "SLOTSRANGE", "0", (SLOTS - 1) as u64];
    Query::new(words, |reply| match &reply {
        Reply::List(slots) => {
            let read: Option<Vec<SlotUsage>> = slots.iter().map(slot_usage).collect();
            read.map(Some).ok_or_else(|| unexpected("slots with their statistics", &reply))
        }
        Reply::Error(text) if text.to_ascii_lowercase().contains("unknown subcommand") => Ok(None),
        _ => Err(unexpected("a list of slots", &reply)),
    })
}

/// A slot, and names and values of its statistics in turn.
fn slot_usage(reply: &Reply) -> Option<SlotUsage> {
    let [Reply::Integer(slot), statistics] = reply.list() else { return None };
    let slot = Slot::new(usize::try_from(*slot).ok()?)?;
    let of = |wanted: &str| {
        let mut pairs = statistics.list().chunks_exact(2);
        pairs.find_map(|pair| match pair {
            [name, Reply::Integer(value)] if name.text().as_deref() == Some(wanted) => {
                u64::try_from(*value).ok()
            }
            _ => None,
        })
    };
    Some(SlotUsage { slot, keys: of("key-count")?, processor_us: of("cpu-usec") })
}

/// The number of keys of a node.
#[must_use]
pub fn keys() -> Query<'static, u64> {
    Query::new(words!["DBSIZE"], |reply| number(&reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_slots_is_read_whatever_else_a_node_counts() {
        let text = |text: &str| Reply::Bytes(text.into());
        let keys = || [text("key-count"), Reply::Integer(3)];
        let counted = [&keys()[..], &[text("cpu-usec"), Reply::Integer(70)], &keys()[..]].concat();
        let slot =
            |number, of: Vec<Reply>| Reply::List(vec![Reply::Integer(number), Reply::List(of)]);
        let said = Reply::List(vec![slot(5, counted), slot(6, keys().to_vec())]);
        let read = slots().read(said).expect("slots").expect("it can tell");
        let seen: Vec<_> = read
            .iter()
            .map(|usage| (usage.slot.number(), usage.keys, usage.processor_us))
            .collect();
        assert_eq!(seen, [(5, 3, Some(70)), (6, 3, None)]);
        let unknown = Reply::Error("ERR unknown subcommand 'SLOT-STATS'. Try CLUSTER HELP.".into());
        assert_eq!(slots().read(unknown), Ok(None));
        for wrong in [
            Reply::Error("NOPERM no".into()),
            Reply::Integer(1),
            Reply::List(vec![slot(16_384, keys().to_vec())]),
            Reply::List(vec![slot(1, vec![text("key-count"), text("x")])]),
        ] {
            assert!(slots().read(wrong.clone()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn memory_is_read_by_the_whole_names_of_fields() {
        let read = |text: &str| memory().read(Reply::Bytes(text.into())).expect("a text");
        let said = "# Memory\r\nused_memory:9\r\nused_memory_dataset:4\r\nmaxmemory:100\r\nmaxmemory_policy:x\r\n";
        assert_eq!(read(said), Memory { dataset: 4, used: 9, limit: Some(100) });
        assert_eq!(read("maxmemory:0\r\n"), Memory { dataset: 0, used: 0, limit: None });
    }
}
