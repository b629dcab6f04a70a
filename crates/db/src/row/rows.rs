//! All rows, and the ways to find one.

use hashbrown::HashMap;

use super::Row;
use crate::failure::Failure;

/// Longest name looked up.
const NAME_BYTES_MAX: usize = 32;

/// Every command's row; each container is followed by its sub-commands.
pub(crate) struct Rows {
    all: &'static [Row],
    /// Rows without sub-commands.
    by_name: HashMap<&'static [u8], &'static Row>,
}

impl Rows {
    pub(crate) fn new(all: &'static [Row]) -> Self {
        let mut rows = Self { all, by_name: HashMap::new() };
        rows.by_name = rows.commands().map(|row| (row.name().as_bytes(), row)).collect();
        rows
    }

    /// Every row, in an order that never changes.
    pub(crate) fn all(&self) -> &'static [Row] {
        self.all
    }

    /// Every row but those of sub-commands.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &'static Row> + use<> {
        self.all.iter().filter(|row| !row.name().contains('|'))
    }

    /// The rows of a container's sub-commands that are served.
    pub(crate) fn subcommands(&self, container: &Row) -> &'static [Row] {
        let first = usize::from(container.place) + 1;
        &self.all[first..first + usize::from(container.subcommands)]
    }

    /// The row of a command's name in any case; of a container, the container's.
    #[inline]
    pub(crate) fn lookup(&self, name: &[u8]) -> Option<&'static Row> {
        let mut folded = [0; NAME_BYTES_MAX];
        let folded = folded.get_mut(..name.len())?;
        folded.copy_from_slice(name);
        folded.make_ascii_lowercase();
        self.by_name.get(&*folded).copied()
    }

    /// The row of a sub-command's name in any case.
    pub(crate) fn subcommand(&self, container: &Row, name: &[u8]) -> Option<&'static Row> {
        let mut rows = self.subcommands(container).iter();
        rows.find(|row| row.own_name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// The row of a request; none if it is unknown, or its sub-command is.
    pub(crate) fn find(&self, args: &[&[u8]]) -> Option<&'static Row> {
        let row = self.lookup(args[0])?;
        match args {
            [_, own, ..] if row.subcommands > 0 => self.subcommand(row, own),
            _ => Some(row),
        }
    }
}

impl Row {
    /// The name of a sub-command without its container's.
    pub(crate) fn own_name(&self) -> &'static str {
        self.name().split_once('|').map_or("", |(_, own)| own)
    }

    /// Error for an unacceptable number of arguments.
    pub(crate) fn wrong_count(&self) -> Failure {
        Failure::new(format!("ERR wrong number of arguments for '{}' command", self.name()))
    }
}
