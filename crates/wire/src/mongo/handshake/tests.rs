use super::*;
use crate::mongo::fixture::{body, decoded, document, frame, message, pair};
use crate::mongo::frame::opcode;
use crate::mongo::response::{Response, legacy_reply};

/// The reply of a replica set member, with the fields in the order of a server.
fn hello_reply() -> Vec<u8> {
    document(|hello| {
        hello.array("hosts", |hosts| {
            hosts.str("db1:27017");
            hosts.str("db2:27017");
        });
        hello.array("passives", |passives| passives.str("db3:27017"));
        hello.array("arbiters", |arbiters| arbiters.str("arbiter:27017"));
        hello.str("setName", "rs0");
        hello.str("primary", "db1:27017");
        hello.str("me", "db2:27017");
        hello.array("compression", |compressors| {
            compressors.str("zstd");
            compressors.str("snappy");
        });
        hello.f64("ok", 1.0);
    })
}

fn moved(member: &str) -> Option<String> {
    let (host, _) = member.split_once(':')?;
    host.starts_with("db").then(|| format!("127.0.0.1:{}", 9000 + host.len()))
}

fn rewritten(bytes: &[u8], compression: Compression) -> Vec<u8> {
    let mut out = b"before".to_vec();
    rewrite(&decoded(bytes), &moved, compression, &mut out).unwrap();
    out.split_off(6)
}

fn strings(body: &Document<'_>, name: &str) -> Vec<String> {
    let array = body.element(name).unwrap().unwrap().array().unwrap();
    array.elements().map(|element| element.unwrap().str().unwrap().to_owned()).collect()
}

#[test]
fn every_address_is_rewritten_and_nothing_else() {
    let legacy = {
        let mut bytes = Vec::new();
        legacy_reply(&mut bytes, 7, 3, &hello_reply());
        bytes
    };
    for bytes in [message(0, &[body(&hello_reply())]), legacy] {
        let out = rewritten(&bytes, Compression::Keep);
        let response = Response::parse(&decoded(&out)).unwrap().unwrap();
        assert_eq!(response.header.request_id, 7);
        let hello = response.body;
        assert_eq!(strings(&hello, "hosts"), ["127.0.0.1:9003", "127.0.0.1:9003"]);
        assert_eq!(strings(&hello, "passives"), ["127.0.0.1:9003"]);
        assert_eq!(strings(&hello, "arbiters"), ["arbiter:27017"]);
        let text = |name| hello.element(name).unwrap().unwrap().str();
        assert_eq!([text("me"), text("primary")], [Some("127.0.0.1:9003"); 2]);
        assert_eq!(text("setName"), Some("rs0"));
        assert!(response.ok);
        assert_eq!(compressors(&hello).unwrap().collect::<Vec<_>>(), ["zstd", "snappy"]);
    }
}

#[test]
fn addresses_kept_leave_the_frame_as_it_was() {
    let bytes = message(0, &[body(&hello_reply())]);
    let mut out = Vec::new();
    rewrite(&decoded(&bytes), &|_| None, Compression::Keep, &mut out).unwrap();
    assert_eq!(out, bytes);
}

#[test]
fn compression_can_be_stripped_from_offer_and_answer() {
    let out = rewritten(&message(0, &[body(&hello_reply())]), Compression::Strip);
    let Body::Msg(stripped) = *decoded(&out).body() else { panic!("not OP_MSG") };
    assert_eq!(compressors(&stripped.body()).unwrap().count(), 0);

    let offer = document(|hello| {
        hello.i32("isMaster", 1);
        hello.array("compression", |compressors| compressors.str("zlib"));
    });
    let query = [&[4, 0, 0, 0][..], b"admin.$cmd\0", &[0; 4], &[0xFF; 4], &offer].concat();
    let out = rewritten(&frame(opcode::QUERY, &query), Compression::Strip);
    let Body::Query(query) = *decoded(&out).body() else { panic!("not OP_QUERY") };
    assert_eq!(query.flags, 4);
    assert_eq!(query.query.bytes(), pair("isMaster", 1));
}

#[test]
fn flags_stay_but_the_checksum_goes() {
    let mut bytes = message(1 | 1 << 1 | 1 << 16, &[body(&hello_reply()), vec![0; 4]]);
    let covered = bytes.len() - 4;
    let checksum = crc32c::crc32c(&bytes[..covered]).to_le_bytes();
    bytes[covered..].copy_from_slice(&checksum);
    let out = rewritten(&bytes, Compression::Keep);
    let Body::Msg(message) = *decoded(&out).body() else { panic!("not OP_MSG") };
    assert_eq!(message.flags().bits(), 1 << 1 | 1 << 16);
}

#[test]
fn what_is_no_handshake_is_refused_and_writes_nothing() {
    let mut broken = hello_reply();
    let at = broken.windows(8).position(|window| window == b"\x02setName").unwrap();
    broken[at] = 0x99;
    for bytes in [frame(2002, &[0; 8]), message(0, &[body(&broken)])] {
        let mut out = b"before".to_vec();
        assert!(rewrite(&decoded(&bytes), &moved, Compression::Keep, &mut out).is_err());
        assert_eq!(out, b"before");
    }
}
