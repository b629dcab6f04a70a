//! Mutated packets through the real program: every reply is well-formed and equals the server's;
//! all other packets pass byte for byte, or are dropped where the protocol requires it; packets
//! that may not be sent on a side change nothing. The same source is also compiled natively with
//! sanitizers, which check every access.
//!
//! A failure prints the frame; frames that failed once belong into [`REGRESSIONS`].
#![allow(clippy::print_stdout, reason = "a test says what it skips and what it saw")]

mod support;

use std::{fs, path::Path, process::Command};

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use support::written::{cache_text, named};
use support::{SERVER as NETCACHE, at, cache, come_from, data_plane, name, small};
use switch::{
    attach::Side,
    frame::{Frame, Transport},
    plane::{DROP, DataPlane, PASS, TRANSMIT},
};
use wire::{
    memcache::{frame::Frame as Datagram, item::Item},
    netcache::{Flags, Message, Op, Party},
};

const MEMCACHED: &str = "10.0.0.2:11211";
const ITEMS: [(&str, &str); 3] = [("a", "1"), ("bb", "two"), ("key:12345", "the third value")];
/// First number of the entries for memcached's items, after those of NetCache's keys.
const FIRST: u32 = 16;
const MUTANTS: u32 = 30_000;
/// The version under which everything is cached.
const ADMITTED: u64 = 100;

/// Frames of former failures, in hexadecimal.
const REGRESSIONS: [&str; 0] = [];

struct Random(SplitMix64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.0.next_u64()) * limit as u128) >> 64) as usize
    }

    fn byte(&mut self) -> u8 {
        const TELLING: &[u8] = b" \r\n\0\x01\x7f\x80\xff\x45\x46\x08\x11\x06getmsab0:";
        if self.below(2) == 0 { TELLING[self.below(TELLING.len())] } else { self.below(256) as u8 }
    }
}

/// Caches everything as before the first packet.
fn fill(plane: &mut DataPlane) {
    for number in 0..4 {
        cache(plane, number, format!("value {number}").as_bytes());
    }
    for (number, (key, text)) in (0..).zip(ITEMS) {
        let item = Item { flags: 5, lives_s: None, value: text.into() };
        let texts = [item.get_text(key.as_bytes()), item.meta_text()];
        for (meta, text) in [false, true].into_iter().zip(texts) {
            let place = FIRST + number * 2 + u32::from(meta);
            let named = named(plane, MEMCACHED, key, meta);
            cache_text(plane, place, &named, &text);
        }
    }
}

/// The reply of a memcached with [`ITEMS`] to the gets that the cache may answer.
fn memcached_says(text: &[u8]) -> Option<Vec<u8>> {
    let item = |key: &[u8]| {
        let (_, value) = ITEMS.iter().find(|(known, _)| known.as_bytes() == key)?;
        Some(Item { flags: 5, lives_s: None, value: (*value).into() })
    };
    let line = text.strip_suffix(b"\r\n")?;
    if let Some(keys) = line.strip_prefix(b"get ") {
        let mut out = Vec::new();
        for key in keys.split(|byte| *byte == b' ') {
            out.extend(item(key)?.get_text(key));
        }
        return Some([&out[..], b"END\r\n"].concat());
    }
    Some(item(line.strip_prefix(b"mg ")?.strip_suffix(b" v")?)?.meta_text())
}

/// Whether a message may enter on that side.
fn may_come(op: Op, side: Side) -> bool {
    match op.sender() {
        Party::Client => true,
        Party::Agent => side == Side::Servers,
        Party::DataPlane | Party::Controller => false,
    }
}

