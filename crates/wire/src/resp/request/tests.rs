use proptest::prelude::*;

use super::*;

fn decode_all(mut bytes: &[u8], limits: &Limits) -> Result<Vec<Vec<Vec<u8>>>> {
    let mut requests = Vec::new();
    while let Some((request, taken)) = decode(bytes, limits)? {
        assert_eq!(request.arguments().count(), request.len());
        assert!(request.len() > 0);
        for index in 0..request.len() + 2 {
            assert_eq!(request.argument(index), request.arguments().nth(index));
        }
        requests.push(request.arguments().map(<[u8]>::to_vec).collect());
        bytes = &bytes[taken..];
    }
    Ok(requests)
}

/// Feeds chunks of these sizes, repeated, to one decoder, as a connection would.
fn decode_chunked(bytes: &[u8], sizes: &[usize], limits: &Limits) -> Result<Vec<Vec<Vec<u8>>>> {
    let mut decoder = Decoder::default();
    let mut requests = Vec::new();
    let (mut start, mut end) = (0, 0);
    let mut sizes = sizes.iter().cycle();
    while end < bytes.len() {
        end = (end + sizes.next().unwrap()).min(bytes.len());
        while let Some((request, taken)) = decoder.decode(&bytes[start..end], limits)? {
            requests.push(request.arguments().map(<[u8]>::to_vec).collect());
            start += taken;
        }
    }
    Ok(requests)
}

fn one(bytes: &[u8]) -> Vec<String> {
    let (request, taken) = decode(bytes, &Limits::default()).unwrap().unwrap();
    assert_eq!(taken, bytes.len());
    request.arguments().map(|argument| argument.escape_ascii().to_string()).collect()
}

fn refusal(bytes: &[u8]) -> String {
    let error = decode(bytes, &Limits::default()).unwrap_err();
    String::from_utf8(error_line(&error)).unwrap()
}

#[test]
fn reads_a_command() {
    let bytes = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n*1\r\n$4\r\nPING\r\n";
    let (request, taken) = decode(bytes, &Limits::default()).unwrap().unwrap();
    assert_eq!(taken, 22);
    assert_eq!(request.bytes(), &bytes[..22]);
    assert_eq!((request.name(), request.len()), (&b"GET"[..], 2));
    assert_eq!(request.argument(1), Some(&b"key"[..]));
    assert_eq!(request.argument(2), None);
}

#[test]
fn reads_empty_and_binary_arguments() {
    assert_eq!(
        one(b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\n\r\n\0\xff\r\n"),
        ["SET", "", r"\r\n\x00\xff"]
    );
}

#[test]
fn skips_what_redis_answers_nothing_to() {
    let bytes = b"\r\n\n*0\r\n*-1\r\n  \t\r\nPING\r\n";
    let (request, taken) = decode(bytes, &Limits::default()).unwrap().unwrap();
    assert_eq!((request.name(), request.bytes()), (&b"PING"[..], &b"PING\r\n"[..]));
    assert_eq!(taken, bytes.len());
    assert!(decode(b"\r\n*0\r\n", &Limits::default()).unwrap().is_none());
}

#[test]
fn refuses_endless_blanks() {
    let limits = Limits { inline_bytes_max: 8, ..Limits::default() };
    assert!(decode(b"\r\n\r\n\r\n\r\nPING\r\n", &limits).unwrap().is_some());
    assert!(decode(b"\r\n\r\n\r\n\r\n\r\nPING\r\n", &limits).is_err());
}

#[test]
fn splits_inline_commands_like_redis() {
    assert_eq!(one(b"set  k\tv\r\n"), ["set", "k", "v"]);
    assert_eq!(one(b"  GET k\n"), ["GET", "k"]);
    assert_eq!(one(b"SET k \"a b\\x41\\n\\q\\x4\" ''\r\n"), ["SET", "k", r"a bA\nqx4", ""]);
    assert_eq!(one(b"SET k 'it\\'s \\n' a\"b c\"\r\n"), ["SET", "k", r"it\'s \\n", "ab c"]);
    for open in [&b"SET k \"a\r\n"[..], b"SET k 'a\r\n", b"SET k \"a\"b\r\n", b"SET k \"a\\\r\n"] {
        assert_eq!(refusal(open), "-ERR Protocol error: unbalanced quotes in request\r\n");
    }
}

#[test]
fn refuses_in_the_words_of_redis() {
    let line = |reason: &str| format!("-ERR Protocol error: {reason}\r\n");
    assert_eq!(refusal(b"*x\r\n"), line("invalid multibulk length"));
    assert_eq!(refusal(b"*1048577\r\n"), line("invalid multibulk length"));
    assert_eq!(refusal(b"*99999999999999999999"), line("invalid multibulk length"));
    assert_eq!(refusal(b"*1\r\n:1\r\n"), line("expected '$', got ':'"));
    assert_eq!(refusal(b"*1\r\n\r\n"), line(r"expected '$', got '\r'"));
    assert_eq!(refusal(b"*1\r\n$-1\r\n"), line("invalid bulk length"));
    assert_eq!(refusal(b"*1\r\n$03\r\n"), line("invalid bulk length"));
    assert_eq!(refusal(b"*1\r\n$-0\r\n"), line("invalid bulk length"));
    assert_eq!(refusal(b"*1\r\n$+1\r\n"), line("invalid bulk length"));
    assert_eq!(refusal(b"*1\r\n$?\r\n"), line("invalid bulk length"));
    assert_eq!(refusal(b"*1\r\n$536870913\r\n"), line("invalid bulk length"));
    assert_eq!(refusal(b"*1\r\n$1\r\naXY"), line("invalid bulk length"));
    assert_eq!(refusal(&[b'a'; 65537]), line("too big inline request"));
}

#[test]
fn a_lone_carriage_return_ends_no_length() {
    for bytes in [&b"*1\rx"[..], b"*1\r\r\n", b"*\r\n", b"*1\n", b"*1\r\n$1\r\r\na\r\n"] {
        assert!(decode(bytes, &Limits::default()).is_err(), "{}", bytes.escape_ascii());
    }
}

#[test]
fn bounds_the_whole_request() {
    let limits = Limits { request_bytes_max: 20, ..Limits::default() };
    let mut bytes = Vec::new();
    write_command(&mut bytes, &["a", "b"]);
    assert!(decode(&bytes, &limits).unwrap().is_some());
    bytes.clear();
    write_command(&mut bytes, &["a", "b", "c"]);
    let error = decode(&bytes, &limits).unwrap_err();
    assert!(matches!(error, Error::TooLarge { what: REQUEST_BYTES, limit: 20, .. }), "{error}");
}

#[test]
fn a_declared_length_takes_no_memory() {
    let mut decoder = Decoder::default();
    let declared = b"*1048576\r\n$536870912\r\n";
    assert!(decoder.decode(declared, &Limits::default()).unwrap().is_none());
}

/// Concatenations of valid and broken fragments of the protocol.
pub(crate) fn near_misses() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "[*$][0-9]{1,2}\r\n".prop_map(String::into_bytes),
        4 => "[a-zA-Z]{0,9}\r\n".prop_map(String::into_bytes),
        1 => "[ \"'\\\\x4a\t\n\r]{0,9}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..9),
    ];
    proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

