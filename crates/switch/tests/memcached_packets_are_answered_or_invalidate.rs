//! Packets of memcached through the real program, as tables.
#![allow(clippy::print_stdout, reason = "a test says what it skips and what it saw")]

mod support;

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use proptest::{prelude::*, test_runner::TestRunner};
use support::written::{SERVER, cache_text, named};
use support::{at, data_plane, end, small, value};
use switch::{
    frame::{Frame, Transport},
    install::Value,
    name,
    plane::{DataPlane, PASS, TRANSMIT},
};
use wire::memcache::{
    command::{Written, written},
    frame::Frame as Datagram,
    item::Item,
};

const CLIENT: &str = "10.0.0.1:40000";

fn udp() -> Frame {
    Frame::udp(at(CLIENT), at(SERVER))
}

fn tcp() -> Frame {
    Frame { transport: Transport::Tcp, ..udp() }
}

fn item(text: &str) -> Item {
    Item { flags: 5, lives_s: None, value: text.into() }
}

/// Caches a key's replies to get and meta get in two entries, from `number` on.
fn cache(plane: &mut DataPlane, number: u32, key: &str, text: &str) {
    let (get, meta_get) = (named(plane, SERVER, key, false), named(plane, SERVER, key, true));
    cache_text(plane, number, &get, &item(text).get_text(key.as_bytes()));
    cache_text(plane, number + 1, &meta_get, &item(text).meta_text());
}

fn ask(plane: &mut DataPlane, from: &Frame, said: &[u8]) -> Option<Vec<u8>> {
    let frame = from.bytes(&Datagram::whole(0xabcd, said).bytes());
    let outcome = plane.run(&frame, 1).expect("it runs");
    if outcome.verdict == PASS {
        assert!(outcome.frame == frame, "{said:?}: not byte for byte");
        return None;
    }
    assert_eq!(outcome.verdict, TRANSMIT);
    let (back, payload) = Frame::read(&outcome.frame).expect("well-formed");
    assert_eq!((back.source, back.destination), (from.destination, from.source));
    let datagram = Datagram::decode(&payload).expect("a datagram");
    assert_eq!((datagram.request, datagram.sequence, datagram.datagrams), (0xabcd, 0, 1));
    Some(datagram.payload.to_vec())
}

fn is_served(plane: &mut DataPlane, key: &str) -> bool {
    ask(plane, &udp(), format!("get {key}\r\n").as_bytes()).is_some()
}

#[test]
fn gets_are_answered_as_the_server_would() {
    let Some(mut plane) = data_plane(small()) else { return };
    let long = "k".repeat(250);
    cache(&mut plane, 0, "a", "1");
    cache(&mut plane, 2, "bb", "");
    cache(&mut plane, 4, "key:12345", &"x".repeat(901));
    cache(&mut plane, 6, &long, "long");
    let text = |keys: &[(&str, &str)]| {
        let mut out = Vec::new();
        for (key, value) in keys {
            out.extend(item(value).get_text(key.as_bytes()));
        }
        [&out[..], b"END\r\n"].concat()
    };
    let big = "x".repeat(901);
    for keys in [
        &[("a", "1")][..],
        &[("bb", "")],
        &[("key:12345", &big)],
        &[(&long, "long")],
        &[("a", "1"), ("bb", ""), ("a", "1"), (&long, "long"), ("key:12345", &big)],
        &[("a", "1"); 16],
    ] {
        let names: Vec<&str> = keys.iter().map(|(key, _)| *key).collect();
        let asked = format!("get {}\r\n", names.join(" "));
        assert_eq!(ask(&mut plane, &udp(), asked.as_bytes()), Some(text(keys)), "{asked:?}");
        let six = Frame { vlans: vec![7], ..udp() };
        assert_eq!(ask(&mut plane, &six, asked.as_bytes()), Some(text(keys)), "{asked:?}");
    }
    assert_eq!(ask(&mut plane, &udp(), b"mg a v\r\n"), Some(b"VA 1\r\n1\r\n".to_vec()));
}

