//! Memory use and limit of a node.

use crate::query::{Query, number, text, words};

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

/// The number of keys of a node.
#[must_use]
pub fn keys() -> Query<'static, u64> {
    Query::new(words!["DBSIZE"], |reply| number(&reply))
}

#[cfg(test)]
mod tests {
    use wire::resp::Reply;

    use super::*;

    #[test]
    fn memory_is_read_by_the_whole_names_of_fields() {
        let read = |text: &str| memory().read(Reply::Bytes(text.into())).expect("a text");
        let said = "# Memory\r\nused_memory:9\r\nused_memory_dataset:4\r\nmaxmemory:100\r\nmaxmemory_policy:x\r\n";
        assert_eq!(read(said), Memory { dataset: 4, used: 9, limit: Some(100) });
        assert_eq!(read("maxmemory:0\r\n"), Memory { dataset: 0, used: 0, limit: None });
    }
}
