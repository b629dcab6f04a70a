//! Commands queued by MULTI, and keys watched by WATCH.

use smallvec::SmallVec;

use crate::row::Row;

/// Queued commands and watched keys of a connection.
#[derive(Default)]
pub(crate) struct Transaction {
    /// `None` without MULTI.
    pub(crate) queue: Option<Queue>,
    pub(crate) watched: Vec<Watched>,
}

/// A key that must not change before EXEC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Watched {
    pub(crate) database: u8,
    pub(crate) key: Box<[u8]>,
    /// `None`: it was not there.
    pub(crate) version: Option<u64>,
}

/// Commands queued by MULTI.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) commands: Vec<Queued>,
    /// One of them was refused: EXEC will refuse all.
    pub(crate) failed: bool,
    /// Approximate memory used by the commands, in bytes.
    pub(crate) bytes: usize,
}

pub(crate) struct Queued {
    pub(crate) row: &'static Row,
    pub(crate) args: Vec<Box<[u8]>>,
}

/// Memory used by an argument besides its bytes: pointer, length, allocator overhead.
const ARGUMENT_BYTES: usize = 32;

impl Queue {
    pub(crate) fn push(&mut self, row: &'static Row, args: &[&[u8]]) {
        self.bytes += args.iter().map(|argument| argument.len() + ARGUMENT_BYTES).sum::<usize>();
        let args: Vec<Box<[u8]>> = args.iter().map(|&argument| argument.into()).collect();
        self.commands.push(Queued { row, args });
    }
}

impl Queued {
    pub(crate) fn with_args<T>(&self, act: impl FnOnce(&[&[u8]]) -> T) -> T {
        let args: SmallVec<[&[u8]; 8]> = self.args.iter().map(|argument| &**argument).collect();
        act(&args)
    }
}