#[test]
fn what_the_server_must_answer_passes() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane, 0, "a", "1");
    cache(&mut plane, 2, "big", &"x".repeat(1300));
    for said in [
        "get b\r\n",
        "get a b\r\n",
        "get a  a\r\n",
        "get a",
        "get a\r\n\r\n",
        "get a\n",
        "get \r\n",
        "gets a\r\n",
        "get big big\r\n",
        "get a a a a a a a a a a a a a a a a a\r\n",
        "mg a\r\n",
        "mg a v k\r\n",
        "mg b v\r\n",
        "version\r\n",
        "GET a\r\n",
    ] {
        assert_eq!(ask(&mut plane, &udp(), said.as_bytes()), None, "{said:?}");
        if said.starts_with("mg a") {
            // Parsed as a touch.
            cache(&mut plane, 0, "a", "1");
        }
    }
    let parts = Datagram { datagrams: 2, ..Datagram::whole(1, b"get a\r\n") }.bytes();
    assert_eq!(plane.run(&udp().bytes(&parts), 1).expect("it runs").verdict, PASS);
    let other = Frame::udp(at(CLIENT), at("10.0.0.3:11211"));
    assert_eq!(ask(&mut plane, &other, b"get a\r\n"), None, "another server's key");
    assert!(is_served(&mut plane, "a"));
}

#[test]
fn expired_and_evicted_items_are_not_served() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane, 0, "a", "1");
    plane.entries[0].expires_ns.store(1, Relaxed);
    assert!(!is_served(&mut plane, "a"));
    cache(&mut plane, 0, "a", "1");
    assert!(is_served(&mut plane, "a"));
    let name = name::memcache(b"a", at(SERVER), false, 0);
    plane.evict(0, &name);
    assert!(!is_served(&mut plane, "a"));
}

#[test]
fn what_has_ended_is_replaced_by_what_lives() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane, 0, "a", "1");
    let (version, _) = plane.version(0).expect("an entry");
    let epoch = plane.shared().epoch.load(Relaxed);
    let text = item("2").get_text(b"a");
    assert!(!plane.fill(0, version, &Value { epoch, ..value(&text) }), "the entry has not expired");
    plane.entries[0].expires_ns.store(1, Relaxed);
    assert!(plane.fill(0, version, &Value { epoch, ..value(&text) }), "the entry has expired");
    let served = ask(&mut plane, &udp(), b"get a\r\n").expect("it is served");
    assert_eq!(served, [&text[..], b"END\r\n"].concat());
}

#[test]
fn a_fill_of_what_was_read_before_a_write_is_refused() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane, 0, "a", "1");
    let (version, valid) = plane.version(0).expect("an entry");
    assert!(valid);
    plane.run(&tcp().bytes(b"set a 0 0 1\r\n2\r\n"), 1).expect("it runs");
    let (now, valid) = plane.version(0).expect("an entry");
    assert!(now > version && !valid);
    assert!(!plane.fill(0, version, &value(&item("1").get_text(b"a"))));
    assert!(!is_served(&mut plane, "a"));
    assert!(plane.fill(0, now, &value(&item("2").get_text(b"a"))));
    assert!(is_served(&mut plane, "a"));
}

/// Sequence number of the next segment: no segment is a retransmission.
static SEQUENCE: AtomicU32 = AtomicU32::new(1);

/// Caches all keys in both protocols, runs the segment, and returns the keys that are no longer
/// served.
fn forgotten(
    plane: &mut DataPlane,
    keys: &[&str],
    from: &Frame,
    payload: &[u8],
) -> BTreeSet<String> {
    for (number, key) in keys.iter().enumerate() {
        cache(plane, number as u32 * 2, key, "1");
    }
    let sequence = SEQUENCE.fetch_add(payload.len() as u32, Relaxed);
    let frame = Frame { sequence, ..from.clone() }.bytes(payload);
    let outcome = plane.run(&frame, 1).expect("it runs");
    assert_eq!(outcome.verdict, PASS);
    assert!(outcome.frame == frame);
    let mut gone = BTreeSet::new();
    for key in keys {
        let get = is_served(plane, key);
        let meta = ask(plane, &udp(), format!("mg {key} v\r\n").as_bytes()).is_some();
        assert_eq!(get, meta, "{key} after {payload:?}");
        if !get {
            gone.insert((*key).to_owned());
        }
    }
    gone
}

