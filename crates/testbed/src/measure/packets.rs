//! Cost of a packet in the kernel, for our program and for the smallest responder, in interleaved
//! rounds.

use anyhow::{Context, ensure};
use switch::{
    attach,
    frame::Frame,
    install::{Key, Room, Value},
    layout::{COUNTERS, Protocol, UNITS_MAX},
    measure::{Measure, Program, Request},
    plane::{Config, DataPlane, Values},
};
use wire::netcache::{self, Flags, Message, Op};

use super::Reading;

/// Number of packets of one reading.
const PACKETS: u32 = 200_000;
const SMALL: u32 = 1024;
const LARGE: u32 = 1 << 20;

struct Side {
    name: String,
    plane: Option<DataPlane>,
    keys: u32,
    first: u32,
    op: Op,
    value_bytes: usize,
    /// Whether the update of each pair of put and update is measured, not the put.
    updates: bool,
}

fn name(number: u32) -> netcache::Key {
    let mut name = *b"key:\0\0\0\0........";
    name[4..8].copy_from_slice(&number.to_be_bytes());
    name
}

fn plane(keys: u32, value_bytes: usize, values: Values) -> anyhow::Result<DataPlane> {
    let plane = DataPlane::load(Config { entries: keys, values, ..Config::default() })?;
    // Test runs without a network arrive on the loopback interface.
    plane.take_side(1, attach::Side::Servers)?;
    let key = |number| Key {
        name: name(number),
        bytes: Vec::new(),
        server: ([10, 0, 0, 2], 50_000).into(),
        protocol: Protocol::NetCache,
        lease: 0,
    };
    plane.leases[0].store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
    let value = Value { bytes: vec![7; value_bytes], expires_ns: u64::MAX, ..Value::default() };
    let units = value_bytes.div_ceil(128).max(1) as u32;
    for number in 0..keys {
        let share = UNITS_MAX as u32 / units;
        let room = match values {
            Values::Slots => Room { place: number, bitmap: 0 },
            Values::Registers { .. } => Room {
                place: number / share,
                bitmap: ((1 << units) - 1) << (number % share * units),
            },
        };
        // About one in a million keys is not cached, because its bucket is full.
        plane.admit(number, &key(number), room, 1);
        plane.fill(number, 1, &value);
    }
    Ok(plane)
}

pub(super) fn measure(rounds: usize, show: impl Fn(&str)) -> anyhow::Result<Vec<Reading>> {
    let smallest = |keys| -> anyhow::Result<Measure> {
        let mut measure = Measure::load(keys)?;
        for number in 0..keys {
            measure.store(name(number), [7; 16])?;
        }
        Ok(measure)
    };
    show("filling caches");
    let (mut measure, mut large) = (smallest(SMALL)?, smallest(LARGE)?);
    let side = |name: &str, plane, keys, first, op| Side {
        name: name.into(),
        plane,
        keys,
        first,
        op,
        value_bytes: 0,
        updates: false,
    };
    let mut sides = vec![
        side("smallest hit 128 B", None, SMALL, 0, Op::Get),
        side("smallest miss", None, SMALL, 1 << 24, Op::Get),
        side("miss", Some(plane(SMALL, 128, Values::Slots)?), SMALL, 1 << 24, Op::Get),
        side("put of a cached key", Some(plane(SMALL, 128, Values::Slots)?), SMALL, 0, Op::Put),
    ];
    for bytes in [16, 128, 512, 1024] {
        let slots = plane(SMALL, bytes, Values::Slots)?;
        sides.push(side(&format!("hit {bytes} B"), Some(slots), SMALL, 0, Op::Get));
        let registers = plane(SMALL, bytes, Values::Registers { rows: SMALL })?;
        sides.push(side(
            &format!("hit {bytes} B in registers"),
            Some(registers),
            SMALL,
            0,
            Op::Get,
        ));
        sides.push(Side {
            value_bytes: bytes,
            updates: true,
            ..side(
                &format!("update {bytes} B"),
                Some(plane(SMALL, bytes, Values::Slots)?),
                1,
                0,
                Op::Put,
            )
        });
    }
    for keys in [1 << 14, 1 << 16, LARGE] {
        let registers = plane(keys, 128, Values::Registers { rows: keys.div_ceil(11) })?;
        sides.push(side(
            &format!("hit 128 B of {keys} keys in registers"),
            Some(registers),
            keys,
            0,
            Op::Get,
        ));
        let slots = plane(keys, 128, Values::Slots)?;
        sides.push(side(&format!("hit 128 B of {keys} keys"), Some(slots), keys, 0, Op::Get));
    }
    sides.push(side(&format!("smallest hit 128 B of {LARGE} keys"), None, LARGE, 0, Op::Get));
    let mut readings: Vec<Reading> = sides
        .iter()
        .map(|side| Reading { name: side.name.clone(), values: Vec::new(), unit: "ns" })
        .collect();
    for round in 0..rounds {
        show(&format!("round {} of {rounds}", round + 1));
        for (side, reading) in sides.iter().zip(&mut readings) {
            let measure = if side.keys == LARGE { &mut large } else { &mut measure };
            reading.values.push(read(measure, side)?);
        }
    }
    Ok(readings)
}

fn read(measure: &mut Measure, side: &Side) -> anyhow::Result<f64> {
    // The source of an update is the destination of its put.
    let server = ([10, 0, 0, 2], 50_000).into();
    let from = if side.updates { server } else { ([10, 0, 0, 1], 40_000).into() };
    let value = vec![7; side.value_bytes];
    let message = Message {
        value: &value,
        flags: Flags::default().with(Flags::FOUND, side.updates),
        ..Message::new(side.op, 1, name(0))
    };
    let frame = Frame::udp(from, server).bytes(&message.bytes());
    let mut request = Request { frame: &frame, keys: side.keys, first: side.first, version: 0 };
    let program = side.plane.as_ref().map_or(Program::Smallest, Program::Switch);
    let nothing = measure.ns(&Program::Nothing, request, PACKETS)? as f64;
    let alone = measure.ns(&program, request, PACKETS)? as f64 - nothing;
    let Some(plane) = side.plane.as_ref().filter(|_| side.updates) else { return Ok(alone) };
    let before = updates(plane)?;
    request.version = plane.version(0).context("the data plane has no entry 0")?.0 + 1;
    let pairs = measure.ns(&program, request, PACKETS)? as f64 - nothing;
    let stored = updates(plane)? - before;
    ensure!(stored == u64::from(PACKETS / 2), "{stored} updates of {} were stored", PACKETS / 2);
    Ok(2.0 * pairs - alone)
}

/// Number of values stored by updates so far.
fn updates(plane: &DataPlane) -> anyhow::Result<u64> {
    let counts = plane.counts()?;
    let update = COUNTERS.iter().position(|(name, _)| *name == "update");
    Ok(counts[update.context("the data plane has no counter `update`")?])
}
