use proptest::prelude::*;

use super::{Framing, Limits, Scanner, body, head};

fn limits() -> Limits {
    Limits { head_bytes_max: 512, body_bytes_max: 1_000, content_bytes_max: 2_000 }
}

#[test]
fn a_head_states_how_its_body_ends() {
    let framing = |headers: &str| {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{headers}\r\n");
        let request = head::request(text.as_bytes(), &limits());
        request.map(|request| request.expect("a whole head").framing)
    };
    assert_eq!(framing(""), Ok(Framing::Length(0)));
    assert_eq!(framing("Content-Length: 12\r\n"), Ok(Framing::Length(12)));
    assert_eq!(framing("transfer-encoding: Chunked\r\n"), Ok(Framing::Chunked));
    for wrong in [
        "Content-Length: 1\r\nContent-Length: 1\r\n",
        "Content-Length: 1, 1\r\n",
        "Content-Length: +1\r\n",
        "Content-Length: \r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "A: b\nContent-Length: 3\r\n",
        "A: b\r\n c\r\n",
        "A : b\r\n",
        "A: \0\r\n",
    ] {
        assert!(framing(wrong).is_err(), "{wrong:?}");
    }
    let old = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert!(head::request(old, &limits()).is_err());
}

#[test]
fn a_head_ends_with_its_first_empty_line() {
    let bytes = |text: &str| {
        let request = head::request(text.as_bytes(), &limits());
        request.map(|request| request.map(|request| request.head.bytes))
    };
    let text = "\r\nPOST / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(bytes(&format!("{text}body\nof lines\r\n\r\n")), Ok(Some(text.len())));
    for end in 0..text.len() {
        assert_eq!(bytes(&text[..end]), Ok(None), "{end}");
    }
    // A line that is not ended by CR LF is refused as soon as it is seen.
    for wrong in ["\n", "POST / HTTP/1.1\nHost", "POST / HTTP/1.1\r\nA: b\n\r\n"] {
        assert!(bytes(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_reply_without_a_length_ends_with_the_connection() {
    let framing = |text: &str| {
        let reply = head::reply(text.as_bytes(), &limits());
        reply.map(|reply| reply.expect("a whole head").framing)
    };
    assert_eq!(framing("HTTP/1.1 200 OK\r\n\r\n"), Ok(Framing::UntilClose));
    assert_eq!(framing("HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n"), Ok(Framing::Length(0)));
    assert_eq!(framing("HTTP/1.1 100 Continue\r\n\r\n"), Ok(Framing::Length(0)));
    assert!(framing("HTTP/1.1 OK\r\n\r\n").is_err());
}

#[test]
fn limits_hold_for_heads_and_bodies() {
    let long = format!("POST / HTTP/1.1\r\nA: {}", "b".repeat(600));
    assert!(head::request(long.as_bytes(), &limits()).is_err());
    assert!(Scanner::new(Framing::Length(1_001), &limits()).is_err());
    let chunks = |text: &[u8]| body::whole(Framing::Chunked, text, &limits()).map(|_| ());
    assert!(chunks(b"3E9\r\n").is_err());
    assert!(chunks(b"fffffffffffffffff\r\n").is_err());
    assert!(chunks(&[b"1;", "x".repeat(300).as_bytes()].concat()).is_err());
    assert!(chunks(&[b"0\r\nA: ", "x".repeat(9 << 10).as_bytes()].concat()).is_err());
    for wrong in [&b"1\nx\r\n0\r\n\r\n"[..], b"1\r\nxx\r\n", b"\r\n", b"-1\r\n", b"1 x\r\ny"] {
        assert!(chunks(wrong).is_err(), "{}", wrong.escape_ascii());
    }
}

#[test]
fn chunks_are_joined_and_their_trailer_is_passed_over() {
    let text = b"3;a=b\r\nabc\r\n02\r\nde\r\n0\r\nX: y\r\n\r\nPOST";
    let (body, length) =
        body::whole(Framing::Chunked, text, &limits()).expect("valid").expect("whole");
    assert_eq!((&*body, length), (&b"abcde"[..], text.len() - 4));
}

#[test]
fn a_client_states_which_codings_it_takes() {
    let takes = |headers: &str| {
        let text = format!("POST / HTTP/1.1\r\n{headers}\r\n");
        let request = head::request(text.as_bytes(), &limits()).expect("valid").expect("whole");
        (request.head.takes_identity(), request.head.takes_known_codings())
    };
    assert_eq!(takes(""), (true, true));
    for known in ["identity", "gzip", "gzip, deflate", "GZIP;q=0.5,x-gzip", "", "br;q=0, gzip"] {
        assert_eq!(takes(&format!("Accept-Encoding: {known}\r\n")), (true, true), "{known}");
    }
    for unknown in ["br", "gzip, zstd;q=0.1", "*", "br;q=0.01", "gzip\r\nAccept-Encoding: br"] {
        assert_eq!(takes(&format!("Accept-Encoding: {unknown}\r\n")), (true, false), "{unknown}");
    }
    for refused in ["identity;q=0", "gzip, identity ; q=0.000", "gzip\r\nAccept-Encoding: *;q=0"] {
        assert_eq!(takes(&format!("Accept-Encoding: {refused}\r\n")), (false, true), "{refused}");
    }
    assert_eq!(takes("Accept-Encoding: *;q=0, identity;q=0.5\r\n"), (true, true));
    assert_eq!(takes("Accept-Encoding: identity;q=0.001\r\n"), (true, true));
}

/// A body in its framing.
fn framed(parts: &[Vec<u8>], chunked: bool) -> (Framing, Vec<u8>) {
    if !chunked {
        let body = parts.concat();
        return (Framing::Length(body.len() as u64), body);
    }
    let mut bytes = Vec::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        bytes.extend(format!("{:x}\r\n", part.len()).bytes());
        bytes.extend(part);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    (Framing::Chunked, bytes)
}

proptest! {
    #[test]
    fn any_chunking_finds_the_same_end(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..5),
        chunked: bool,
        cuts in prop::collection::vec(1usize..7, 1..80),
    ) {
        let (framing, bytes) = framed(&parts, chunked);
        let stream = [&bytes[..], b"POST / "].concat();
        let mut scanner = Scanner::new(framing, &limits()).expect("within the limits");
        let (mut consumed, mut seen) = (0, 0);
        let mut complete = bytes.is_empty();
        for cut in cuts.iter().cycle() {
            if complete {
                break;
            }
            seen = (seen + cut).min(stream.len());
            let progress = scanner.advance(&stream[consumed..seen]).expect("valid");
            consumed += progress.consumed;
            complete = progress.complete;
        }
        prop_assert_eq!(consumed, bytes.len());
        let (body, length) = body::whole(framing, &stream, &limits()).expect("valid").expect("whole");
        prop_assert_eq!((&*body, length), (&parts.concat()[..], bytes.len()));
        for end in 0..bytes.len() {
            prop_assert!(body::whole(framing, &bytes[..end], &limits()).expect("valid").is_none());
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), status in 90u16..600) {
        let reply = [format!("HTTP/1.1 {status} \r\n").as_bytes(), &bytes].concat();
        let _ = (head::request(&bytes, &limits()), head::reply(&reply, &limits()));
        let _ = body::whole(Framing::Chunked, &bytes, &limits());
    }
}