fn expected(keys: &[&str], payload: &[u8]) -> BTreeSet<String> {
    // A segment longer than any network's MTU.
    if payload.len() > 2048 {
        return keys.iter().map(|key| (*key).to_owned()).collect();
    }
    match written(payload) {
        Written::Everything(_) => keys.iter().map(|key| (*key).to_owned()).collect(),
        Written::Keys(written) => {
            let is_written = |key: &&&str| written.iter().any(|one| one == key.as_bytes());
            keys.iter().filter(is_written).map(|key| (*key).to_owned()).collect()
        }
    }
}

#[test]
fn every_command_that_changes_a_key_invalidates_it() {
    let Some(mut plane) = data_plane(small()) else { return };
    let keys = ["a", "b"];
    for said in [
        "set a 0 0 1\r\n2\r\n",
        "add a 0 0 1\r\n2\r\n",
        "replace a 0 0 1\r\n2\r\n",
        "append a 0 0 1\r\n2\r\n",
        "prepend a 0 0 1\r\n2\r\n",
        "cas a 0 0 1 7\r\n2\r\n",
        "incr a 1\r\n",
        "decr a 1\r\n",
        "delete a\r\n",
        "touch a 9\r\n",
        "gat 9 a\r\n",
        "gats 9 a\r\n",
        "ms a 1\r\n2\r\n",
        "md a\r\n",
        "ma a\r\n",
    ] {
        for (from, payload) in [
            (tcp(), said.as_bytes().to_vec()),
            (udp(), Datagram::whole(1, said.as_bytes()).bytes()),
            (tcp(), format!("get x\r\n{said}get y\r\n").into_bytes()),
            // memcached skips blanks.
            (tcp(), format!(" {said}").into_bytes()),
            (tcp(), format!("get x\r\n{}{said}", " ".repeat(127)).into_bytes()),
        ] {
            let gone = forgotten(&mut plane, &keys, &from, &payload);
            assert_eq!(gone, BTreeSet::from(["a".to_owned()]), "{payload:?}");
        }
        // Split anywhere: the key must be dropped by one of the two segments.
        for cut in 1..said.len() {
            let gone = forgotten(&mut plane, &keys, &tcp(), &said.as_bytes()[..cut]);
            let late = forgotten(&mut plane, &keys, &tcp(), &said.as_bytes()[cut..]);
            assert!(gone.contains("a") || late.contains("a"), "{said:?} cut at {cut}");
        }
    }
    for said in ["flush_all\r\n", "flush_all 10\r\n", "md YQ== b\r\n"] {
        let gone = forgotten(&mut plane, &keys, &tcp(), said.as_bytes());
        assert_eq!(gone.len(), 2, "{said:?}");
    }
    for said in ["get a b\r\n", "gets a\r\n", "version\r\n", "verbosity 1\r\n", "stats\r\n"] {
        assert!(forgotten(&mut plane, &keys, &tcp(), said.as_bytes()).is_empty(), "{said:?}");
    }
}

#[test]
fn a_line_that_is_cut_is_not_finished_by_the_packet_before() {
    let Some(mut plane) = data_plane(small()) else { return };
    let keys = ["a", "b"];
    // Longer than the requests of `forgotten`, which would overwrite the packet before.
    let cut = b"gat 1000000000000000000000000000000 ";
    let before = format!("{}\n", "x".repeat(cut.len()));
    assert!(forgotten(&mut plane, &keys, &tcp(), before.as_bytes()).is_empty());
    assert_eq!(forgotten(&mut plane, &keys, &tcp(), cut).len(), 2);
}

