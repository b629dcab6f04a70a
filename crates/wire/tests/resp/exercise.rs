//! Code shared by the test `resp_corpus_never_panics` and the fuzz target `resp_frame`.

use wire::Error;
use wire::resp::request::{Decoder, error_line};
use wire::resp::{Frame, Limits, Pipeline, Reply, Scanner, command, frame, request};

/// Decodes the input as requests and as replies. The first byte is the chunk size. Panics if an
/// invariant of the codec is violated.
pub(crate) fn exercise(input: &[u8]) {
    let Some((&chunk_bytes, bytes)) = input.split_first() else { return };
    let limits = Limits { inline_bytes_max: 200, ..Limits::default() };
    let chunk_bytes = usize::from(chunk_bytes).max(1);
    let whole = alike(requests(bytes, &limits));
    assert_eq!(whole, alike(requests_in_chunks(bytes, chunk_bytes, &limits)));
    assert_eq!(replies(bytes, &limits), replies_in_chunks(bytes, chunk_bytes, &limits));
    let whole = messages(bytes, bytes.len().max(1), &limits);
    assert_eq!(whole, messages(bytes, chunk_bytes, &limits));
    assert_eq!(whole.0.len(), replies(bytes, &limits).0.len());
}

/// Ends of the requests or replies, and the error that stopped decoding.
type Ends = (Vec<usize>, Option<Error>);

/// Removes the first bytes of a foreign protocol: their number depends on the chunk size.
fn alike((ends, error): Ends) -> Ends {
    let error = error.map(|error| match error {
        Error::Foreign { expected, found, first } => {
            Error::Foreign { expected, found, first: first.map(|_| 0) }
        }
        other => other,
    });
    (ends, error)
}

fn requests(bytes: &[u8], limits: &Limits) -> Ends {
    let mut ends = Vec::new();
    let mut start = 0;
    loop {
        match request::decode(&bytes[start..], limits) {
            Ok(Some((request, taken))) => {
                assert!(bytes[start..start + taken].ends_with(request.bytes()));
                assert_eq!(request.arguments().count(), request.len());
                if let Some(command) = command::find(&request) {
                    let _ = command.keys(&request).map(Iterator::count);
                }
                start += taken;
                ends.push(start);
            }
            Ok(None) => return (ends, None),
            Err(error) => {
                // A foreign protocol gets an error in its own format.
                let foreign = matches!(error, Error::Foreign { .. });
                assert!(foreign || error_line(&error).ends_with(b"\r\n"));
                return (ends, Some(error));
            }
        }
    }
}

fn requests_in_chunks(bytes: &[u8], chunk_bytes: usize, limits: &Limits) -> Ends {
    let mut decoder = Decoder::default();
    let mut ends = Vec::new();
    let (mut start, mut end) = (0, 0);
    while end < bytes.len() {
        end = (end + chunk_bytes).min(bytes.len());
        loop {
            match decoder.decode(&bytes[start..end], limits) {
                Ok(Some((_, taken))) => start += taken,
                Ok(None) => break,
                Err(error) => return (ends, Some(error)),
            }
            ends.push(start);
        }
    }
    (ends, None)
}

fn replies(bytes: &[u8], limits: &Limits) -> Ends {
    let mut ends = Vec::new();
    let mut start = 0;
    loop {
        match frame::decode(&bytes[start..], limits) {
            Ok(Some((frame, taken))) => {
                assert_eq!(frame.bytes(), &bytes[start..start + taken]);
                read(&frame);
                start += taken;
                ends.push(start);
            }
            Ok(None) => return (ends, None),
            // The limit is that of a whole reply; the scanner has none.
            Err(Error::TooLarge { what: "reply bytes", .. }) => return (ends, None),
            Err(error) => return (ends, Some(error)),
        }
    }
}

fn replies_in_chunks(bytes: &[u8], chunk_bytes: usize, limits: &Limits) -> Ends {
    let mut scanner = Scanner::new(limits);
    let mut ends = Vec::new();
    let (mut start, mut end) = (0, 0);
    while end < bytes.len() {
        end = (end + chunk_bytes).min(bytes.len());
        while start < end {
            match scanner.advance(&bytes[start..end]) {
                Ok(progress) => {
                    start += progress.consumed;
                    if progress.complete {
                        ends.push(start);
                    }
                }
                Err(error) => return (ends, Some(error)),
            }
        }
    }
    (ends, None)
}

/// Reads all parts of a reply.
fn read(frame: &Frame<'_>) {
    let _ = (frame.error(), frame.integer(), frame.double(), frame.boolean(), frame.line());
    let _ = (frame.is_null(), frame.payload(), frame.chunks().count());
    frame.elements().for_each(|element| read(&element));
}

/// Replies as a client reads them, and the error that stopped it.
fn messages(bytes: &[u8], chunk_bytes: usize, limits: &Limits) -> (Vec<Reply>, Option<Error>) {
    let mut pipeline = Pipeline::new(0, limits);
    let mut messages = Vec::new();
    for chunk in bytes.chunks(chunk_bytes) {
        pipeline.room(chunk.len()).extend_from_slice(chunk);
        loop {
            match pipeline.message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => return (messages, Some(error)),
            }
        }
    }
    (messages, None)
}
