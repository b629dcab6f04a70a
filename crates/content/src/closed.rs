//! Unreadable headers forbid storing: a table of headers outside of their grammar, doubled, or in
//! conflict.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::{
    Entry, Ground, NotStored,
    NotStored::{Forbidden, NeverFresh, SetsCookie, Unreadable, VariesByAnything},
    Receiver, Refreshed,
};

/// Sun, 06 Nov 1994 08:49:37 GMT.
const NOW: Duration = Duration::from_secs(784_111_777);

fn headers(lines: &[&[u8]]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for line in lines {
        let colon = line.iter().position(|&byte| byte == b':').expect("name: value");
        let name = HeaderName::from_bytes(&line[..colon]).expect("a name");
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).expect("a value");
        map.append(name, value);
    }
    map
}

fn admit(request: &[&[u8]], response: &[&[u8]]) -> Result<Entry, NotStored> {
    let receiver = Receiver::new(headers(request));
    Entry::admit(&receiver, StatusCode::OK, &headers(response), NOW, NOW)
}

/// A response, and whether it is stored: for how many seconds, or why not.
type Response = (&'static [&'static [u8]], Result<u64, NotStored>);

const RESPONSES: &[Response] = &[
    // Outside of the grammar.
    (&[b"cache-control: private, \xe9"], Err(Unreadable)),
    (&[b"cache-control: max-age=60, \xe9"], Err(Unreadable)),
    (&[b"cache-control: max-age=60", b"cache-control: private\xe9"], Err(Unreadable)),
    (&[b"cache-control: max-age=60; private"], Err(Unreadable)),
    (&[b"cache-control: max-age=60 private"], Err(Unreadable)),
    (&[b"cache-control: max-age = 60"], Err(Unreadable)),
    (&[b"cache-control: max-age=60, =5"], Err(Unreadable)),
    (&[b"cache-control: max-age=60, x=\"private"], Err(Unreadable)),
    (&[b"cache-control: max-age=60, x=\"\\"], Err(Unreadable)),
    (&[b"cache-control: max-age=60, {no-store}"], Err(Unreadable)),
    (&[b"cache-control: max-age=\"60\"0"], Err(Unreadable)),
    // Within it, though odd.
    (&[b"cache-control: , max-age=60 ,, ,"], Ok(60)),
    (&[b"cache-control:max-age=60"], Ok(60)),
    (&[b"cache-control: MAX-age=\"60\""], Ok(60)),
    (&[b"cache-control: max-age=0060"], Ok(60)),
    (&[b"cache-control: max-age=60, x, y=z, z=\"\xe9, \\\", no-store\""], Ok(60)),
    (&[b"cache-control: max-age=99999999999999999999"], Ok(u32::MAX as u64)),
    (&[b"cache-control: max-age=4294967296"], Ok(u32::MAX as u64)),
    // Text within a quoted string is no directive.
    (&[b"cache-control: x=\"max-age=60\"", b"etag: \"a\""], Ok(0)),
    (&[b"cache-control: x=\"a, max-age=60, b\"", b"etag: \"a\""], Ok(0)),
    (&[b"cache-control: max-age=0, x=\"max-age=60\"", b"etag: \"a\""], Ok(0)),
    // The argument is no number of seconds.
    (&[b"cache-control: max-age"], Err(NeverFresh)),
    (&[b"cache-control: max-age="], Err(NeverFresh)),
    (&[b"cache-control: max-age=-60"], Err(NeverFresh)),
    (&[b"cache-control: max-age=+60"], Err(NeverFresh)),
    (&[b"cache-control: max-age=60.0"], Err(NeverFresh)),
    (&[b"cache-control: max-age=0x60"], Err(NeverFresh)),
    (&[b"cache-control: max-age='60'"], Err(NeverFresh)),
    (&[b"cache-control: max-age=60s"], Err(NeverFresh)),
    (&[b"cache-control: max-age=\"6\\0\""], Err(NeverFresh)),
    (&[b"cache-control: s-maxage=x, max-age=60"], Err(NeverFresh)),
    // Twice.
    (&[b"cache-control: max-age=60, max-age=60"], Ok(60)),
    (&[b"cache-control: max-age=60, max-age=61"], Err(NeverFresh)),
    (&[b"cache-control: max-age=60", b"cache-control: max-age=0"], Err(NeverFresh)),
    (&[b"cache-control: max-age=0", b"cache-control: max-age=60"], Err(NeverFresh)),
    (&[b"cache-control: s-maxage=60, s-maxage=9, max-age=60"], Err(NeverFresh)),
    // In conflict: the most restrictive counts.
    (&[b"cache-control: public, private, max-age=60"], Err(Forbidden)),
    (&[b"cache-control: public, no-store, max-age=60"], Err(Forbidden)),
    (&[b"cache-control: no-cache, max-age=60"], Err(NeverFresh)),
    (&[b"cache-control: immutable, max-age=0"], Err(NeverFresh)),
    (&[b"cache-control: no-store, must-understand, max-age=60"], Err(Forbidden)),
    // With names of fields, or anything else after `=`.
    (&[b"cache-control: max-age=60, private=\"x-user\""], Err(Forbidden)),
    (&[b"cache-control: max-age=60, private=x-user"], Err(Forbidden)),
    (&[b"cache-control: max-age=60, private="], Err(Forbidden)),
    (&[b"cache-control: max-age=60, no-cache=\"set-cookie\""], Err(NeverFresh)),
    (&[b"cache-control: max-age=60, no-store=0"], Err(Forbidden)),
    (&[b"cache-control: max-age=60, PRIVATE"], Err(Forbidden)),
    // Set-Cookie.
    (&[b"cache-control: max-age=60", b"set-cookie: a=\xe9"], Err(SetsCookie)),
    (&[b"cache-control: max-age=60", b"set-cookie: "], Err(SetsCookie)),
    // Vary.
    (&[b"cache-control: max-age=60", b"vary: *, *"], Err(VariesByAnything)),
    (&[b"cache-control: max-age=60", b"vary: accept", b"vary: , *"], Err(VariesByAnything)),
    (&[b"cache-control: max-age=60", b"vary: accept, \xe9"], Err(VariesByAnything)),
    (&[b"cache-control: max-age=60", b"vary: accept language"], Err(VariesByAnything)),
    (&[b"cache-control: max-age=60", b"vary: \"accept\", *"], Err(VariesByAnything)),
    // Expires: anything but one date is past.
    (&[b"expires: Sun, 06 Nov 1994 08:50:37 GMT"], Ok(60)),
    (&[b"expires: Sun, 06 Nov 1994 08:50:37 GMT", b"expires: 0"], Err(NeverFresh)),
    (&[b"expires: Sun, 06 Nov 1994 08:50:37 GMT", b"expires: \xe9"], Err(NeverFresh)),
    (&[b"expires: Sun, 06 Nov 1994 08:50:37 UTC"], Err(NeverFresh)),
    (&[b"expires: Sun, 06 Nov 1994 08:50:37 +0100"], Err(NeverFresh)),
    (&[b"expires: Sun,  06 Nov 1994 08:50:37 GMT"], Err(NeverFresh)),
    (&[b"expires: Sun, 06-Nov-1994 08:50:37 GMT"], Err(NeverFresh)),
    (&[b"expires: Sun, 06 Nov 1994 8:50:37 GMT"], Err(NeverFresh)),
    (&[b"expires: Sun, 06 Nov 1994 08.50.37 GMT"], Err(NeverFresh)),
    (&[b"expires: Sun 06 Nov 1994 08:50:37 GMT"], Err(NeverFresh)),
    (&[b"expires: Sun, 06 Nov 94 08:50:37 GMT"], Err(NeverFresh)),
    (&[b"expires: -1"], Err(NeverFresh)),
    (&[b"cache-control: max-age=60", b"expires: 0"], Ok(60)),
    (&[b"cache-control: max-age=0", b"expires: Sun, 06 Nov 1994 08:50:37 GMT"], Err(NeverFresh)),
    // Pragma counts where there is no Cache-Control.
    (&[b"pragma: No-Cache", b"expires: Sun, 06 Nov 1994 08:50:37 GMT"], Err(NeverFresh)),
    (&[b"pragma: \xe9", b"expires: Sun, 06 Nov 1994 08:50:37 GMT"], Err(NeverFresh)),
    (&[b"pragma: x", b"expires: Sun, 06 Nov 1994 08:50:37 GMT"], Ok(60)),
    (&[b"pragma: no-cache", b"cache-control: max-age=60"], Ok(60)),
    // Age: the first value counts; a value that is no number is ignored (RFC 9111 §5.1).
    (&[b"cache-control: max-age=60", b"age: 20, 0"], Ok(40)),
    (&[b"cache-control: max-age=60", b"age: 20", b"age: 0"], Ok(40)),
    (&[b"cache-control: max-age=60", b"age: -20"], Ok(60)),
    (&[b"cache-control: max-age=60", b"age: old"], Ok(60)),
    (&[b"cache-control: max-age=60", b"age: 4294967296"], Err(NeverFresh)),
    (&[b"cache-control: max-age=60", b"age: 99999999999999999999"], Err(NeverFresh)),
    // Date: the oldest determines the age.
    (
        &[
            b"cache-control: max-age=60",
            b"date: Sun, 06 Nov 1994 08:49:37 GMT",
            b"date: Sun, 06 Nov 1994 08:49:17 GMT",
        ],
        Ok(40),
    ),
    (&[b"cache-control: max-age=60", b"date: \xe9"], Ok(60)),
    // Last-Modified: heuristic freshness needs exactly one date.
    (&[b"last-modified: Sun, 06 Nov 1994 08:39:37 GMT"], Ok(60)),
    (&[b"last-modified: yesterday"], Ok(0)),
    (&[b"last-modified: Sun, 06 Nov 1994 09:49:37 GMT"], Ok(0)),
    (&[b"last-modified: Thu, 06 Nov 1980 08:49:37 GMT"], Ok(24 * 3600)),
];

