use super::*;
use crate::mongo::fixture::{body, decoded, document, frame, message, pair, sequence};

fn refused(bytes: &[u8]) -> Error {
    decode(bytes, &Limits::default()).unwrap_err()
}

fn malformed_at(bytes: &[u8]) -> usize {
    match refused(bytes) {
        Error::Malformed { offset, .. } => offset,
        error => panic!("{error}"),
    }
}

#[test]
fn fewer_bytes_than_a_frame_ask_for_more() {
    let bytes = message(0, &[body(&pair("ping", 1))]);
    for length in 0..bytes.len() {
        assert!(decode(&bytes[..length], &Limits::default()).unwrap().is_none(), "{length}");
    }
    assert!(decode(&bytes, &Limits::default()).unwrap().is_some());
}

#[test]
fn a_frame_keeps_its_bytes_and_leaves_the_next_one_alone() {
    let first = message(0, &[body(&pair("ping", 1))]);
    let stream = [&first[..], &message(0, &[body(&pair("hello", 1))])].concat();
    let (frame, length) = decode(&stream, &Limits::default()).unwrap().unwrap();
    assert_eq!((frame.bytes(), length), (&first[..], first.len()));
    assert_eq!(frame.header().request_id, 7);
    assert_eq!(frame.header().encode(), first[..16]);
}

#[test]
fn the_length_is_judged_before_the_frame_is_there() {
    let limits = Limits { frame_bytes_max: 1000, ..Limits::default() };
    assert_eq!(frame_bytes(&[0xE8, 0x03, 0], &limits), Ok(None));
    assert_eq!(frame_bytes(&[0xE8, 0x03, 0, 0], &limits), Ok(Some(1000)));
    assert!(matches!(
        frame_bytes(&[0xE9, 0x03, 0, 0], &limits),
        Err(Error::TooLarge { limit: 1000, got: 1001, .. })
    ));
    assert!(matches!(frame_bytes(&[15, 0, 0, 0], &limits), Err(Error::Malformed { .. })));
    assert!(matches!(frame_bytes(&[0xFF; 4], &limits), Err(Error::Malformed { .. })));
}

#[test]
fn sections_stand_in_any_order() {
    let documents = [pair("_id", 1), pair("_id", 2)];
    let bytes = message(0, &[sequence("documents", &documents), body(&pair("insert", 1))]);
    let Body::Msg(message) = decoded(&bytes).body else { panic!("not OP_MSG") };
    assert_eq!(message.body().bytes(), pair("insert", 1));
    let sequences: Vec<_> = message.sequences().collect();
    assert_eq!(sequences.len(), 1);
    assert_eq!(sequences[0].identifier(), b"documents");
    let found: Vec<_> = sequences[0].documents().map(|found| found.bytes().to_vec()).collect();
    assert_eq!(found, documents);
}

#[test]
fn no_body_two_bodies_and_unknown_sections_are_refused_where_they_stand() {
    let ping = body(&pair("ping", 1));
    assert_eq!(malformed_at(&message(0, &[])), 20);
    assert_eq!(malformed_at(&message(0, &[sequence("documents", &[])])), 20 + 15);
    assert_eq!(malformed_at(&message(0, &[ping.clone(), ping.clone()])), 20 + ping.len());
    assert_eq!(malformed_at(&message(0, &[ping.clone(), vec![2]])), 20 + ping.len());
}

#[test]
fn a_sequence_that_documents_do_not_fill_is_refused() {
    let mut cut = pair("_id", 1);
    cut.pop();
    let bytes = message(0, &[body(&pair("insert", 1)), sequence("documents", &[cut])]);
    assert!(matches!(refused(&bytes), Error::Malformed { .. }));
}

#[test]
fn unknown_flags_are_refused_in_the_low_half_only() {
    let ping = [body(&pair("ping", 1))];
    assert_eq!(malformed_at(&message(1 << 2, &ping)), 16);
    assert_eq!(malformed_at(&message(1 << 15, &ping)), 16);
    decoded(&message(1 << 17 | 1 << 31, &ping));
    let bytes = message(1 << 16 | 1 << 1, &ping);
    let Body::Msg(message) = decoded(&bytes).body else { panic!("not OP_MSG") };
    assert!(message.flags().exhaust_allowed() && message.flags().more_to_come());
}

#[test]
fn a_checksum_is_checked() {
    let mut bytes = message(1, &[body(&pair("ping", 1)), vec![0; 4]]);
    let covered = bytes.len() - 4;
    let checksum = crc32c::crc32c(&bytes[..covered]).to_le_bytes();
    bytes[covered..].copy_from_slice(&checksum);
    let Body::Msg(message) = decoded(&bytes).body else { panic!("not OP_MSG") };
    assert!(message.flags().checksum_present());
    assert_eq!(message.body().bytes(), pair("ping", 1));

    bytes[4] ^= 1;
    assert_eq!(malformed_at(&bytes), covered);
    assert_eq!(malformed_at(&frame(opcode::MSG, &[1, 0, 0, 0, 0, 0])), 20);
}

#[test]
fn an_unknown_opcode_is_opaque() {
    let bytes = frame(2002, &[1, 2, 3]);
    assert!(matches!(decoded(&bytes).body(), Body::Opaque));
    assert_eq!(decoded(&bytes).bytes(), bytes);
}

#[test]
fn a_legacy_handshake_is_a_query() {
    let hello = document(|document| document.i32("isMaster", 1));
    let head = [&[0; 4][..], b"admin.$cmd\0", &[0; 4], &[0xFF; 4]].concat();
    let bytes = frame(opcode::QUERY, &[&head[..], &hello].concat());
    let Body::Query(query) = decoded(&bytes).body else { panic!("not OP_QUERY") };
    let (database, command) = query.command().unwrap();
    assert_eq!((database, command.bytes()), ("admin", &hello[..]));
    assert!(query.selector.is_none());

    let wrapped = document(|document| document.document("$query", command));
    let bytes = frame(opcode::QUERY, &[&head[..], &wrapped, &pair("ok", 1)].concat());
    let Body::Query(query) = decoded(&bytes).body else { panic!("not OP_QUERY") };
    assert_eq!(query.command().unwrap().1.bytes(), hello);
    assert_eq!(query.selector.unwrap().bytes(), pair("ok", 1));
}