fn is_right(frame: &[u8], side: Side, verdict: u32, out: &[u8]) -> Result<(), String> {
    // Checksums of requests are verified by the network card; here they only have to be present.
    let read = |bytes: &[u8]| Frame::read_unchecked(bytes);
    if verdict == PASS {
        let (before, after) = (read(frame).ok(), read(out).ok());
        let tagged = || {
            let (before, after) = (before?.1, after?.1);
            let (before, after) = (Message::decode(&before).ok()?, Message::decode(&after).ok()?);
            let op = match before.op {
                Op::Put => Op::PutCached,
                Op::Delete => Op::DeleteCached,
                _ => return None,
            };
            let same = (after.op, after.key, after.value) == (op, before.key, before.value);
            same.then_some(())
        };
        return if out == frame || tagged().is_some() { Ok(()) } else { Err("changed".into()) };
    }
    let (asked, payload) = read(frame).map_err(|why| format!("an answer to {why}"))?;
    let netcache = Message::decode(&payload).ok();
    if verdict == DROP {
        let drops = netcache.is_some_and(|message| {
            matches!(message.op, Op::Update | Op::Invalidate) || !may_come(message.op, side)
        });
        return if drops { Ok(()) } else { Err("dropped".into()) };
    }
    if verdict != TRANSMIT {
        return Err(format!("verdict {verdict}"));
    }
    let (back, said) = Frame::read(out)?;
    if (back.source, back.destination) != (asked.destination, asked.source) {
        return Err(format!("sent to {}", back.destination));
    }
    if asked.destination == at(MEMCACHED) {
        let request = Datagram::decode(&payload).map_err(|why| why.to_string())?;
        let reply = Datagram::decode(&said).map_err(|why| why.to_string())?;
        let expected =
            memcached_says(request.payload).ok_or("an answer to a command other than get")?;
        let whole = (request.sequence, request.datagrams, reply.request) == (0, 1, request.request);
        return if whole && reply.payload == expected {
            Ok(())
        } else {
            Err(format!("answered {:?}", said.escape_ascii().to_string()))
        };
    }
    let (asked, said) = (netcache.ok_or("an answer to nothing")?, Message::decode(&said));
    let said = said.map_err(|why| why.to_string())?;
    let number = (0..4u32).find(|number| name(*number) == asked.key);
    let is_value = match (asked.op, said.op, number) {
        (Op::Get, Op::GetReply, Some(number)) => {
            said.flags.has(Flags::FOUND) && said.value == format!("value {number}").as_bytes()
        }
        (Op::Update, Op::UpdateAck, _) | (Op::Invalidate, Op::InvalidateAck, _) => {
            may_come(asked.op, side)
        }
        _ => false,
    };
    let same = (said.key, said.sequence) == (asked.key, asked.sequence);
    if is_value && same { Ok(()) } else { Err(format!("answered {said:?}")) }
}

const SIDES: [Side; 2] = [Side::Clients, Side::Servers];

/// Whether the frame contains a message that may not enter on that side.
fn is_misplaced(frame: &[u8], side: Side) -> bool {
    let Ok((carrier, payload)) = Frame::read_unchecked(frame) else { return false };
    let is_netcache = carrier.destination.port() == at(NETCACHE).port();
    is_netcache && Message::decode(&payload).is_ok_and(|message| !may_come(message.op, side))
}

fn seeds() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut carried = |server: &str, payload: &[u8], transport| {
        let four = Frame { transport, ..Frame::udp(at("10.0.0.1:40000"), at(server)) };
        let port = at(server).port();
        let six = Frame {
            transport,
            vlans: vec![5, 6],
            ..Frame::udp(at("[fd00::1]:40000"), format!("[fd00::2]:{port}").parse().expect("one"))
        };
        frames.push(four.bytes(payload));
        frames.push(six.bytes(payload));
    };
    for text in [
        "get a\r\n",
        "get key:12345\r\n",
        "get a bb key:12345\r\n",
        "mg a v\r\n",
        "mg bb v\r\n",
        "gets a\r\n",
        "gat 0 a bb\r\n",
        "set a 0 0 1\r\nx\r\n",
        "delete bb\r\n",
        "ms a 1\r\nx\r\n",
        "flush_all\r\n",
    ] {
        let datagram = Datagram::whole(7, text.as_bytes()).bytes();
        carried(MEMCACHED, &datagram, Transport::Udp);
        carried(MEMCACHED, text.as_bytes(), Transport::Tcp);
    }
    for op in Op::ALL {
        for (number, version) in [(1, 0), (9, 0), (1, ADMITTED), (1, ADMITTED + 1), (2, 1 << 62)] {
            let value: &[u8] = if *op == Op::Get { b"" } else { b"new" };
            let message = Message { value, version, ..Message::new(*op, 7, name(number)) };
            carried(NETCACHE, &message.bytes(), Transport::Udp);
        }
    }
    frames
}

