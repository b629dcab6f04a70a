//! A database is exported and imported again, with all its entries, on simulated disks. What cannot
//! be read or stored ends it by name.

use std::collections::BTreeMap;
use std::time::Duration;

use db::rdb::shards::{Failure, Offline, export, import};
use db::rdb::{Error, Writer};
use store::device::Device;
use store::elastic::{Config, Elastic};
use store::{Faults, SimulatedDevice};

const NOW: Duration = Duration::from_secs(1_700_000_000);

type Entries = BTreeMap<(u8, Vec<u8>), (Vec<u8>, Option<Duration>)>;

/// Entries of all sixteen databases, with expiries before and after now.
fn entries(count: u32) -> Entries {
    let entry = |number: u32| {
        let expires_at = match number % 5 {
            0 => Some(NOW + Duration::from_millis(u64::from(number) + 1)),
            1 => Some(NOW - Duration::from_millis(u64::from(number))),
            _ => None,
        };
        let value = number.to_le_bytes().repeat((number as usize * 37) % 1500);
        (((number % 16) as u8, number.to_string().into_bytes()), (value, expires_at))
    };
    (0..count).map(entry).collect()
}

fn visible(mut entries: Entries) -> Entries {
    entries.retain(|_, (_, expires_at)| expires_at.is_none_or(|at| at > NOW));
    entries
}

fn devices(faults: Faults) -> Vec<SimulatedDevice> {
    (0..3).map(|seed| SimulatedDevice::new(seed, faults)).collect()
}

fn open(devices: &[SimulatedDevice]) -> Vec<Offline<'_, SimulatedDevice>> {
    let config = Config {
        memory_bytes: Elastic::MEMORY_BYTES_MIN,
        segment_bytes: 64 << 10,
        hash_key: [1, 2],
        ..Config::default()
    };
    let open = |device| {
        let store = Elastic::open(config.clone(), device, NOW).expect("opens");
        Offline { store, device }
    };
    devices.iter().map(open).collect()
}

fn file(entries: &Entries) -> Vec<u8> {
    let mut writer = Writer::new();
    for ((database, key), (value, expires_at)) in entries {
        writer.entry(*database, key, value, *expires_at);
    }
    writer.end()
}

/// What an export of these devices has.
fn exported(devices: &[SimulatedDevice]) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    export(&mut open(devices), &mut out, NOW).map(|_| out)
}

fn read(file: &[u8]) -> Entries {
    use db::rdb::{Element, Limits, Reader};
    let mut reader = Reader::new(Limits { key_bytes_max: 100, value_bytes_max: 10_000 });
    let (mut at, mut entries) = (0, Entries::new());
    while let Some((element, used)) = reader.decode(&file[at..]).expect("valid") {
        at += used;
        if let Element::Entry(entry) = element {
            let value = (entry.value, entry.expires_at);
            let twice = entries.insert((entry.database, entry.key), value);
            assert!(twice.is_none(), "a key comes twice");
        }
    }
    assert_eq!(at, file.len());
    entries
}

#[test]
fn what_is_imported_is_exported() {
    let entries = entries(4000);
    let devices = devices(Faults::default());
    let stored = import(&mut open(&devices), &mut file(&entries).as_slice(), NOW).expect("stored");
    let visible = visible(entries);
    assert_eq!(stored, visible.len() as u64);
    for device in &devices {
        device.restart(Faults::default());
    }
    let mut held = 0;
    for Offline { store, .. } in open(&devices) {
        assert_eq!((&store.recovery().damage[..], store.recovery().cut), (&[][..], None));
        assert!(store.len() > 1000, "each shard has its part");
        held += store.len();
    }
    // Each shard also counts its keys in databases 1 and up; no export has that.
    assert_eq!(held, stored + 3);
    assert!(read(&exported(&devices).expect("exported")) == visible);
}

#[test]
fn a_damaged_value_ends_an_export() {
    let devices = devices(Faults::default());
    import(&mut open(&devices), &mut file(&entries(500)).as_slice(), NOW).expect("stored");
    let (segment, _) = devices[1]
        .list()
        .expect("listed")
        .into_iter()
        .rev()
        .find(|(name, _)| {
            matches!(name, store::device::FileName::Segment(_))
                && devices[1].read(*name, 8192, 8).is_ok_and(|bytes| bytes != [0; 8])
        })
        .expect("a segment");
    for at in 0..64 {
        assert!(devices[1].flip(segment, 8192 + at, 3));
    }
    let error = exported(&devices).expect_err("damaged").to_string();
    assert!(error.contains("shard 1: "), "{error}");
}

#[test]
fn what_a_database_cannot_store_ends_an_import() {
    let whole = file(&entries(500));
    let failed = |file: &[u8], faults: Faults| {
        import(&mut open(&devices(faults)), &mut &*file, NOW).expect_err("refused")
    };
    let cut = failed(&whole[..whole.len() - 1], Faults::default());
    assert!(matches!(cut, Failure::Snapshot(Error::Truncated { .. })), "{cut}");
    let mut changed = whole.clone();
    changed[2000] ^= 1;
    let changed = failed(&changed, Faults::default());
    assert!(matches!(changed, Failure::Snapshot(Error::Damaged { .. })), "{changed}");
    let faults = Faults { room_bytes: Some(300 << 10), ..Faults::default() };
    let full = failed(&whole, faults).to_string();
    assert!(full.contains("disk full"), "{full}");
    let mut writer = Writer::new();
    writer.entry(0, &vec![b'k'; 65_535], b"", None);
    let long = failed(&writer.end(), Faults::default()).to_string();
    assert!(long.contains("65535 bytes") && long.contains("at most 65534"), "{long}");
}
