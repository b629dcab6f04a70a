//! Runs one packet through the real program and describes the result.

use std::fmt::Write;

use wire::{memcache, netcache};

use crate::{
    Error,
    frame::Frame,
    layout::COUNTERS,
    plane::{DataPlane, PASS, TRANSMIT},
};

/// Runs `frame` through the program and describes the result.
///
/// # Errors
/// The kernel call fails.
pub fn explain(plane: &mut DataPlane, frame: &[u8]) -> Result<String, Error> {
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
    name_counted(&mut out, &COUNTERS, &before, &after);
    if outcome.frame != frame {
        let _ = writeln!(out, "out     {}", describe(plane, &outcome.frame));
    }
    Ok(out)
}

/// Appends the name and the meaning of each counter that has grown.
pub(crate) fn name_counted(
    out: &mut String,
    names: &[(&str, &str)],
    before: &[u64],
    after: &[u64],
) {
    for ((name, meaning), (before, after)) in names.iter().zip(before.iter().zip(after)) {
        if after > before {
            let _ = writeln!(out, "counted {name}: {meaning}");
        }
    }
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

/// The first frame of a capture in pcap format.
///
/// # Errors
/// It is another file, or empty.
pub fn first_of_capture(file: &[u8]) -> Result<Vec<u8>, Error> {
    // Magic, versions, zone, accuracy, length, link type; then time, length, length.
    let bytes = match file.get(..4) {
        Some([0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1]) => file.get(32..36),
        _ => return Err(Error::Capture),
    };
    let bytes = bytes.and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes);
    let frame = file.get(40..40 + bytes as usize).filter(|frame| !frame.is_empty());
    frame.map(<[u8]>::to_vec).ok_or(Error::EmptyCapture)
}

/// A frame from hexadecimal digits; other characters are ignored.
///
/// # Errors
/// They are too few for an Ethernet header.
pub fn from_hexadecimal(text: &str) -> Result<Vec<u8>, Error> {
    let digits = text.chars().filter_map(|digit| Some(digit.to_digit(16)? as u8));
    let digits: Vec<u8> = digits.collect();
    let frame: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    if frame.len() < HEADER_BYTES { Err(Error::Frame(text.to_owned())) } else { Ok(frame) }
}

/// Of Ethernet.
const HEADER_BYTES: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_from_digits_or_from_a_capture() {
        let frame: Vec<u8> = (0..16).collect();
        let digits: Vec<String> = frame.iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(from_hexadecimal(&digits.join(":")).expect("a frame"), frame);
        assert!(matches!(from_hexadecimal("0011"), Err(Error::Frame(_))));
        let mut capture = [vec![0xd4, 0xc3, 0xb2, 0xa1], vec![0; 28]].concat();
        assert!(matches!(first_of_capture(&capture), Err(Error::EmptyCapture)));
        capture.extend(16_u32.to_le_bytes());
        capture.extend([0; 4]);
        capture.extend(&frame);
        capture.extend([9; 40]);
        assert_eq!(first_of_capture(&capture).expect("a frame"), frame);
        assert!(matches!(first_of_capture(b"\x0a\x0d\x0d\x0a"), Err(Error::Capture)));
    }
}
