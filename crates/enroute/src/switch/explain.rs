//! Runs one packet through the real program and describes the result.

use std::{fmt::Write, path::Path};

use anyhow::{Context, bail};
use switch::{
    frame::Frame,
    layout::COUNTERS,
    plane::{DataPlane, PASS, TRANSMIT},
};
use wire::{memcache, netcache};

/// Runs `frame` and says what the program did with it.
///
/// # Errors
/// The kernel call fails.
pub fn explain(plane: &mut DataPlane, frame: &[u8]) -> anyhow::Result<String> {
    let before = plane.counts()?;
    let outcome = plane.run(frame, 1)?;
    let after = plane.counts()?;
    let mut out = format!("in      {}\n", describe(plane, frame));
    let verdict = match outcome.verdict {
        TRANSMIT => "answered by the program",
        PASS if outcome.frame == frame => "passed unchanged",
        PASS => "passes, tagged",
        _ => "dropped",
    };
    let _ = writeln!(out, "verdict {verdict}");
    for ((name, meaning), (before, after)) in COUNTERS.iter().zip(before.iter().zip(after)) {
        if after > *before {
            let _ = writeln!(out, "counted {name}: {meaning}");
        }
    }
    if outcome.frame != frame {
        let _ = writeln!(out, "out     {}", describe(plane, &outcome.frame));
    }
    Ok(out)
}

fn describe(plane: &DataPlane, bytes: &[u8]) -> String {
    let (frame, payload) = match Frame::read(bytes) {
        Ok(read) => read,
        Err(why) => return format!("{} bytes: {why}", bytes.len()),
    };
    let head = format!("{:?} {} > {}", frame.transport, frame.source, frame.destination);
    let ports = [frame.source.port(), frame.destination.port()];
    if ports.contains(&plane.config().netcache_port) {
        return match netcache::Message::decode(&payload) {
            Ok(message) => format!(
                "{head}: {:?} {} flags {:#04x} version {}, {} bytes of value",
                message.op,
                message.key.escape_ascii(),
                message.flags.0,
                message.version,
                message.value.len()
            ),
            Err(why) => format!("{head}: {why}"),
        };
    }
    let said = if ports.contains(&plane.config().memcache_port) && bytes.get(23) == Some(&17) {
        memcache::frame::Frame::decode(&payload).map_or(&payload[..], |frame| frame.payload)
    } else {
        &payload[..]
    };
    let line = said.split(|byte| *byte == b'\n').next().unwrap_or_default();
    format!("{head}: {}", line.get(..120).unwrap_or(line).escape_ascii())
}

/// A frame from hexadecimal digits, or the first one of a capture.
///
/// # Errors
/// It is neither.
pub fn frame_of(argument: &str) -> anyhow::Result<Vec<u8>> {
    if Path::new(argument).exists() {
        let file = std::fs::read(argument).with_context(|| format!("cannot read {argument}"))?;
        // Magic, versions, zone, accuracy, length, link type; then time, length, length.
        let bytes = match file.get(..4) {
            Some([0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1]) => file.get(32..36),
            _ => bail!(
                "{argument}: expected a capture in pcap format, in the byte order of this machine"
            ),
        };
        let bytes = bytes.and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes);
        let frame = file.get(40..40 + bytes as usize).filter(|frame| !frame.is_empty());
        return Ok(frame
            .with_context(|| format!("{argument}: expected at least one packet, found none"))?
            .to_vec());
    }
    let digits: Vec<u8> = argument.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks_exact(2).map(|pair| {
        u8::from_str_radix(&String::from_utf8_lossy(pair), 16)
            .context("expected hexadecimal digits")
    });
    let frame: Vec<u8> = pairs.collect::<anyhow::Result<_>>()?;
    if frame.len() < 14 {
        bail!("expected a capture or at least 14 bytes in hexadecimal, got {argument:?}");
    }
    Ok(frame)
}
