//! A stream decodes to the same frames, whatever its chunk sizes.

#[path = "captures/mongo.rs"]
mod captures;

use proptest::prelude::*;
use wire::mongo::frame::{Limits, decode};

/// Decodes `stream` in chunks of these sizes; returns each frame's bytes.
fn chunked(stream: &[u8], sizes: &[usize]) -> Vec<Vec<u8>> {
    let (mut buffer, mut found, mut rest) = (Vec::new(), Vec::new(), stream);
    for size in sizes.iter().chain(std::iter::repeat(&stream.len())) {
        let (chunk, later) = rest.split_at((*size).min(rest.len()));
        rest = later;
        buffer.extend_from_slice(chunk);
        while let Some((frame, length)) = decode(&buffer, &Limits::default()).unwrap() {
            found.push(frame.bytes().to_vec());
            buffer.drain(..length);
        }
        if rest.is_empty() {
            break;
        }
    }
    assert!(buffer.is_empty());
    found
}

proptest! {
    #[test]
    fn in_random_chunks(
        which in any::<prop::sample::Index>(),
        sizes in prop::collection::vec(1_usize..200, 0..200),
    ) {
        let all = captures::all();
        let (_, stream) = which.get(&all);
        prop_assert_eq!(chunked(stream, &sizes), captures::frames(stream));
    }
}

#[test]
fn byte_by_byte() {
    for (_, stream) in captures::all() {
        assert_eq!(chunked(&stream, &vec![1; stream.len()]), captures::frames(&stream));
    }
}
