//! Missing, damaged or outdated files: opening names the file, and continues only if the data loss
//! is accepted.

#[expect(unreachable_pub, dead_code, reason = "shared by several tests")]
mod elastic;

use elastic::Run;
use store::Faults;
use store::device::{Device, FileName};
use store::elastic::{Config, Elastic, Error};

const MANIFESTS: [FileName; 2] = [FileName::Manifest(0), FileName::Manifest(1)];

/// An idle store of several segments, closed or as a crash leaves it.
fn filled(closed: bool) -> Run {
    let mut run =
        Run::with(5, Faults::default(), |config| config.segment_bytes = 64 << 10).expect("opens");
    (run.clears, run.keys) = (false, 150);
    for number in 0..150 {
        run.put_value(number, &[number as u8 + 1; 3000]);
    }
    run.make_durable();
    assert!(!closed || run.close());
    run
}

fn segments(run: &Run) -> Vec<FileName> {
    let files = run.device.list().expect("lists").into_iter().map(|(name, _)| name);
    files.filter(|name| matches!(name, FileName::Segment(_))).collect()
}

fn open(run: &mut Run, change: impl FnOnce(&mut Config)) -> Result<Elastic, Error> {
    run.device.restart(Faults::default());
    let mut config = run.config();
    change(&mut config);
    Elastic::open(config, &run.device, run.now)
}

#[test]
fn a_segment_that_is_gone() {
    for closed in [true, false] {
        let mut run = filled(closed);
        let lost = segments(&run)[2];
        run.device.remove(lost).expect("removed");
        // Opening fails every time.
        for _ in 0..2 {
            let error = open(&mut run, |_| ()).err().expect("it is gone");
            assert_eq!(error, Error::Missing { files: vec![lost] });
            assert!(error.to_string().starts_with(&format!("{lost} is missing: ")), "{error}");
        }
        let store = open(&mut run, |config| config.accept_data_loss = true).expect("accepted");
        assert_eq!(store.recovery().damage, [Error::Missing { files: vec![lost] }]);
        assert_eq!(store.stats().damages, 1);
        assert!((50..150).contains(&store.len()), "{} of 150", store.len());
        // Afterwards nothing is missing.
        drop(store);
        assert!(open(&mut run, |_| ()).expect("opens").recovery().damage.is_empty());
    }
}

#[test]
fn the_superblock() {
    let mut run = filled(true);
    run.device.remove(FileName::Superblock).expect("removed");
    let error = open(&mut run, |_| ()).err().expect("it is gone").to_string();
    assert!(error.starts_with("superblock: segments, but no superblock"), "{error}");
    // Removes all files.
    for (file, _) in run.device.list().expect("lists") {
        run.device.remove(file).expect("removed");
    }
    let error = open(&mut run, |config| config.create = false).err().expect("nothing is there");
    assert_eq!(error, Error::Missing { files: vec![FileName::Superblock] });
    open(&mut run, |_| ()).expect("it is made");
}

#[test]
fn the_manifest() {
    let mut run = filled(true);
    for copy in MANIFESTS {
        run.device.remove(copy).expect("removed");
    }
    let error = open(&mut run, |_| ()).err().expect("it is gone").to_string();
    assert!(error.starts_with("manifest.0 is missing"), "{error}");
    let store = open(&mut run, |config| config.accept_data_loss = true).expect("accepted");
    assert_eq!((store.len(), store.stats().damages), (150, 1));
    drop(store);
    assert_eq!(open(&mut run, |_| ()).expect("it was made anew").stats().damages, 0);
}

#[test]
fn a_damaged_manifest() {
    for closed in [true, false] {
        // One copy is enough; this test does not know which one is newer.
        for copy in MANIFESTS {
            let mut run = filled(closed);
            assert!(run.device.flip(copy, 20, 4));
            match open(&mut run, |_| ()) {
                Ok(store) => assert_eq!((store.len(), store.stats().damages), (150, 1)),
                // The other may be older than the last creation or removal of a segment.
                Err(Error::Missing { .. } | Error::Foreign { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let mut run = filled(closed);
        for copy in MANIFESTS {
            assert!(run.device.flip(copy, 20, 4));
        }
        let error = open(&mut run, |_| ()).err().expect("both are damaged").to_string();
        assert!(error.starts_with("manifest.") && error.contains("is damaged"), "{error}");
        let store = open(&mut run, |config| config.accept_data_loss = true).expect("accepted");
        assert_eq!(store.len(), 150);
    }
}

#[test]
fn a_segment_that_is_not_listed() {
    let mut run = filled(true);
    let some = segments(&run)[1];
    let length =
        run.device.list().expect("lists").iter().find(|(name, _)| *name == some).map(|f| f.1);
    let length = length.expect("its length");
    let bytes = run.device.read(some, 0, length as usize).expect("reads");
    run.device.remove(some).expect("removed");
    drop(open(&mut run, |config| config.accept_data_loss = true).expect("accepted"));
    // Restores the file.
    run.device.create(some, length).expect("made");
    run.device.write(some, 0, &bytes).expect("written");
    run.device.sync(some).expect("synced");
    let error = open(&mut run, |_| ()).err().expect("the manifest does not list it").to_string();
    assert!(error.starts_with(&format!("{some}: records, but the manifest does not")), "{error}");
    let store = open(&mut run, |config| config.accept_data_loss = true).expect("accepted");
    assert_eq!(store.len(), 150);
}

/// Changes the files to the previous format.
fn make_former(run: &Run) {
    let bytes = run.device.read(FileName::Superblock, 0, 4096).expect("reads");
    let mut former = bytes;
    former[7] = b'2';
    let checksum = crc32c::crc32c(&former[..32]).to_le_bytes();
    former[32..36].copy_from_slice(&checksum);
    run.device.write(FileName::Superblock, 0, &former).expect("written");
    run.device.sync(FileName::Superblock).expect("synced");
    for copy in MANIFESTS {
        run.device.remove(copy).expect("removed");
    }
}

#[test]
fn a_store_of_the_format_before_is_taken_over_wherever_that_is_cut_off() {
    let mut calls = 0;
    for crash_at in 1.. {
        let mut run = filled(crash_at % 2 == 0);
        make_former(&run);
        run.device.restart(Faults { crash_at: Some(crash_at), ..Faults::default() });
        let config = run.config();
        let cut_off = Elastic::open(config, &run.device, run.now).is_err();
        let store = open(&mut run, |_| ()).expect("it is taken over");
        assert_eq!((store.len(), store.stats().damages), (150, 0));
        drop(store);
        run.device.remove(segments(&run)[0]).expect("removed");
        assert!(open(&mut run, |_| ()).is_err(), "a missing file is not noticed");
        if !cut_off {
            break;
        }
        calls = crash_at;
    }
    assert!(calls > 10, "{calls} calls");
}
