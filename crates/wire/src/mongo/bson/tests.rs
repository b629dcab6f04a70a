use super::*;
use crate::mongo::fixture::{document, parsed};

#[test]
fn a_document_holds_what_was_written() {
    let inner = document(|inner| inner.i32("$gt", 3));
    let bytes = document(|document| {
        document.str("find", "cäfe");
        document.i32("a", -1);
        document.i64("b", 1 << 40);
        document.f64("c", 2.5);
        document.bool("d", true);
        document.timestamp("e", 99);
        document.document("f", parsed(&inner));
        document.array("g", |items| (0..12).for_each(|_| items.str("x")));
    });
    let found = |name| parsed(&bytes).element(name).unwrap().unwrap();
    assert_eq!(found("find").str(), Some("cäfe"));
    assert_eq!(found("a").i32(), Some(-1));
    assert_eq!(found("b").i64(), Some(1 << 40));
    assert_eq!(found("c").f64(), Some(2.5));
    assert_eq!(found("d").bool(), Some(true));
    assert_eq!(found("e").timestamp(), Some(99));
    assert_eq!(found("f").document(), Some(parsed(&inner)));
    let names: Vec<_> =
        found("g").array().unwrap().elements().map(|item| item.unwrap().name()).collect();
    assert_eq!(names.last(), Some(&&b"11"[..]));
    assert!(parsed(&bytes).element("absent").unwrap().is_none());
    assert_eq!(found("a").str(), None);

    let copy = document(|copy| {
        parsed(&bytes).elements().for_each(|element| copy.element(&element.unwrap()));
    });
    assert_eq!(copy, bytes);
}

#[test]
fn numbers_of_any_type_read_as_integers_when_they_are_whole() {
    let bytes = document(|document| {
        document.f64("whole", 3.0);
        document.f64("half", 3.5);
        document.f64("beyond", 9_223_372_036_854_775_808.0);
        document.f64("nan", f64::NAN);
    });
    let read = |name| parsed(&bytes).element(name).unwrap().unwrap().integer();
    assert_eq!(read("whole"), Some(3));
    assert_eq!([read("half"), read("beyond"), read("nan")], [None; 3]);
}

/// Every type with its shortest value, so that an off-by-one length is detected.
#[test]
fn every_kind_is_as_long_as_the_specification_says() {
    let values: [(u8, &[u8]); 21] = [
        (0x01, &[0; 8]),
        (0x02, &[1, 0, 0, 0, 0]),
        (0x03, &[5, 0, 0, 0, 0]),
        (0x04, &[5, 0, 0, 0, 0]),
        (0x05, &[0, 0, 0, 0, 0]),
        (0x06, &[]),
        (0x07, &[0; 12]),
        (0x08, &[0]),
        (0x09, &[0; 8]),
        (0x0A, &[]),
        (0x0B, &[b'a', 0, b'i', 0]),
        (0x0C, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (0x0D, &[1, 0, 0, 0, 0]),
        (0x0E, &[1, 0, 0, 0, 0]),
        (0x0F, &[14, 0, 0, 0, 1, 0, 0, 0, 0, 5, 0, 0, 0, 0]),
        (0x10, &[0; 4]),
        (0x11, &[0; 8]),
        (0x12, &[0; 8]),
        (0x13, &[0; 16]),
        (0x7F, &[]),
        (0xFF, &[]),
    ];
    let mut inner = Vec::new();
    for (kind, value) in values {
        inner.extend_from_slice(&[kind, b'k', 0]);
        inner.extend_from_slice(value);
    }
    let length = u32::try_from(inner.len() + 5).unwrap().to_le_bytes();
    let bytes = [&length[..], &inner, &[0]].concat();
    let read: Vec<_> = parsed(&bytes).elements().map(|element| element.unwrap()).collect();
    assert_eq!(read.len(), values.len());
    for (element, (kind, value)) in read.iter().zip(values) {
        assert_eq!((element.kind() as u8, element.value()), (kind, value));
    }
}

#[test]
fn broken_documents_and_elements_are_errors_and_end_the_walk() {
    assert!(Document::parse(&[]).is_err());
    assert!(Document::parse(&[4, 0, 0, 0]).is_err());
    assert!(Document::parse(&[6, 0, 0, 0, 0]).is_err(), "longer than the input");
    assert!(Document::parse(&[5, 0, 0, 0, 1]).is_err(), "no terminator");

    for inner in [
        &[0x99, b'k', 0][..],                        // unknown type
        &[0x10, b'k'],                               // name without end
        &[0x10, b'k', 0, 1],                         // value cut short
        &[0x02, b'k', 0, 0, 0, 0, 0],                // string shorter than its NUL
        &[0x02, b'k', 0, 0xFF, 0xFF, 0xFF, 0xFF, 0], // negative length
        &[0x02, b'k', 0, 0xFF, 0xFF, 0xFF, 0x7F, 0], // length beyond the input
        &[0x02, b'k', 0, 1, 0, 0, 0, b'x'],          // string not ending in NUL
        &[0x03, b'k', 0, 5, 0, 0, 0, 1],             // document not ending in NUL
        &[0x0B, b'k', 0, b'a', 0, b'i'],             // regex options without end
        &[0x00],                                     // early terminator
    ] {
        let length = u32::try_from(inner.len() + 5).unwrap().to_le_bytes();
        let bytes = [&length[..], inner, &[0]].concat();
        let walk: Vec<_> = parsed(&bytes).elements().collect();
        assert_eq!(walk.len(), 1, "{inner:?}");
        // A name or value may extend to the terminator, but not past the document's end.
        assert!(walk[0].is_err(), "{inner:?}");
    }
}

#[test]
fn any_looks_into_nested_documents_and_stops_at_the_depth_limit() {
    let mut bytes = document(|document| document.i32("$where", 1));
    let has_where = |bytes: &[u8]| parsed(bytes).any(&mut |element| element.name() == b"$where");
    for _ in 0..20 {
        assert_eq!(has_where(&bytes), Ok(true));
        bytes = document(|outer| outer.array("$or", |items| items.document(parsed(&bytes))));
    }
    let mut deep = document(|_| {});
    for _ in 0..=DEPTH_MAX {
        deep = document(|outer| outer.document("a", parsed(&deep)));
    }
    assert!(has_where(&deep).is_err());
}
