//! Changes the record to which an entry points.
//!
//! Invariant: the live bytes of every segment are those of the records that the storage table
//! points to. Once a store is open, only these two functions change either.

use std::time::Duration;

use super::Error;
use super::log::{Log, Who};
use super::table::{Slot, Table};

/// Points the table to the record in `new`, instead of to the one in `old`.
pub(super) fn point_to(log: &mut Log, table: &mut Table, hash: u64, old: Option<Slot>, new: Slot) {
    match old {
        Some(old) => {
            let replaced = table.replace(hash, old.location, new);
            debug_assert!(replaced, "the old record was located in the table");
            log.segments.kill(old.location, old.class);
        }
        None => {
            let inserted = table.insert(hash, new);
            debug_assert!(inserted, "there was room for one more");
        }
    }
    log.segments.revive(new.location, new.class);
}

/// Removes an entry from the table and appends the removal to the log.
///
/// # Errors
/// As [`Log::append`]. Then nothing changed.
pub(super) fn kill_slot(
    log: &mut Log,
    table: &mut Table,
    hash: u64,
    slot: Slot,
    now: Duration,
) -> Result<(), Error> {
    let address = log.segments.address(slot.location);
    log.append_kills(Who::Remover, &[(hash, address)], now)?;
    table.remove(hash, slot.location);
    log.segments.kill(slot.location, slot.class);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::carry_out;
    use crate::elastic::{Config, Elastic, Load};
    use crate::{Faults, SimulatedDevice};

    /// Bytes of the records that the table, which is all in memory, points to.
    fn pointed_to(table: &Table) -> u64 {
        let pages = std::iter::successors(Some(0), |&from| table.next_page_hash(from));
        let entries = pages.flat_map(|from| table.page_entries(table.page_of(from), from));
        entries.map(|(_, slot)| slot.class.bytes() as u64).sum()
    }

    #[test]
    fn live_bytes_are_those_of_the_records_that_the_table_points_to() {
        let device = SimulatedDevice::new(1, Faults::default());
        let config = Config { segment_bytes: 64 << 10, ..Config::default() };
        let mut now = Duration::from_secs(1_700_000_000);
        let mut store = Elastic::open(config, &device, now).expect("opens");
        for round in 0..30_000_u64 {
            let key = (round * round % 997 % 800).to_le_bytes();
            now += Duration::from_millis(10);
            let is_loaded = matches!(store.load(&key, now), Load::Present | Load::Absent);
            if is_loaded && store.accepts_writes().is_ok() {
                if round % 5 == 0 {
                    store.remove(&key, now).expect("removed");
                } else {
                    let expires_at = (round % 7 == 0).then(|| now + Duration::from_secs(5));
                    store.write(&key, &[1; 600], expires_at, now).expect("written");
                }
            }
            if round == 20_000 {
                store.clear(now).expect("cleared");
            }
            while let Some(command) = store.poll_device(now) {
                store.complete(carry_out(&device, &command), now);
            }
            if round % 50 == 0 {
                assert_eq!(store.log.segments.live(), pointed_to(&store.table), "round {round}");
            }
        }
        let stats = store.stats();
        assert!(stats.compacted_bytes > 0 && stats.expirations > 0, "{stats:?}");
    }
}
