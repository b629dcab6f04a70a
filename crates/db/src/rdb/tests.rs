use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits { key_bytes_max: 1000, value_bytes_max: 70_000 };

/// Reads a file that arrives in pieces; returns its entries.
fn read(pieces: &[&[u8]]) -> Result<Vec<Entry>, Error> {
    let (mut reader, mut entries, mut rest) = (Reader::new(LIMITS), Vec::new(), Vec::new());
    for piece in pieces {
        rest.extend_from_slice(piece);
        while let Some((element, used)) = reader.decode(&rest)? {
            assert!(used > 0 && used <= rest.len());
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

fn written(entries: &[Entry]) -> Vec<u8> {
    let (mut writer, mut file) = (Writer::new(), Vec::new());
    for Entry { database, key, value, expires_at } in entries {
        writer.entry(*database, key, value, *expires_at);
        if writer.waiting() > 100 {
            file.append(&mut writer.take());
        }
    }
    file.append(&mut writer.end());
    file
}

/// A file with these bytes between header and end.
fn file(version: &str, body: &[&[u8]]) -> Vec<u8> {
    let mut file = [b"REDIS", version.as_bytes(), &body.concat(), &[opcode::END]].concat();
    let checksum = checksum::checksum_append(0, &file);
    file.extend_from_slice(&checksum.to_le_bytes());
    file
}

fn entry() -> impl Strategy<Value = Entry> {
    let value = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..100),
        (any::<u8>(), prop_oneof![0x3f..0x42_usize, 0x3ffe..0x4002_usize])
            .prop_map(|(byte, length)| vec![byte; length]),
    ];
    let expires_at =
        prop::option::of(0..1_u64 << 50).prop_map(|at_ms| at_ms.map(Duration::from_millis));
    let key = prop::collection::vec(any::<u8>(), 0..80);
    (0..16_u8, key, value, expires_at).prop_map(|(database, key, value, expires_at)| Entry {
        database,
        key,
        value,
        expires_at,
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_however_it_arrives(
        entries in prop::collection::vec(entry(), 0..8),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let file = written(&entries);
        prop_assert_eq!(read(&[&file]), Ok(entries.clone()));
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(file.len())).collect();
        cuts.extend([0, file.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &file[cut[0]..cut[1]]).collect();
        prop_assert_eq!(read(&pieces), Ok(entries));
    }

    #[test]
    fn a_changed_byte_is_found_and_an_early_end_too(
        entries in prop::collection::vec(entry(), 1..4),
        at in any::<prop::sample::Index>(),
        change in 1..=u8::MAX,
    ) {
        let whole = written(&entries);
        let at = at.index(whole.len());
        let is_truncated = matches!(read(&[&whole[..at]]), Err(Error::Truncated { offset }) if offset == at as u64);
        prop_assert!(is_truncated);
        let mut changed = whole;
        changed[at] ^= change;
        // Another version has the same strings: only the checksum tells.
        let read = read(&[&changed]);
        prop_assert!(read.is_err(), "{:?}", read);
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        body in prop::collection::vec(any::<u8>(), 0..300),
        version in 5..13_u8,
    ) {
        let file = [b"REDIS", format!("{version:04}").as_bytes(), &body].concat();
        let by_piece: Vec<&[u8]> = file.chunks(1).collect();
        prop_assert_eq!(read(&[&file]), read(&by_piece));
    }
}

#[test]
fn everything_about_an_entry_is_read() {
    let expires = [&[opcode::EXPIRES_MS][..], &1_700_000_000_123_i64.to_le_bytes()].concat();
    let seconds = [&[opcode::EXPIRES_S][..], &1_700_000_000_i32.to_le_bytes()].concat();
    let file = file(
        "0012",
        &[
            &[opcode::INFORMATION],
            b"\x09redis-ver\x058.0.0",
            &[opcode::DATABASE, 9, opcode::SIZES, 2, 1, opcode::SLOT, 1, 2, 0x80, 0, 0, 0, 3],
            &expires,
            &[opcode::FREQUENCY, 7, STRING],
            b"\x01a\xc0\xff",
            &[opcode::IDLE, 0x40, 0x80],
            &seconds,
            &[STRING],
            b"\xc1\x00\x80\xc2\xff\xff\xff\x7f",
            &[STRING],
            b"\x01c\xc3\x04\x06\x00x\x60\x00",
        ],
    );
    let entry = |key: &[u8], value: &[u8], expires_ms: u64| {
        let expires_at = (expires_ms > 0).then(|| Duration::from_millis(expires_ms));
        Entry { database: 9, key: key.to_vec(), value: value.to_vec(), expires_at }
    };
    let expected = [
        entry(b"a", b"-1", 1_700_000_000_123),
        entry(b"-32768", b"2147483647", 1_700_000_000_000),
        entry(b"c", b"xxxxxx", 0),
    ];
    assert_eq!(read(&[&file]), Ok(expected.to_vec()));
}

#[test]
fn what_db_does_not_have_is_named() {
    let refused = |body: &[&[u8]]| read(&[&file("0010", body)]).expect_err("refused").to_string();
    let database = [opcode::DATABASE, 3];
    for (kind, name) in [(14, "a list"), (17, "a sorted set"), (20, "a set"), (21, "a stream")] {
        let said = refused(&[&database, &[kind], b"\x05queue", b"anything"]);
        assert!(
            said.contains(&format!("\"queue\" of database 3, at offset 11, is {name}")),
            "{said}"
        );
    }
    let said = refused(&[&[99], b"\x05queue"]);
    assert!(said.contains("of unknown type 99"), "{said}");
    assert!(refused(&[&[opcode::FUNCTION]]).contains("a library of functions at offset 9"));
    assert!(refused(&[&[opcode::MODULE]]).contains("data of a module"));
    assert!(
        refused(&[&[opcode::DATABASE, 16]]).contains("database 16 at offset 9: expected 0 to 15")
    );
    // The length is refused before the string is there.
    let long = [0x80, 0x7f, 0xff, 0xff, 0xff];
    let said = refused(&[&[STRING], b"\x01k", &long]);
    assert!(
        said.contains("a string of 2147483647 bytes at offset 12: expected at most 70000"),
        "{said}"
    );
    assert!(refused(&[&[STRING, 0xc3], &long, &[1]]).contains("expected at most 1000"));
    for (bytes, said) in [
        (b"REDIS0013".as_slice(), "RDB version 13, expected 5 to 12"),
        (b"REDIS0004", "RDB version 4, expected 5 to 12"),
        (b"VALKEY080", "it is no RDB file"),
        (b"enroute", "it is no RDB file"),
        (b"REDIS00+9", "it is no RDB file"),
    ] {
        let error = read(&[bytes]).expect_err("refused");
        assert!(error.to_string().contains(said), "{error}");
        // Found by fuzzing: the first bytes were named as far as they had arrived.
        assert_eq!(read(&bytes.chunks(1).collect::<Vec<_>>()), Err(error));
    }
}

#[test]
fn a_file_without_a_checksum_is_read() {
    let mut file = file("0009", &[&[STRING], b"\x01k\x01v"]);
    let end = file.len() - 8;
    file[end..].fill(0);
    assert_eq!(read(&[&file]).expect("read").len(), 1);
    file[end] = 1;
    let error = read(&[&file]).expect_err("a wrong checksum").to_string();
    assert!(error.contains("checksum 0000000000000001"), "{error}");
}
