//! Arbitrary bytes as an RDB file: pieces of it are read as the whole is, and what is read is
//! written and read again.
#![no_main]

use db::rdb::{Element, Entry, Error, Limits, Reader, Writer};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { key_bytes_max: 1 << 10, value_bytes_max: 1 << 16 };

fn read(pieces: &[&[u8]]) -> Result<Vec<Entry>, Error> {
    let (mut reader, mut rest, mut entries) = (Reader::new(LIMITS), Vec::new(), Vec::new());
    for piece in pieces {
        rest.extend_from_slice(piece);
        while let Some((element, used)) = reader.decode(&rest)? {
            assert!((1..=rest.len()).contains(&used));
            rest.drain(..used);
            match element {
                Element::Entry(entry) => entries.push(entry),
                Element::Skipped => {}
                Element::End => return Ok(entries),
            }
        }
    }
    Err(reader.truncated(&rest))
}

fuzz_target!(|bytes: &[u8]| {
    let whole = read(&[bytes]);
    let (head, tail) = bytes.split_at(bytes.len() / 2);
    let (first, second) = head.split_at(head.len() / 2);
    assert_eq!(read(&[first, second, tail]), whole);
    let Ok(entries) = whole else { return };
    let mut writer = Writer::new();
    for Entry { database, key, value, expires_at } in &entries {
        writer.entry(*database, key, value, *expires_at);
    }
    assert_eq!(read(&[&writer.end()]), Ok(entries));
});
