//! What a command waits for while the device reads.

use super::record::Address;
use super::table::Location;

/// The data that a ticket waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum StagedKey {
    /// The entry of a key.
    Key(Box<[u8]>),
    /// The key of a record, for a scan. The address distinguishes it from a later record at the
    /// same location, which may have the same hash.
    Slot { hash: u64, location: Location, address: Address },
    /// A page of the storage table.
    Page(u32),
}