#[test]
fn what_cannot_be_read_is_the_most_restrictive() {
    for (response, expected) in RESPONSES {
        let text = response.iter().map(|line| String::from_utf8_lossy(line)).collect::<Vec<_>>();
        let entry = admit(&[], response);
        let lasts = entry.map(|entry| {
            let anyone = Receiver::new(HeaderMap::new());
            let at = |seconds| NOW + Duration::from_secs(seconds);
            let fresh = |seconds| entry.release(&anyone, Ground::Stored, at(seconds)).is_ok();
            let seconds = *expected.as_ref().unwrap_or(&0);
            assert!(seconds == 0 || fresh(seconds - 1), "{text:?}: not for {seconds} s");
            assert!(!fresh(seconds), "{text:?}: for more than {seconds} s");
            seconds
        });
        assert_eq!(lasts, *expected, "{text:?}");
    }
}

/// Request directives, and whether a response with 40 of its 60 seconds of freshness left satisfies
/// them.
const REQUESTS: &[(&[&[u8]], bool)] = &[
    (&[], true),
    (&[b"cache-control: max-age=20"], true),
    (&[b"cache-control: max-age=19"], false),
    (&[b"cache-control: max-age=0"], false),
    (&[b"cache-control: max-age=x"], false),
    (&[b"cache-control: max-age=60, max-age=0"], false),
    (&[b"cache-control: max-age=60", b"cache-control: max-age=61"], false),
    (&[b"cache-control: min-fresh=40"], true),
    (&[b"cache-control: min-fresh=41"], false),
    (&[b"cache-control: min-fresh"], false),
    (&[b"cache-control: min-fresh=1, min-fresh=2"], false),
    (&[b"cache-control: no-cache"], false),
    (&[b"cache-control: no-cache=\"x\""], false),
    (&[b"cache-control: \xe9"], false),
    (&[b"cache-control: max-age=60;"], false),
    (&[b"pragma: no-cache"], false),
    (&[b"pragma: \xe9"], false),
    (&[b"pragma: no-cache", b"cache-control: max-age=60"], true),
    (&[b"pragma: x"], true),
    (&[b"cache-control: x=\"no-cache\""], true),
];

