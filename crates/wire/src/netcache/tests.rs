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

proptest! {
    #[test]
    fn what_is_read_is_written(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        if let Ok(message) = Message::decode(&bytes) {
            prop_assert_eq!(&message.bytes(), &bytes);
            let _ = message.long_key();
        }
    }
}
