//! Packets through the real program, as tables: description, packet in, verdict, packet out.
#![allow(clippy::print_stdout, reason = "a test says what it skips and what it saw")]

mod support;

use std::sync::atomic::Ordering::Relaxed;

use support::{CLIENT, SERVER, at, cache, cache_at, data_plane, get, name, small, to_server};
use switch::{
    frame::{Frame, Transport},
    install::Room,
    plane::{Config, DROP, DataPlane, PASS, TRANSMIT, Values},
};
use wire::netcache::{Flags, Message, Op};

/// The reply in a frame; verifies all checksums, and that it returns to the sender.
fn reply(plane: &mut DataPlane, from: &Frame, payload: &[u8]) -> (Message<'static>, Vec<u8>) {
    let outcome = plane.run(&from.bytes(payload), 1).expect("it runs");
    assert_eq!(outcome.verdict, TRANSMIT);
    let (back, payload) = Frame::read(&outcome.frame).expect("well-formed");
    assert_eq!((back.source, back.destination), (from.destination, from.source));
    assert_eq!(back.vlans, from.vlans);
    assert_eq!(outcome.frame[..6], from.bytes(b"")[6..12], "MAC addresses");
    let value = payload[32..].to_vec();
    let header: &'static [u8] = payload[..32].to_vec().leak();
    (Message::decode(header).expect("a message"), value)
}

fn passes(plane: &mut DataPlane, what: &str, frame: &[u8]) {
    let outcome = plane.run(frame, 1).expect("it runs");
    assert_eq!(outcome.verdict, PASS, "{what}");
    assert!(outcome.frame == frame, "{what}: not byte for byte");
}

#[test]
fn hits_of_every_size_over_every_carrier() {
    for values in [Values::Slots, Values::Registers { rows: 1024 }] {
        let Some(mut plane) = data_plane(Config { values, ..small() }) else { return };
        let six = Frame::udp(at("[fd00::1]:40000"), at("[fd00::2]:50000"));
        let tagged = Frame { vlans: vec![5], ..to_server() };
        let twice = Frame { vlans: vec![5, 6], ..six.clone() };
        for (number, bytes) in
            (0..=160).chain([255, 256, 257, 1000, 1023, 1024, 1399, 1400]).enumerate()
        {
            let number = number as u32;
            let stored: Vec<u8> = (0..bytes).map(|byte| (byte * 7 + bytes) as u8).collect();
            cache(&mut plane, number, &stored);
            cache_at(&mut plane, number + 300, &stored, "[fd00::2]:50000");
            for (frame, number) in [
                (to_server(), number),
                (tagged.clone(), number),
                (six.clone(), number + 300),
                (twice.clone(), number + 300),
            ] {
                let asked = Message::new(Op::Get, 7, name(number)).bytes();
                let (reply, value) = reply(&mut plane, &frame, &asked);
                assert_eq!((reply.op, reply.sequence), (Op::GetReply, 7));
                assert!(reply.flags.has(Flags::FOUND) && reply.flags.has(Flags::SWITCH));
                assert!(value == stored, "{bytes} bytes over {frame:?} in {values:?}");
            }
        }
        let counts = plane.counts().expect("counters");
        assert_eq!((counts[1], counts[2]), (169 * 4, 0), "hits and misses");
    }
}

#[test]
fn a_value_is_served_where_it_moved_to() {
    let values = Values::Registers { rows: 64 };
    let Some(mut plane) = data_plane(Config { values, ..small() }) else { return };
    let agent = Frame::udp(at(SERVER), at("10.0.0.254:50000"));
    let asked = |plane: &mut DataPlane| {
        let get = Message::new(Op::Get, 7, name(1)).bytes();
        plane.run(&to_server().bytes(&get), 1).expect("it runs")
    };
    let first: Vec<u8> = (0..300u32).map(|byte| byte as u8).collect();
    cache(&mut plane, 1, &first);
    plane.relocate(1, Room { place: 9, bitmap: 0b101_0110_1000 });
    assert_eq!(plane.version(1), Some((101, true)), "a processor that reads it must see the move");
    // What another key has in the old row does not show.
    cache(&mut plane, 2, &[8; 1000]);
    plane.relocate(2, Room { place: 1, bitmap: 0x7ff });
    let (_, payload) = Frame::read(&asked(&mut plane).frame).expect("well-formed");
    assert!(payload[32..] == first, "not the value that moved");

    // A write makes it invalid: it moves without its value, and the update is stored there.
    let put = Message { value: b"x", ..Message::new(Op::Put, 8, name(1)) }.bytes();
    let written = plane.run(&to_server().bytes(&put), 1).expect("it runs");
    let (_, tagged) = Frame::read(&written.frame).expect("well-formed");
    let version = Message::decode(&tagged).expect("a message").version;
    plane.relocate(1, Room { place: 5, bitmap: 0x7ff });
    assert_eq!(asked(&mut plane).verdict, PASS, "it is invalid where it moved to");
    let second = vec![3; 900];
    let update = Message {
        version,
        flags: Flags::FOUND,
        value: &second,
        ..Message::new(Op::Update, 9, name(1))
    };
    let (ack, _) = reply(&mut plane, &agent, &update.bytes());
    assert!(ack.flags.has(Flags::STORED));
    let (_, payload) = Frame::read(&asked(&mut plane).frame).expect("well-formed");
    assert!(payload[32..] == second, "not the value of the update");
}