#[test]
fn what_a_client_says_badly_asks_the_origin() {
    let stored: &[&[u8]] = &[b"cache-control: max-age=60", b"age: 20"];
    let entry = admit(&[], stored).expect("stored");
    for (request, hit) in REQUESTS {
        let text = request.iter().map(|line| String::from_utf8_lossy(line)).collect::<Vec<_>>();
        let receiver = Receiver::new(headers(request));
        assert_eq!(entry.release(&receiver, Ground::Stored, NOW).is_ok(), *hit, "{text:?}");
    }
}

#[test]
fn a_stale_response_is_accepted_only_where_the_origin_lets_it() {
    let later = NOW + Duration::from_secs(70);
    let table: &[(&[u8], &[u8], bool)] = &[
        (b"max-age=60", b"max-stale", true),
        (b"max-age=60", b"max-stale=10", true),
        (b"max-age=60", b"max-stale=9", false),
        (b"max-age=60", b"max-stale=x", false),
        (b"max-age=60", b"max-stale=10, max-stale=11", false),
        (b"max-age=60", b"max-stale=10, min-fresh=1", false),
        (b"max-age=60, must-revalidate", b"max-stale", false),
        (b"max-age=60, proxy-revalidate", b"max-stale", false),
        (b"max-age=60, no-cache", b"max-stale", false),
        (b"s-maxage=60", b"max-stale", false),
        (b"max-age=60, stale-while-revalidate=20", b"x", true),
        (b"max-age=60, stale-while-revalidate=10", b"x", false),
        (b"max-age=60, stale-while-revalidate=x", b"x", false),
        (b"max-age=60, stale-while-revalidate=20, stale-while-revalidate=21", b"x", false),
        (b"max-age=60, stale-while-revalidate=20, no-cache=\"x\"", b"x", false),
        (b"max-age=60, stale-while-revalidate=20, proxy-revalidate", b"x", false),
        (b"max-age=60, stale-while-revalidate=20", b"max-age=60", false),
        (b"max-age=60, stale-while-revalidate=20", b"\xe9", false),
    ];
    for (response, request, hit) in table {
        let line = |value: &[u8]| [b"cache-control: ", value].concat();
        let entry = admit(&[], &[&line(response), b"etag: \"a\""]).expect("stored");
        let receiver = Receiver::new(headers(&[&line(request)]));
        let released = entry.release(&receiver, Ground::Stored, later).is_ok();
        let text = (String::from_utf8_lossy(response), String::from_utf8_lossy(request));
        assert_eq!(released, *hit, "{text:?}");
    }
}

