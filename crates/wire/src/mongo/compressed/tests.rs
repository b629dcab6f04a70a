use super::*;
use crate::mongo::fixture::{body, decoded, frame, message, pair};
use crate::mongo::frame::Body;

const COMPRESSORS: [Compressor; 4] =
    [Compressor::Noop, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd];

fn inflate(bytes: &[u8], limits: &Limits) -> Result<Vec<u8>> {
    let frame = decoded(bytes);
    let Body::Compressed(compressed) = frame.body() else { panic!("not OP_COMPRESSED") };
    let mut out = b"before".to_vec();
    let inflated = compressed.inflate(limits, &mut out);
    if inflated.is_err() {
        assert_eq!(out, b"before");
    }
    inflated.map(|()| out.split_off(6))
}

fn compressed(frame: &[u8], compressor: Compressor) -> Vec<u8> {
    let mut out = Vec::new();
    compress(frame, compressor, &mut out).unwrap();
    out
}

/// `bytes` with `size` as the declared size.
fn declaring(mut bytes: Vec<u8>, size: i32) -> Vec<u8> {
    bytes[SIZE_OFFSET..SIZE_OFFSET + 4].copy_from_slice(&size.to_le_bytes());
    bytes
}

#[test]
fn what_is_compressed_inflates_to_the_same_frame() {
    let original = message(0, &[body(&pair("ping", 1))]);
    for compressor in COMPRESSORS {
        let bytes = compressed(&original, compressor);
        assert_eq!(inflate(&bytes, &Limits::default()).unwrap(), original, "{compressor:?}");
        let Body::Compressed(found) = *decoded(&bytes).body() else { panic!("not OP_COMPRESSED") };
        assert_eq!((found.compressor(), found.opcode()), (compressor, opcode::MSG));
        assert_eq!(decoded(&bytes).header().request_id, 7);
    }
}

#[test]
fn a_lying_size_is_refused_in_both_directions() {
    let original = message(0, &[body(&pair("ping", 1))]);
    let size = i32::try_from(original.len() - 16).unwrap();
    for compressor in COMPRESSORS {
        let bytes = compressed(&original, compressor);
        for lie in [0, size - 1, size + 1, 40_000_000] {
            let bytes = declaring(bytes.clone(), lie);
            assert!(inflate(&bytes, &Limits::default()).is_err(), "{compressor:?} {lie}");
        }
    }
}

#[test]
fn a_bomb_stops_at_the_size_it_declared() {
    let bomb = frame(opcode::MSG, &vec![0; 10_000_000]);
    for compressor in [Compressor::Snappy, Compressor::Zlib, Compressor::Zstd] {
        let bytes = declaring(compressed(&bomb, compressor), 1000);
        let mut out = Vec::new();
        let frame = decoded(&bytes);
        let Body::Compressed(compressed) = frame.body() else { panic!("not OP_COMPRESSED") };
        assert!(compressed.inflate(&Limits::default(), &mut out).is_err());
        assert!(out.capacity() < 100_000, "{compressor:?}: {}", out.capacity());
    }
}

#[test]
fn sizes_beyond_the_limit_are_refused_before_inflating() {
    let original = message(0, &[body(&pair("ping", 1))]);
    let bytes = compressed(&original, Compressor::Zlib);
    let exact = Limits { inflated_bytes_max: original.len(), ..Limits::default() };
    assert!(inflate(&bytes, &exact).is_ok());
    let small = Limits { inflated_bytes_max: original.len() - 1, ..Limits::default() };
    assert!(matches!(inflate(&bytes, &small), Err(Error::TooLarge { .. })));
}

#[test]
fn a_snappy_header_cannot_claim_what_its_bytes_cannot_hold() {
    // The varint 40,000,000 without data.
    let payload = [&2013_i32.to_le_bytes()[..], &40_000_000_i32.to_le_bytes(), &[1]].concat();
    let bytes = frame(opcode::COMPRESSED, &[&payload[..], &[0x80, 0xB4, 0x89, 0x13]].concat());
    let mut out = Vec::new();
    let frame = decoded(&bytes);
    let Body::Compressed(compressed) = frame.body() else { panic!("not OP_COMPRESSED") };
    assert!(compressed.inflate(&Limits::default(), &mut out).is_err());
    assert!(out.capacity() < 1000);
}

#[test]
fn a_zstd_window_beyond_the_limit_is_refused() {
    let original = frame(opcode::MSG, &vec![7; 5000]);
    let bytes = compressed(&original, Compressor::Zstd);
    assert!(inflate(&bytes, &Limits::default()).is_ok());
    // A frame header with a window of 2^31 bytes, then one empty last block.
    let zstd = [0x28, 0xB5, 0x2F, 0xFD, 0, 21 << 3, 1, 0, 0];
    let head = [&2013_i32.to_le_bytes()[..], &0_i32.to_le_bytes(), &[3]].concat();
    let bytes = frame(opcode::COMPRESSED, &[&head[..], &zstd].concat());
    assert!(inflate(&bytes, &Limits::default()).is_err());
}

#[test]
fn garbage_unknown_compressors_and_double_compression_are_refused() {
    let head = |opcode: i32, compressor: u8| {
        [&opcode.to_le_bytes()[..], &9_i32.to_le_bytes(), &[compressor], &[0xFF; 9]].concat()
    };
    for compressor in [1, 2, 3, 4, 255] {
        let bytes = frame(opcode::COMPRESSED, &head(opcode::MSG, compressor));
        assert!(inflate(&bytes, &Limits::default()).is_err(), "{compressor}");
    }
    let twice = frame(opcode::COMPRESSED, &head(opcode::COMPRESSED, 0));
    assert!(crate::mongo::frame::decode(&twice, &Limits::default()).is_err());
    assert!(compress(&[0; 15], Compressor::Noop, &mut Vec::new()).is_err());
    let unknown = compress(&[0; 16], Compressor::Unknown(9), &mut Vec::new());
    assert!(unknown.is_err());
}

#[test]
fn the_beginning_of_a_long_frame_is_what_inflating_all_begins_with() {
    // Half of the frame is several zstd blocks, each of which is 128 KiB and decodes only as a
    // whole.
    let words: Vec<u8> =
        (0..400_000_u32).flat_map(|n| (n % 977).wrapping_mul(n).to_le_bytes()).collect();
    let header = Header {
        length: HEADER_BYTES + words.len(),
        request_id: 7,
        response_to: 0,
        opcode: opcode::MSG,
    };
    let frame = [header.encode().as_slice(), &words].concat();
    for compressor in [Compressor::Noop, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd] {
        let mut packed = Vec::new();
        compress(&frame, compressor, &mut packed).unwrap();
        for there in [packed.len(), packed.len() / 2] {
            let limits = Limits::default();
            let found = beginning(&packed[..there], &limits, 20_000).unwrap();
            assert!(found.len() >= 20_000, "{compressor:?}: {}", found.len());
            assert_eq!(found[..20_000], frame[..20_000], "{compressor:?}");
        }
    }
}
