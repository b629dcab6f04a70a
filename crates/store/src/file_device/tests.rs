use std::fs;

use super::*;
use crate::blocks::Blocks;

#[test]
fn any_part_of_a_file_is_read_whatever_its_sectors_are() {
    let directory = std::env::temp_dir().join(format!("sectors-{}", std::process::id()));
    let opened = FileDevice::open(&directory).expect("opens");
    let told = opened.sector_bytes;
    let bytes: Vec<u8> = (0..1 << 20u32).map(|at| (at / 3) as u8).collect();
    let file = FileName::Segment(1);
    opened.create(file, bytes.len() as u64).expect("made");
    opened.write(file, 0, &bytes).expect("written");
    for sector_bytes in [told, BLOCK_BYTES] {
        let device = FileDevice { sector_bytes, ..FileDevice::open(&directory).expect("opens") };
        let ends = [(0, 1), (511, 2), (4095, 4097), (4104, 4152), (12_345, 400_000)];
        for (offset, length) in ends.into_iter().chain([((1 << 20) - 7, 7)]) {
            let expected = &bytes[offset..offset + length];
            let read = device.read(file, offset as u64, length).expect("read");
            assert!(read == expected, "{length} from {offset} by {sector_bytes}");
            let mut transfer = device.begin_read(file, offset as u64, length).expect("begun");
            assert!(transfer.target().len() < length + 2 * sector_bytes);
            let (at, whole) = (transfer.offset(), transfer.target().len());
            let file = Arc::clone(&transfer.file);
            file.read_exact_at(transfer.target(), at).expect("filled");
            assert!(transfer.finish(Ok(whole)).expect("whole") == expected);
        }
    }
    fs::remove_dir_all(&directory).expect("removed");
}

#[test]
fn a_file_that_was_made_is_not_opened_again() {
    let directory = std::env::temp_dir().join(format!("opened-{}", std::process::id()));
    let device = FileDevice::open(&directory).expect("opens");
    device.create(FileName::Segment(7), 8192).expect("made");
    device.unlink(FileName::Segment(7)).expect("its name is gone");
    device.write(FileName::Segment(7), 4096, &[7; 4096]).expect("written");
    assert_eq!(device.read(FileName::Segment(7), 4090, 8).expect("read"), [0, 0, 0, 0, 0, 0, 7, 7]);
    fs::remove_dir_all(&directory).expect("removed");
}

#[test]
fn files_are_read_while_another_is_being_opened() {
    let directory = std::env::temp_dir().join(format!("opening-{}", std::process::id()));
    let device = FileDevice::open(&directory).expect("opens");
    let [open, new] = [1, 2].map(FileName::Segment);
    for file in [open, new] {
        device.create(file, 4096).expect("made");
    }
    device.forget(new);
    let opening = || {
        // If this thread held the lock, it would deadlock with itself.
        assert!(device.handles.try_lock().is_ok(), "the lock is held while a file is opened");
        assert_eq!(device.read(open, 0, 8).expect("read"), [0; 8]);
        device.open_file(new, OFlags::empty())
    };
    device.handle_by(new, opening).expect("opened");
    assert!(device.handles().contains_key(&new));
    fs::remove_dir_all(&directory).expect("removed");
}

#[test]
fn what_begins_at_a_whole_block_of_memory_and_what_does_not_are_written() {
    let directory = std::env::temp_dir().join(format!("file-device-{}", std::process::id()));
    let device = FileDevice::open(&directory).expect("opens");
    let file = FileName::Segment(1);
    let blocks = 3 * PORTION_BYTES / BLOCK_BYTES;
    device.create(file, (2 * blocks * BLOCK_BYTES) as u64).expect("made");
    let bytes: Vec<u8> = (0..blocks * BLOCK_BYTES + 1).map(|at| (at / 5) as u8).collect();
    // One of the two is not block-aligned, whatever the alignment of the vector.
    for start in [0, 1] {
        let piece = &bytes[start..start + blocks * BLOCK_BYTES];
        device.write(file, BLOCK_BYTES as u64, piece).expect("written");
        assert_eq!(device.read(file, BLOCK_BYTES as u64, piece.len()).expect("read"), piece);
    }
    device.write(file, 0, &Blocks::from(&bytes[1..])).expect("written");
    assert_eq!(device.read(file, 0, bytes.len() - 1).expect("read"), bytes[1..]);
    fs::remove_dir_all(&directory).expect("removed");
}

#[test]
fn a_file_that_is_made_again_keeps_nothing_of_one_that_is_shared() {
    let directory = std::env::temp_dir().join(format!("shared-{}", std::process::id()));
    let [store, backup] = ["store", "backup"].map(|name| directory.join(name));
    let [store, backup] = [store, backup].map(|path| FileDevice::open(&path).expect("opens"));
    let file = FileName::Segment(3);
    store.create(file, 8192).expect("made");
    store.write(file, 0, &[7; 8192]).expect("written");
    backup.link(file, &store).expect("shared");
    assert_eq!(backup.read(file, 4096, 8).expect("read"), [7; 8]);
    backup.create(file, 4096).expect("made again");
    assert_eq!(backup.list().expect("listed"), [(file, 4096)]);
    assert_eq!(backup.read(file, 0, 8).expect("read"), [0; 8]);
    assert_eq!(store.read(file, 0, 8192).expect("read"), [7; 8192]);
    fs::remove_dir_all(&directory).expect("removed");
}