#[test]
fn what_is_not_answered_passes_byte_for_byte() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane, 1, b"value");
    let get = Message::new(Op::Get, 7, name(1)).bytes();
    let other = |to: &str| Frame::udp(at(CLIENT), at(to));
    passes(&mut plane, "a key that is not cached", &support::get(2));
    passes(&mut plane, "another server's key", &other("10.0.0.3:50000").bytes(&get));
    passes(&mut plane, "another port", &other("10.0.0.2:50001").bytes(&get));
    passes(&mut plane, "a reply", &Frame::udp(at(SERVER), at(CLIENT)).bytes(&get));
    let tcp = Frame { transport: Transport::Tcp, ..to_server() };
    passes(&mut plane, "TCP", &tcp.bytes(&get));
    passes(&mut plane, "a short header", &to_server().bytes(&get[..31]));
    passes(&mut plane, "bytes behind a get", &to_server().bytes(&[&get[..], b"x"].concat()));
    let three = Frame { vlans: vec![1, 2, 3], ..to_server() };
    passes(&mut plane, "three VLAN tags", &three.bytes(&get));

    let whole = to_server().bytes(&get);
    let changed = |at: usize, byte: u8| {
        let mut frame = whole.clone();
        frame[at] = byte;
        frame
    };
    passes(&mut plane, "IPv4 options", &changed(14, 0x46));
    passes(&mut plane, "more fragments", &changed(20, 0x20));
    passes(&mut plane, "a later fragment", &changed(21, 0x01));
    passes(&mut plane, "an IP length beyond the frame", &changed(16, 3));
    passes(&mut plane, "an IP length below the header", &changed(17, 10));
    passes(&mut plane, "lengths that differ", &changed(39, 41));
    passes(&mut plane, "an unknown operation", &changed(42, 99));
    for bytes in 14..whole.len() {
        passes(&mut plane, "a frame cut short", &whole[..bytes]);
    }
    assert_eq!(plane.run(&whole, 1).expect("it runs").verdict, TRANSMIT, "it is still served");
}

#[test]
fn padding_of_a_short_frame_is_not_payload() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane, 1, b"v");
    let mut frame = get(1);
    frame.extend([0xee; 9]);
    let outcome = plane.run(&frame, 1).expect("it runs");
    let (_, payload) = Frame::read(&outcome.frame).expect("well-formed");
    assert_eq!((outcome.verdict, &payload[32..]), (TRANSMIT, &b"v"[..]));
}

#[test]
fn a_write_is_tagged_and_only_its_own_value_is_served_again() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane, 1, b"old");
    for (op, tagged, version) in
        [(Op::Put, Op::PutCached, 101), (Op::Delete, Op::DeleteCached, 102)]
    {
        let put = Message { value: b"new!!", ..Message::new(op, 9, name(1)) };
        let outcome = plane.run(&to_server().bytes(&put.bytes()), 1).expect("it runs");
        assert_eq!(outcome.verdict, PASS);
        // The checksum was not updated and is still correct.
        let (frame, payload) = Frame::read(&outcome.frame).expect("well-formed");
        assert_eq!(frame, to_server());
        let message = Message::decode(&payload).expect("a message");
        assert_eq!((message.op, message.version, message.sequence), (tagged, version, 9));
        assert_eq!(message.value, b"new!!");
        passes(&mut plane, "a get while the value is on its way", &get(1));
    }
    let agent = Frame::udp(at(SERVER), at("10.0.0.254:50000"));
    let update = |version, value| Message {
        version,
        value,
        flags: Flags::FOUND,
        ..Message::new(Op::Update, 3, name(1))
    };
    let (ack, _) = reply(&mut plane, &agent, &update(101, b"late").bytes());
    assert_eq!((ack.op, ack.version, ack.sequence), (Op::UpdateAck, 101, 3));
    assert!(ack.flags.has(Flags::CACHED) && !ack.flags.has(Flags::STORED));
    passes(&mut plane, "a get after an update that was overtaken", &get(1));
    for _ in 0..2 {
        let (ack, _) = reply(&mut plane, &agent, &update(102, b"newest").bytes());
        assert!(ack.flags.has(Flags::CACHED) && ack.flags.has(Flags::STORED));
        let asked = Message::new(Op::Get, 7, name(1)).bytes();
        assert_eq!(reply(&mut plane, &to_server(), &asked).1, b"newest");
    }
    let foreign = Frame::udp(at("10.0.0.9:50000"), at("10.0.0.254:50000"));
    let (ack, _) = reply(&mut plane, &foreign, &update(102, b"forged").bytes());
    assert!(!ack.flags.has(Flags::CACHED), "an update from a stranger");
}