fn commands() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let argument = proptest::collection::vec(any::<u8>(), 0..40);
    let command = proptest::collection::vec(argument, 1..6);
    proptest::collection::vec(command, 1..5)
}

proptest! {
    #[test]
    fn round_trips(commands in commands()) {
        let mut bytes = Vec::new();
        commands.iter().for_each(|command| write_command(&mut bytes, command));
        prop_assert_eq!(decode_all(&bytes, &Limits::default()).unwrap(), commands);
    }

    #[test]
    fn any_chunking_gives_the_same_requests(
        commands in commands(),
        broken in near_misses(),
        sizes in proptest::collection::vec(1_usize..30, 1..9),
    ) {
        let mut bytes = Vec::new();
        commands.iter().for_each(|command| write_command(&mut bytes, command));
        bytes.extend(broken);
        let limits = Limits { inline_bytes_max: 30, bulk_bytes_max: 60, ..Limits::default() };
        prop_assert_eq!(decode_chunked(&bytes, &sizes, &limits), decode_all(&bytes, &limits));
    }

    #[test]
    fn a_shorter_buffer_never_gives_another_request(bytes in near_misses()) {
        let limits = Limits::default();
        if let Ok(Some((request, taken))) = decode(&bytes, &limits) {
            for end in 0..taken {
                prop_assert!(decode(&bytes[..end], &limits).unwrap().is_none());
            }
            prop_assert!(request.bytes().len() <= taken);
        }
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_all(&bytes, &Limits::default());
    }
}

#[test]
fn a_request_that_passes_ends_where_one_that_is_held_does() {
    let long = "v".repeat(100);
    let request = format!("*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$100\r\n{long}\r\n$2\r\nNX\r\n");
    let stream = format!("{request}PING\r\n");
    let limits = Limits::default();
    for seen in 8..request.len() {
        for piece in [1, 7, 1_000] {
            let mut decoder = Decoder::default();
            let bytes = &stream.as_bytes()[..seen];
            assert!(decoder.decode(bytes, &limits).unwrap().is_none());
            let (beginning, mut taken, mut passing) = decoder.begin_passing(bytes).unwrap();
            assert_eq!(beginning.arguments, 4);
            assert!(
                beginning.request.arguments().eq(["SET", "k", &long, "NX"]
                    .iter()
                    .map(|argument| argument.as_bytes())
                    .take(beginning.request.len()))
            );
            let mut end = seen;
            loop {
                let passed = passing.advance(&stream.as_bytes()[taken..end], &limits).unwrap();
                taken += passed.bytes;
                if passed.ends {
                    break;
                }
                end = (end + piece).min(stream.len());
            }
            assert_eq!(taken, request.len(), "{seen} {piece}");
        }
    }
}