/// The response to a request with a cookie is shared only if the origin says so, never by heuristic
/// freshness.
#[test]
fn nothing_is_guessed_of_what_came_with_a_cookie() {
    let cookie: &[&[u8]] = &[b"cookie: user=1"];
    let dated: &[&[u8]] = &[b"last-modified: Sun, 06 Nov 1994 08:39:37 GMT"];
    assert!(admit(&[], dated).is_ok());
    assert_eq!(admit(cookie, dated).map(|_| ()), Err(NeverFresh));
    assert!(admit(cookie, &[dated[0], b"cache-control: max-age=60"]).is_ok());
    let tagged = admit(cookie, &[dated[0], b"etag: \"a\""]).expect("stored");
    let anyone = Receiver::new(HeaderMap::new());
    assert!(tagged.release(&anyone, Ground::Stored, NOW).is_err());
    // The pages of two users often have the same date.
    let asked = crate::for_the_origin(&anyone, Some(&tagged));
    assert!(asked.contains_key(header::IF_NONE_MATCH));
    assert!(!asked.contains_key(header::IF_MODIFIED_SINCE));
}

#[test]
fn a_304_is_about_the_response_it_names() {
    // Stored header, header of the 304, whether the 304 refers to the stored response.
    let table: &[(&[u8], &[u8], bool)] = &[
        (b"etag: \"a\"", b"etag: \"a\"", true),
        (b"etag: \"a\"", b"etag: W/\"a\"", true),
        (b"etag: \"a\"", b"etag: \"b\"", false),
        (b"etag: \"a\"", b"x: y", true),
        (b"last-modified: Sun, 06 Nov 1994 08:39:37 GMT", b"etag: \"b\"", false),
        (
            b"last-modified: Sun, 06 Nov 1994 08:39:37 GMT",
            b"last-modified: Sun, 06 Nov 1994 08:40:37 GMT",
            false,
        ),
    ];
    let anyone = Receiver::new(HeaderMap::new());
    for (stored, said, about_it) in table {
        let entry = admit(&[], &[stored, b"cache-control: max-age=60"]).expect("stored");
        let refreshed = entry.refreshed(&anyone, &headers(&[said]), NOW, NOW);
        let text = (String::from_utf8_lossy(stored), String::from_utf8_lossy(said));
        assert_eq!(refreshed != Refreshed::Another, *about_it, "{text:?}");
    }
}

#[test]
fn a_304_can_make_it_vary() {
    let entry = admit(&[], &[b"cache-control: max-age=60", b"etag: \"a\""]).expect("stored");
    let german = Receiver::new(headers(&[b"accept-language: de"]));
    let news = headers(&[b"vary: accept-language"]);
    let Refreshed::Storable(entry) = entry.refreshed(&german, &news, NOW, NOW) else {
        panic!("not storable")
    };
    assert!(entry.answers(&german) && !entry.answers(&Receiver::new(HeaderMap::new())));
}

#[test]
fn bytes_that_differ_select_different_variants() {
    let varied: &[&[u8]] = &[b"cache-control: max-age=60", b"vary: x-user"];
    let entry = admit(&[b"x-user: \xe8"], varied).expect("stored");
    let table: &[(&[&[u8]], bool)] = &[
        (&[b"x-user: \xe8"], true),
        (&[b"x-user: \xe9"], false),
        (&[b"x-user: \xef\xbf\xbd"], false),
        (&[b"x-user: \xe8", b"x-user: \xe8"], false),
        (&[], false),
    ];
    for (request, same) in table {
        assert_eq!(entry.answers(&Receiver::new(headers(request))), *same, "{request:?}");
    }
    let spaced = admit(&[b"x-user: a , b"], varied).expect("stored");
    assert!(!spaced.answers(&Receiver::new(headers(&[b"x-user: a,b"]))));
}
