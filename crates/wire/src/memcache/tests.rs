use super::{
    command::{Written, written},
    frame::Frame,
    item::{Item, answer, question},
};

fn keys(keys: &[&str]) -> Vec<Vec<u8>> {
    keys.iter().map(|key| key.as_bytes().to_vec()).collect()
}

#[test]
fn what_packets_write() {
    for (packet, expected) in [
        ("get a b\r\n", &[][..]),
        ("set a 0 0 1\r\nx\r\n", &["a"]),
        ("set a 0 0 1 noreply\r\nx\r\nincr n 1\r\ntouch t 1\r\n", &["a", "n", "t"]),
        ("gat 10 a b\r\n", &["a", "b"]),
        ("gats 10 a\r\n", &["a"]),
        ("ms a 1 T9\r\nx\r\nmd b q\r\nma c\r\nmg d s\r\n", &["a", "b", "c", "d"]),
        ("cas  a 0 0 1 9\r\nx\r\n", &["a"]),
        ("tting a value\r\nversion\r\n", &[]),
        (" set a 0 0 1\r\nx\r\n    delete b\r\n  get c\r\n", &["a", "b"]),
    ] {
        assert_eq!(written(packet.as_bytes()), Written::Keys(keys(expected)), "{packet:?}");
    }
}

#[test]
fn packets_that_may_write_anything() {
    for packet in [
        "s",
        "se",
        "set",
        "set ",
        "set a",
        "x\r\nd",
        "delete ab",
        "flush_all\r\n",
        "flush_al",
        "ms YQ== 1 b\r\nx\r\n",
        "md YQ== q b\r\n",
        "gat 10 a",
        "gat 10",
        "set     a 0 0 1\r\n",
        "mg a v",
    ] {
        assert!(matches!(written(packet.as_bytes()), Written::Everything(_)), "{packet:?}");
    }
    assert!(matches!(written(&b"\n".repeat(33)), Written::Everything(_)));
    assert_eq!(written(&b"\n".repeat(32)), Written::Keys(Vec::new()));
}

#[test]
fn items() {
    assert_eq!(question(b"k", 26), b"mg k O1a t f v\r\n");
    let item = Item { flags: 7, lives_s: None, value: b"a\r\nb".to_vec() };
    assert_eq!(answer(b"VA 4 O1a t-1 f7\r\na\r\nb\r\n", 26), Ok(Some(item.clone())));
    assert_eq!(answer(b"EN\r\n", 26), Ok(None));
    assert_eq!(item.get_text(b"k"), b"VALUE k 7 4\r\na\r\nb\r\n");
    assert_eq!(item.meta_text(), b"VA 4\r\na\r\nb\r\n");
    for wrong in [
        "",
        "VA",
        "VA 4 O1a f7\r\nabcd\r\n",
        "VA 5 O1a t1 f7\r\nabcd\r\n",
        "VA 4 O1b t1 f7\r\nabcd\r\n",
        "VA 4 t1 f7\r\nabcd\r\n",
        "SERVER_ERROR x\r\n",
    ] {
        assert!(answer(wrong.as_bytes(), 26).is_err(), "{wrong:?}");
    }
}

#[test]
fn frames() {
    let frame = Frame::whole(0x1234, b"get k\r\n");
    assert_eq!(frame.bytes(), b"\x12\x34\0\0\0\x01\0\0get k\r\n");
    assert_eq!(Frame::decode(&frame.bytes()), Ok(frame));
    assert!(Frame::decode(b"1234567").is_err());
}