/// Between two segments of a write, its key may have been read and cached again.
#[test]
fn a_write_that_comes_slowly_invalidates_with_each_segment() {
    let Some(mut plane) = data_plane(small()) else { return };
    let keys = ["a", "b"];
    let a = BTreeSet::from(["a".to_owned()]);
    for said in ["set a 0 0 9\r\n123456789\r\n", "ms a 9\r\n123456789\r\n", "delete a noreply\r\n"]
    {
        for first in said.find(' ').expect("a blank") + 1..said.len() {
            let (begun, rest) = said.as_bytes().split_at(first);
            forgotten(&mut plane, &keys, &tcp(), begun);
            for segment in [&rest[..rest.len() / 2], &rest[rest.len() / 2..]] {
                if !segment.is_empty() {
                    let gone = forgotten(&mut plane, &keys, &tcp(), segment);
                    assert!(gone.contains("a"), "{said:?} cut at {first}");
                }
            }
        }
        for read in ["get b\r\n", "stats\r\n", "version\r\n"] {
            assert!(forgotten(&mut plane, &keys, &tcp(), read.as_bytes()).is_empty(), "{read:?}");
        }
    }
    // After a complete request was parsed, only the keys that are named are dropped.
    assert_eq!(forgotten(&mut plane, &keys, &tcp(), b"set a 0 0 99\r\n"), a);
    assert_eq!(forgotten(&mut plane, &keys, &tcp(), b"the value"), a);
    // Longer than the parsed length.
    assert_eq!(forgotten(&mut plane, &keys, &tcp(), &[b'x'; 2100]).len(), 2);
    assert_eq!(forgotten(&mut plane, &keys, &tcp(), b"\r\n").len(), 2);
}

#[test]
fn binary_connections_and_fragments_forget_everything() {
    let Some(mut plane) = data_plane(small()) else { return };
    let keys = ["a", "b"];
    let other = Frame { source: at("10.0.0.1:40009"), ..tcp() };
    let mut binary = vec![0x80, 1, 0, 1, 8];
    binary.resize(34, 0);
    assert_eq!(forgotten(&mut plane, &keys, &other, &binary).len(), 2);
    assert_eq!(forgotten(&mut plane, &keys, &other, b"whatever follows").len(), 2);
    for number in 0..2 {
        cache(&mut plane, number * 2, keys[number as usize], "1");
    }
    let mut fragment = udp().bytes(&Datagram::whole(1, b"set a 0 0 1\r\n").bytes());
    fragment[20] = 0x20;
    plane.run(&fragment, 1).expect("it runs");
    assert!(!is_served(&mut plane, "a"));
}

#[test]
fn the_parser_agrees_with_the_codec_on_whatever_comes() {
    let Some(mut plane) = data_plane(small()) else { return };
    let keys = ["a", "bb", "key:12345"];
    let word = prop_oneof![
        prop::sample::select(vec![
            "set",
            "add",
            "cas",
            "incr",
            "decr",
            "touch",
            "append",
            "delete",
            "replace",
            "prepend",
            "gat",
            "gats",
            "ms",
            "md",
            "ma",
            "mg",
            "flush_all",
            "get",
            "a",
            "bb",
            "key:12345",
            "\r\n",
            "\n",
            "\r",
            "0",
            "noreply",
            "b",
            "bq",
            "T9",
            "  ",
            "     ",
        ])
        .prop_map(|word| word.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..12),
        Just(vec![b'x'; 251]),
    ];
    let payload =
        prop::collection::vec((word, prop::sample::select(vec![" ", "", " ", "\r\n"])), 1..14)
            .prop_map(|words| {
                words
                    .into_iter()
                    .flat_map(|(word, gap)| [word, gap.into()].concat())
                    .collect::<Vec<u8>>()
            });
    let mut runner = TestRunner::new(ProptestConfig { cases: 3_000, ..ProptestConfig::default() });
    let plane = std::cell::RefCell::new(&mut plane);
    runner
        .run(&payload, |payload| {
            prop_assume!(payload.first() != Some(&0x80) && !payload.is_empty());
            let mut plane = plane.borrow_mut();
            let gone = forgotten(&mut plane, &keys, &tcp(), &payload);
            // Resets what the connection waits for.
            end(&mut plane, &tcp());
            prop_assert_eq!(gone, expected(&keys, &payload), "{}", payload.escape_ascii());
            Ok(())
        })
        .expect("the parsers agree");
}
