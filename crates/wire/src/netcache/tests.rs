use proptest::prelude::*;

use super::*;

const KEY: Key = *b"0123456789abcdef";

#[test]
fn golden_bytes() {
    let message = Message {
        op: Op::PutCached,
        flags: Flags::FOUND,
        balance: 0x0102,
        sequence: 7,
        key: KEY,
        version: 9,
        value: b"hello",
    };
    let bytes = b"\x04\x02\x01\x02\0\0\0\x070123456789abcdef\0\0\0\0\0\0\0\x09hello";
    assert_eq!(message.bytes(), bytes);
    assert_eq!(Message::decode(bytes).expect("well-formed"), message);
}

#[test]
fn long_keys() {
    let mut message = Message::new(Op::Get, 1, KEY);
    assert_eq!(message.long_key(), Ok(None));
    message.flags = Flags::LONG_KEY;
    message.value = b"\x03keyvalue";
    assert_eq!(message.long_key(), Ok(Some((&b"key"[..], &b"value"[..]))));
    for short in [&b""[..], b"\0", b"\x04key"] {
        message.value = short;
        assert!(message.long_key().is_err(), "{short:?}");
    }
}

#[test]
fn short_datagrams_and_unknown_operations_are_refused() {
    assert!(Message::decode(&[1; 31]).is_err());
    for op in [0, 19, 255] {
        assert!(Message::decode(&[op; 32]).is_err(), "{op}");
    }
}

#[test]
fn the_protocol_s_page_has_every_operation_and_its_sender() {
    let page = include_str!("../../../../docs/protocols/netcache.md");
    let words = |name: String| {
        let letters = name.chars().flat_map(|letter| {
            let blank = letter.is_uppercase().then_some(' ');
            blank.into_iter().chain(letter.to_lowercase())
        });
        letters.collect::<String>().trim_start().to_owned()
    };
    for op in Op::ALL {
        let [name, from, to] =
            [format!("{op:?}"), format!("{:?}", op.sender()), format!("{:?}", op.receiver())];
        let row = format!("| {} {} | {} → {} |", *op as u8, words(name), words(from), words(to));
        assert_eq!(page.matches(&row).count(), 1, "{row}");
    }
    let rows = page.lines().filter(|line| line.contains(" → ") && line.starts_with("| "));
    assert_eq!(rows.count(), Op::ALL.len() + 1, "and no other");
}

proptest! {
    #[test]
    fn what_is_read_is_written(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        if let Ok(message) = Message::decode(&bytes) {
            prop_assert_eq!(&message.bytes(), &bytes);
            let _ = message.long_key();
        }
    }
}
