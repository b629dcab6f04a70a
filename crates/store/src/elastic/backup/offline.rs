//! What is found in the shards of a database, or of a backup, that no process writes.

use super::{Stored, verify};
use crate::device::Device;
use crate::elastic::{Checked, check};

/// Findings in all shards so far.
#[derive(Debug, Default)]
pub struct Findings {
    /// Number of shards.
    pub shards: usize,
    /// Segments with records.
    pub segments: usize,
    /// Intact records.
    pub records: u64,
    /// What is damaged or missing, a line each.
    pub damage: Vec<String>,
    /// Ends of logs that a crash tore, which are no damage, a line each.
    pub cuts: Vec<String>,
}

impl Findings {
    /// Compares the files of the shard `name` with the list of its backup.
    pub fn compare(&mut self, name: &str, stored: &Stored, device: &(impl Device + ?Sized)) {
        let wrong = verify(stored, device);
        self.damage.extend(wrong.iter().map(|error| format!("{name}/{error}")));
    }

    /// Reads every record of the shard `name`, which has the identity `expected`.
    pub fn check(&mut self, name: &str, expected: Option<u32>, device: &(impl Device + ?Sized)) {
        let Checked { identity, segments, records, cut, damage } = check(device);
        if let (Some(found), Some(expected)) = (identity, expected)
            && found != expected
        {
            self.damage.push(format!("{name} holds shard {found:08x}, expected {expected:08x}"));
        }
        self.shards += 1;
        self.segments += segments;
        self.records += records;
        self.damage.extend(damage.iter().map(|error| format!("{name}/{error}")));
        let cut = cut.map(|(file, offset)| {
            format!("{name}/{file} ends at offset {offset}: a crash left an incomplete record")
        });
        self.cuts.extend(cut);
    }
}