#[test]
fn a_request_that_passes_is_held_to_the_same_limits() {
    let limits = Limits { bulk_bytes_max: 50, request_bytes_max: 90, ..Limits::default() };
    for (rest, what) in [
        ("$51\r\n", "bulk bytes"),
        ("$40\r\n1234567890123456789012345678901234567890\r\n$30\r\n", "request bytes"),
        ("+1\r\n", "'$'"),
        ("$1\r\nabc", "CR LF"),
    ] {
        let stream = format!("*4\r\n$3\r\nSET\r\n{rest}");
        let mut decoder = Decoder::default();
        assert!(decoder.decode(b"*4\r\n$3\r\nSET\r\n", &limits).unwrap().is_none());
        let (_, taken, mut passing) = decoder.begin_passing(b"*4\r\n$3\r\nSET\r\n").unwrap();
        let error = passing.advance(&stream.as_bytes()[taken..], &limits).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn an_http_request_ends_the_connection_before_its_body() {
    let body = "\r\nSET k v\r\n";
    for head in [
        "POST / HTTP/1.1\r\nHost: localhost:6379\r\n",
        "post / HTTP/1.0\r\n",
        "PUT /x HTTP/1.1\r\nHOST: a\r\nContent-Length: 9\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\n",
        "OPTIONS / HTTP/1.1\r\nOrigin: null\r\n  Host: a\r\n",
    ] {
        let bytes = [head, body].concat();
        let mut bytes = bytes.as_bytes();
        let error = loop {
            match decode(bytes, &Limits::default()) {
                Ok(Some((request, taken))) => {
                    assert_ne!(request.name(), b"SET", "{head}");
                    bytes = &bytes[taken..];
                }
                Ok(None) => panic!("{head}: more bytes wanted"),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("got HTTP"), "{head}: {error}");
        assert!(error_line(&error).starts_with(b"HTTP/1.1 400 "), "{head}");
    }
    // Keys and values may be words of HTTP.
    for bytes in [&b"SET POST Host:\r\n"[..], b"GET /\r\n", b"*1\r\n$4\r\nPOST\r\n"] {
        assert!(decode(bytes, &Limits::default()).unwrap().is_some(), "{}", bytes.escape_ascii());
    }
}

#[test]
fn another_protocol_is_named_in_any_chunking() {
    let hello = [&[0x16, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &[0x5a; 64]].concat();
    // Its length is 42, so that its first byte is `*`; the other's number is the end of a line.
    let mongo = [&[42, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0][..], &[0; 26]].concat();
    let line = [&[43, 0, 0, 0, b'\n', 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0][..], &[0; 27]].concat();
    let longest = [b"GET /", &[b'x'; 100][..], b" HTTP/1.1\r\nHost: a\r\n"].concat();
    let page = b"POST / HTTP/1.1\r\n".to_vec();
    for (bytes, found) in [
        (hello, Protocol::Tls),
        (mongo, Protocol::Mongo),
        (line, Protocol::Mongo),
        (longest, Protocol::Http),
        (page, Protocol::Http),
    ] {
        let refused = |error: Error| match error {
            Error::Foreign { found: named, .. } => assert_eq!(named, found),
            error => panic!("{error}"),
        };
        refused(decode(&bytes, &Limits::default()).unwrap_err());
        let mut decoder = Decoder::default();
        let feed = |end| decoder.decode(&bytes[..end], &Limits::default()).err();
        refused((1..=bytes.len()).find_map(feed).expect("it is refused"));
    }
}

#[test]
fn an_array_without_a_length_is_refused_alike_in_any_chunking() {
    for bytes in [&b"*x\r\n"[..], b"*\xff\xff\0\0\0\0\0HEAD / HTTP/1.1\r\n", b"*8z / HTTP/1.1\n"] {
        let whole = decode(bytes, &Limits::default()).unwrap_err();
        assert!(matches!(whole, Error::Malformed { .. }), "{whole}");
        let mut decoder = Decoder::default();
        let feed = |end| decoder.decode(&bytes[..end], &Limits::default()).err();
        let chunked = (1..=bytes.len()).find_map(feed);
        assert_eq!(chunked, Some(whole), "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_client_that_has_not_logged_in_may_send_little() {
    let limits = Limits::default().before_login();
    let refusal =
        |bytes: &[u8]| String::from_utf8(error_line(&decode(bytes, &limits).unwrap_err())).unwrap();
    assert!(decode(b"*10\r\n$16384\r\n", &limits).unwrap().is_none());
    assert_eq!(refusal(b"*11\r\n"), "-ERR Protocol error: unauthenticated multibulk length\r\n");
    assert_eq!(
        refusal(b"*1\r\n$16385\r\n"),
        "-ERR Protocol error: unauthenticated bulk length\r\n"
    );
    let most = [&b"*10\r\n"[..], &[&b"$16384\r\n"[..], &[0; 16_384], b"\r\n"].concat().repeat(10)];
    assert!(decode(&most.concat(), &limits).unwrap().is_some());
    let less = Limits { bulk_bytes_max: 100, ..Limits::default() }.before_login();
    assert_eq!((less.bulk_bytes_max, less.before_login), (100, true));
}