#[test]
fn a_write_of_a_key_that_is_not_cached_passes_byte_for_byte() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane, 1, b"old");
    let put = Message { value: b"new", ..Message::new(Op::Put, 9, name(2)) };
    passes(&mut plane, "a put", &to_server().bytes(&put.bytes()));
    assert_eq!(plane.run(&get(1), 1).expect("it runs").verdict, TRANSMIT);
}

#[test]
fn an_untagged_write_makes_the_entry_invalid_through_its_agent() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane, 1, b"old");
    let agent = Frame::udp(at(SERVER), at("10.0.0.254:50000"));
    let (ack, _) = reply(&mut plane, &agent, &Message::new(Op::Invalidate, 5, name(1)).bytes());
    assert_eq!((ack.op, ack.version), (Op::InvalidateAck, 101));
    assert!(ack.flags.has(Flags::CACHED));
    passes(&mut plane, "a get", &get(1));
    let (ack, _) = reply(&mut plane, &agent, &Message::new(Op::Invalidate, 6, name(2)).bytes());
    assert_eq!((ack.version, ack.flags.has(Flags::CACHED)), (0, false));
}

#[test]
fn long_keys_are_compared_whole() {
    let Some(mut plane) = data_plane(small()) else { return };
    let long: Vec<u8> = (0..250).map(|byte| byte as u8).collect();
    let tail = |key: &[u8], value: &[u8]| [&[key.len() as u8][..], key, value].concat();
    let key = switch::install::Key {
        name: name(1),
        bytes: long.clone(),
        server: at(SERVER),
        protocol: switch::layout::Protocol::NetCache,
        lease: 0,
    };
    plane.leases[0].store(u64::MAX, Relaxed);
    assert!(plane.admit(1, &key, Room { place: 1, bitmap: 0 }, 100), "there is room");
    assert!(plane.fill(1, 100, &support::value(&tail(&long, b"value"))));
    let asked = |key: &[u8]| {
        let value = tail(key, b"");
        Message { flags: Flags::LONG_KEY, value: &value, ..Message::new(Op::Get, 7, name(1)) }
            .bytes()
    };
    let (message, value) = reply(&mut plane, &to_server(), &asked(&long));
    assert!(message.flags.has(Flags::LONG_KEY) && message.flags.has(Flags::FOUND));
    assert_eq!(value, tail(&long, b"value"));
    let mut other = long.clone();
    other[249] ^= 1;
    passes(&mut plane, "a colliding key", &to_server().bytes(&asked(&other)));
    passes(&mut plane, "a shorter key", &to_server().bytes(&asked(&long[..249])));
    passes(&mut plane, "the name itself", &get(1));
}

#[test]
fn nothing_is_served_beyond_its_servers_lease() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane, 1, b"value");
    plane.leases[0].store(1, Relaxed);
    passes(&mut plane, "after the lease", &get(1));
    plane.leases[0].store(u64::MAX, Relaxed);
    assert_eq!(plane.run(&get(1), 1).expect("it runs").verdict, TRANSMIT);
}

#[test]
fn an_evicted_key_is_gone_and_its_updates_with_it() {
    let Some(mut plane) = data_plane(small()) else { return };
    cache(&mut plane, 1, b"value");
    plane.evict(1, &name(1));
    passes(&mut plane, "a get", &get(1));
    let agent = Frame::udp(at(SERVER), at("10.0.0.254:50000"));
    let update = Message { version: 100, ..Message::new(Op::Update, 3, name(1)) };
    let (ack, _) = reply(&mut plane, &agent, &update.bytes());
    assert!(!ack.flags.has(Flags::CACHED));
    assert_ne!(plane.run(&get(1), 1).expect("it runs").verdict, DROP);
}