fn mutate(frame: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(frame.len().max(1));
        match random.below(6) {
            0 => frame.truncate(at.max(14)),
            1 => frame.insert(at, random.byte()),
            2 if frame.len() > 15 => drop(frame.remove(at)),
            3 => {
                let end = (at + random.below(24)).min(frame.len());
                let copied = frame[at..end].to_vec();
                let to = random.below(frame.len());
                frame.splice(to..to, copied);
            }
            _ => {
                if let Some(byte) = frame.get_mut(at) {
                    *byte = random.byte();
                }
            }
        }
    }
    // With consistent lengths, a mutant passes the first checks.
    if random.below(4) > 0 && frame.get(12..14) == Some(&[8, 0]) && frame.len() >= 42 {
        let ip = (frame.len() - 14) as u16;
        frame[16..18].copy_from_slice(&ip.to_be_bytes());
        if frame[23] == 17 {
            frame[38..40].copy_from_slice(&(ip - 20).to_be_bytes());
        }
    }
    frame.truncate(1500);
    frame.resize(frame.len().max(14), 0);
}

fn fuzz(seed: u64, mutants: u32) {
    let Some(mut plane) = data_plane(small()) else { return };
    let (mut random, seeds) = (Random(SplitMix64::seed_from_u64(seed)), seeds());
    let mut verdicts = [0u32; 4];
    let mut check = |plane: &mut DataPlane, side: Side, frame: &[u8]| {
        fill(plane);
        come_from(plane, side);
        let outcome = plane.run(frame, 1).expect("it runs");
        verdicts[outcome.verdict as usize & 3] += 1;
        let mut right = is_right(frame, side, outcome.verdict, &outcome.frame);
        if is_misplaced(frame, side)
            && (0..4).any(|key| plane.version(key) != Some((ADMITTED, true)))
        {
            right = Err("an entry was changed".into());
        }
        if let Err(why) = right {
            let digits: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
            panic!("seed {seed}: {why} from {side:?}: {digits}");
        }
    };
    for frame in &seeds {
        SIDES.into_iter().for_each(|side| check(&mut plane, side, frame));
    }
    for digits in REGRESSIONS {
        let pairs = digits.as_bytes().chunks_exact(2).map(|pair| {
            u8::from_str_radix(&String::from_utf8_lossy(pair), 16).expect("hexadecimal digits")
        });
        let frame = pairs.collect::<Vec<u8>>();
        SIDES.into_iter().for_each(|side| check(&mut plane, side, &frame));
    }
    for _ in 0..mutants {
        let mut frame = seeds[random.below(seeds.len())].clone();
        mutate(&mut frame, &mut random);
        check(&mut plane, SIDES[random.below(2)], &frame);
    }
    println!("dropped {}, passed {}, answered {}", verdicts[1], verdicts[2], verdicts[3]);
    assert!(verdicts[3] > mutants / 100, "hardly anything was answered");
}

/// Compiles `bpf/native.c` and feeds it mutants of the same frames.
fn natively(seed: u32, mutants: u32) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("native-{seed}"));
    fs::create_dir_all(&directory).expect("a directory");
    let program = directory.join("native");
    let built = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-g", "-w", "-fsanitize=address,undefined"])
        // The virtual machine of the kernel allows unaligned reads.
        .args(["-fno-sanitize=alignment", "-fno-sanitize-recover=all"])
        .args(["-I", env!("OUT_DIR")])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/native.c"))
        .arg("-o")
        .arg(&program)
        .output();
    let said = match built {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(said) = said {
        println!("SKIPPED: no C compiler with sanitizers: {said}");
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{said}");
        return;
    }
    let frames = seeds().into_iter().enumerate().map(|(number, frame)| {
        let path = directory.join(number.to_string());
        fs::write(&path, frame).expect("it is written");
        path
    });
    let frames: Vec<_> = frames.collect();
    let output = Command::new(&program)
        .args([mutants.to_string(), seed.to_string()])
        .args(frames)
        .output()
        .expect("it runs");
    println!("natively: {}", String::from_utf8_lossy(&output.stdout).trim());
    assert!(output.status.success(), "seed {seed}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn mutants_natively() {
    natively(1, 5 * MUTANTS);
}

#[test]
fn mutants() {
    fuzz(1, MUTANTS);
}

#[test]
#[ignore = "minutes: make soak"]
fn many_mutants() {
    (2..40).for_each(|seed| fuzz(seed, 10 * MUTANTS));
    (2..10).for_each(|seed| natively(seed, 100 * MUTANTS));
}
