//! The code of the fuzz target over real captures and thousands of mutations of them.

#[path = "captures/mongo.rs"]
mod captures;
#[path = "exercise/mongo.rs"]
mod exercise;

use exercise::exercise;
use proptest::prelude::*;

#[test]
fn real_captures_are_read_to_their_end() {
    for (name, stream) in captures::all() {
        exercise(&stream);
        assert!(!captures::frames(&stream).is_empty(), "{name}");
    }
}

#[test]
fn every_cut_of_a_capture_is_harmless() {
    for (_, stream) in captures::all() {
        for frame in captures::frames(&stream) {
            for end in 0..frame.len() {
                // With the length corrected, the truncated frame reaches the inner parsers.
                let mut cut = frame[..end].to_vec();
                if let Some(length) = cut.first_chunk_mut() {
                    *length = u32::try_from(end).unwrap().to_le_bytes();
                }
                exercise(&cut);
            }
        }
    }
}

#[test]
fn every_byte_of_a_capture_may_be_wrong() {
    for (_, stream) in captures::all() {
        for mut frame in captures::frames(&stream) {
            for at in 0..frame.len() {
                // One of three wrong values per position, in turn, to limit the test's duration.
                let wrong = [0x00, 0xFF, frame[at] ^ 1][at % 3];
                let right = std::mem::replace(&mut frame[at], wrong);
                exercise(&frame);
                frame[at] = right;
            }
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_are_harmless(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        exercise(&bytes);
    }

    #[test]
    fn random_bodies_are_harmless(
        opcode in prop::sample::select(vec![1, 2004, 2012, 2013, 2010]),
        body in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let length = u32::try_from(body.len() + 16).unwrap();
        let head = [length, 1, 0, opcode].map(u32::to_le_bytes).concat();
        exercise(&[head, body].concat());
    }

    #[test]
    fn captures_with_random_damage_are_harmless(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let all: Vec<_> = captures::all().iter().flat_map(|(_, s)| captures::frames(s)).collect();
        let mut frame = which.get(&all).clone();
        for (at, byte) in damage {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        exercise(&frame);
    }
}
