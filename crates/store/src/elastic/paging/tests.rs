use super::*;
use crate::device::DeviceCommand;
use crate::elastic::record::{Address, Class};
use crate::elastic::table::{HASH_BITS, Slot};

const NOW: Duration = Duration::from_secs(1_700_000_000);
/// More than the number of pages in the table.
const ALL: usize = 1 << 20;

/// A table of several pages, one of which is in the spill file.
struct Spilled {
    paging: Paging,
    table: Table,
    outbox: Outbox,
    page: u32,
    bytes: Vec<u8>,
}

fn spilled() -> Spilled {
    let (mut paging, mut table, mut outbox) = (Paging::default(), Table::new(), Outbox::default());
    for location in 0..3000_u64 {
        let hash = location.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - HASH_BITS);
        assert!(table.insert(hash, Slot { location, class: Class(1) }));
    }
    let pages = table.pages_resident();
    // A page that was accessed is not evicted in the first turn.
    let away = (0..3).map(|_| paging.turn(&mut table, &mut outbox, pages - 1, NOW).away).sum();
    assert_eq!((away, pages - table.pages_resident()), (1, 1));
    let DeviceCommand { id, operation, .. } = outbox.next().expect("a command");
    let Operation::Write { bytes, .. } = operation else { panic!("{operation:?}") };
    let Some(Purpose::PageAway { page, epoch }) = outbox.purpose_of(id) else { panic!("no page") };
    let returned = paging.left(&mut table, (page, epoch), true, NOW);
    assert!(returned.is_none() && !paging.are_any_leaving());
    Spilled { paging, table, outbox, page, bytes: bytes.to_vec() }
}

impl Spilled {
    /// Requests the page twice and submits its single read.
    fn ask(&mut self) -> u64 {
        for hash in 0..2 {
            let waiter = StagedKey::Slot { hash, location: 0, address: Address::NONE };
            self.paging.ask(self.page, waiter).expect("can be asked for");
        }
        assert_eq!(self.paging.turn(&mut self.table, &mut self.outbox, ALL, NOW).reads, 1);
        assert_eq!(self.paging.turn(&mut self.table, &mut self.outbox, ALL, NOW).reads, 0);
        let id = self.outbox.next().expect("a command").id;
        match self.outbox.purpose_of(id) {
            Some(Purpose::Page { page, epoch }) if page == self.page => epoch,
            purpose => panic!("{purpose:?}"),
        }
    }

    fn read(&mut self, epoch: u64, result: io::Result<Vec<u8>>) -> Option<Returned> {
        self.paging.read(&mut self.table, (self.page, epoch), result, NOW)
    }
}

#[test]
fn a_page_is_read_once_for_all_that_wait_for_it() {
    let mut spilled = spilled();
    let epoch = spilled.ask();
    let returned = spilled.read(epoch, Ok(spilled.bytes.clone())).expect("of this table");
    assert!(returned.result.is_ok() && returned.waiters.len() == 2);
    assert!(spilled.table.is_resident(spilled.page));
    assert_eq!(spilled.paging.bytes(), 0);
}

#[test]
fn a_page_of_a_former_table_changes_nothing() {
    let mut spilled = spilled();
    let epoch = spilled.ask();
    spilled.paging.begin_table(&mut spilled.table);
    assert!(spilled.read(epoch, Ok(spilled.bytes.clone())).is_none());
    assert_eq!((spilled.table.len(), spilled.table.pages_resident()), (0, 1));
    while spilled.paging.release_some() {}
    assert_eq!(spilled.paging.bytes(), 0);
}

#[test]
fn a_page_that_could_not_be_read_is_asked_for_again_after_a_pause() {
    let mut spilled = spilled();
    let epoch = spilled.ask();
    let returned = spilled.read(epoch, Err(io::Error::other("no"))).expect("of this table");
    assert!(returned.result.is_err() && returned.waiters.len() == 2);
    assert!(spilled.paging.ask(spilled.page, StagedKey::Page(spilled.page)).is_err());
    let turn = spilled.paging.turn(&mut spilled.table, &mut spilled.outbox, ALL, NOW + SPILL_PAUSE);
    assert_eq!(turn.reads, 0);
    spilled.ask();
}

#[test]
fn a_damaged_page_is_missing_for_good() {
    let mut spilled = spilled();
    let epoch = spilled.ask();
    let mut bytes = spilled.bytes.clone();
    bytes[100] ^= 1;
    let returned = spilled.read(epoch, Ok(bytes)).expect("of this table");
    assert!(matches!(returned.result, Err(Error::Damaged { .. })));
    assert!(spilled.paging.missing(spilled.page).is_some_and(Missing::is_for_good));
}
