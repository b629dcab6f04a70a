//! Code shared by the test `memcache_corpus_never_panics` and the fuzz target `memcache_stream`.

use wire::Error;
use wire::memcache::reply::{Meta, Scanner, Shape, Value};
use wire::memcache::{Limits, request};

const SHAPES: [Shape; 5] = [Shape::Line, Shape::Values, Shape::Meta, Shape::Keys, Shape::Fenced];

/// Decodes the input as requests, and as replies of every shape. The first byte is the chunk size.
/// Panics if an invariant of the codec is violated.
pub(crate) fn exercise(input: &[u8]) {
    let Some((&chunk_bytes, bytes)) = input.split_first() else { return };
    let limits = Limits { line_bytes_max: 300, keys_line_bytes_max: 500, value_bytes_max: 2_000 };
    let chunk_bytes = usize::from(chunk_bytes).max(1);
    let whole = requests(bytes, bytes.len().max(1), &limits);
    assert_eq!(whole, requests(bytes, chunk_bytes, &limits));
    assert_eq!(whole.0, passed(bytes, chunk_bytes, &limits));
    for shape in SHAPES {
        let whole = replies(bytes, bytes.len().max(1), shape, &limits);
        assert_eq!(whole, replies(bytes, chunk_bytes, shape, &limits), "{shape:?}");
        let mut start = 0;
        for end in whole.0 {
            read(&bytes[start..end], shape);
            start = end;
        }
    }
}

/// Ends of the requests or replies, and whether an error stopped decoding.
type Ends = (Vec<usize>, bool);

fn requests(bytes: &[u8], chunk_bytes: usize, limits: &Limits) -> Ends {
    let (mut ends, mut start, mut end) = (Vec::new(), 0, 0);
    while end < bytes.len() {
        end = (end + chunk_bytes).min(bytes.len());
        loop {
            match request::decode(&bytes[start..end], limits) {
                Ok(Some((request, taken))) => {
                    assert_eq!(request.bytes(), &bytes[start..start + taken]);
                    assert!(request.value().len() <= limits.value_bytes_max);
                    let words = request.words().count();
                    assert!(request.keys().count() <= words && request.flags().count() <= words);
                    assert!(request.key().is_none_or(|key| (1..=250).contains(&key.len())));
                    let _ = (request.is_quiet(), request.name());
                    start += taken;
                    ends.push(start);
                }
                Ok(None) => break,
                Err(error) => {
                    let line = request::error_line(&error);
                    assert!(line.ends_with(b"\r\n") && !matches!(error, Error::Foreign { .. }));
                    return (ends, true);
                }
            }
        }
    }
    (ends, false)
}

/// As `requests`, with streamed values; the ends must be the same.
fn passed(bytes: &[u8], chunk_bytes: usize, limits: &Limits) -> Vec<usize> {
    let (mut ends, mut start, mut end) = (Vec::new(), 0, 0);
    let mut passing: Option<request::Passing> = None;
    while end < bytes.len() {
        end = (end + chunk_bytes).min(bytes.len());
        loop {
            let rest = &bytes[start..end];
            if let Some(left) = &mut passing {
                let Ok(passed) = left.advance(rest) else { return ends };
                start += passed.bytes;
                if !passed.ends {
                    break;
                }
                passing = None;
                ends.push(start);
                continue;
            }
            match request::begin(rest, limits) {
                Ok(Some((_, taken, rest))) => {
                    start += taken;
                    passing = Some(rest);
                }
                Ok(None) => match request::decode(rest, limits) {
                    Ok(Some((_, taken))) => {
                        start += taken;
                        ends.push(start);
                    }
                    Ok(None) => break,
                    Err(_) => return ends,
                },
                Err(_) => return ends,
            }
        }
    }
    ends
}

fn replies(bytes: &[u8], chunk_bytes: usize, shape: Shape, limits: &Limits) -> Ends {
    let mut scanner = Scanner::default();
    let (mut ends, mut start, mut end) = (Vec::new(), 0, 0);
    // The reply to the fence follows the fenced reply.
    let mut fence = false;
    while end < bytes.len() {
        end = (end + chunk_bytes).min(bytes.len());
        loop {
            let due = if fence { Shape::Line } else { shape };
            let Ok(progress) = scanner.advance(&bytes[start..end], due, limits) else {
                return (ends, true);
            };
            start += progress.consumed;
            if !progress.complete {
                break;
            }
            ends.push(start);
            fence = shape == Shape::Fenced && !fence;
        }
    }
    (ends, false)
}

/// Reads a whole reply of any shape.
fn read(reply: &[u8], shape: Shape) {
    let mut rest = reply;
    while let Some((value, taken)) = Value::first(rest) {
        assert!(taken > value.value.len());
        rest = &rest[taken..];
    }
    if let Some(meta) = Meta::parse(reply) {
        let _ = (meta.flags().count(), meta.flag(b't'));
        assert!(meta.value.is_none() || shape != Shape::Line);
    }
}
