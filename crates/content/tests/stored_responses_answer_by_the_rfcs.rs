//! Responses from stored responses by RFC 9110 and RFC 9111: conditions, ranges, headers after a
//! 304, headers that are never stored, credentials, clocks. The cases are those of the public test
//! suite for HTTP caches that need no connection.
use std::time::Duration;

use bytes::Bytes;
use content::{Added, Entry, Ground, NotStored, Receiver, Record, Refreshed, forwarded};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

/// Sun, 06 Nov 1994 08:49:37 GMT.
const NOW: Duration = Duration::from_secs(784_111_777);
const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const MINUTE: Duration = Duration::from_secs(60);

/// One header per line; a byte of the text is a byte of the value (ISO 8859-1).
fn headers(lines: &str) -> HeaderMap {
    let mut map = HeaderMap::new();
    for line in lines.lines().map(|line| line.replace("{now}", AT)) {
        let (name, value) = line.split_once(':').expect("name: value");
        let value: Vec<u8> = value.trim().chars().map(|byte| byte as u8).collect();
        let name = HeaderName::try_from(name).expect("a name");
        map.append(name, HeaderValue::from_bytes(&value).expect("a value"));
    }
    map
}

fn receiver(lines: &str) -> Receiver {
    Receiver::new(headers(lines))
}

fn admit(request: &str, status: u16, response: &str) -> Result<Entry, NotStored> {
    let status = StatusCode::from_u16(status).expect("a status");
    let entry = Entry::admit(&receiver(request), status, &headers(response), NOW, NOW)?;
    Ok(entry.with_body(Bytes::from_static(b"0123456789")))
}

fn page(response: &str) -> Entry {
    admit("", 200, &format!("cache-control: max-age=3600\n{response}")).expect("stored")
}

/// Section of RFC 9110 or 9111, stored response, request, status, body.
type Condition = (&'static str, &'static str, &'static str, u16, &'static str);

const WHOLE: &str = "0123456789";

#[rustfmt::skip]
const CONDITIONS: &[Condition] = &[
    ("9110 13.1.2 strong", "etag: \"a\"", "if-none-match: \"a\"", 304, ""),
    ("9110 13.1.2 weak", "etag: W/\"a\"", "if-none-match: W/\"a\"", 304, ""),
    ("9110 13.1.2 weak of a strong one", "etag: W/\"a\"", "if-none-match: \"a\"", 304, ""),
    ("9110 13.1.2 the first of three", "etag: \"a\"", "if-none-match: \"a\", \"b\", \"c\"", 304, ""),
    ("9110 13.1.2 the middle", "etag: \"a\"", "if-none-match: \"b\", \"a\", \"c\"", 304, ""),
    ("9110 13.1.2 the last", "etag: \"a\"", "if-none-match: \"b\", \"c\", \"a\"", 304, ""),
    ("9110 13.1.2 in another line", "etag: \"a\"", "if-none-match: \"b\"\nif-none-match: \"a\"", 304, ""),
    ("9110 13.1.2 after an empty member", "etag: \"a\"", "if-none-match: , \"a\"", 304, ""),
    ("9110 13.1.2 without spaces", "etag: \"a\"", "if-none-match: \"b\",W/\"a\"", 304, ""),
    ("9110 13.1.2 with a comma in it", "etag: \"a, b\"", "if-none-match: \"a, b\"", 304, ""),
    ("9110 13.1.2 a part of it", "etag: \"a, b\"", "if-none-match: \"a\", \"b\"", 200, WHOLE),
    ("9110 8.8.3 obs-text", "etag: \"\u{e9}\"", "if-none-match: \"\u{e9}\"", 304, ""),
    ("9110 8.8.3 other obs-text", "etag: \"\u{e9}\"", "if-none-match: \"\u{e8}\"", 200, WHOLE),
    ("9110 8.8.3 no quotes in the request", "etag: \"a\"", "if-none-match: a", 200, WHOLE),
    ("9110 8.8.3 none in the response", "etag: a", "if-none-match: \"a\"", 200, WHOLE),
    ("9110 8.8.3 another case", "etag: \"a\"", "if-none-match: \"A\"", 200, WHOLE),
    ("9110 8.8.3 an open quote", "etag: \"a\"", "if-none-match: \"a", 200, WHOLE),
    ("9110 8.8.3 two tags", "etag: \"a\"\netag: \"b\"", "if-none-match: \"a\"", 200, WHOLE),
    ("9110 13.1.2 any", "etag: \"a\"", "if-none-match: *", 304, ""),
    ("9110 13.1.2 any, of no tag", "", "if-none-match: *", 304, ""),
    ("9110 13.1.2 empty", "etag: \"a\"", "if-none-match:", 200, WHOLE),
    ("9110 13.2.2 before the date, seen", "etag: \"a\"\nlast-modified: {now}", "if-none-match: \"a\"\nif-modified-since: Sat, 05 Nov 1994 08:49:37 GMT", 304, ""),
    ("9110 13.2.2 before the date, not seen", "etag: \"a\"\nlast-modified: {now}", "if-none-match: \"b\"\nif-modified-since: {now}", 200, WHOLE),
    ("9110 13.1.3 the same date", "last-modified: {now}", "if-modified-since: {now}", 304, ""),
    ("9110 13.1.3 a later one", "last-modified: {now}", "if-modified-since: Mon, 07 Nov 1994 08:49:37 GMT", 304, ""),
    ("9110 13.1.3 an earlier one", "last-modified: {now}", "if-modified-since: Sat, 05 Nov 1994 08:49:37 GMT", 200, WHOLE),
    ("9110 13.1.3 RFC 850", "last-modified: {now}", "if-modified-since: Sunday, 06-Nov-94 08:49:37 GMT", 304, ""),
    ("9110 13.1.3 asctime", "last-modified: {now}", "if-modified-since: Sun Nov  6 08:49:37 1994", 304, ""),
    ("9110 13.1.3 no date", "last-modified: {now}", "if-modified-since: now", 200, WHOLE),
    ("9110 13.1.3 two dates", "last-modified: {now}", "if-modified-since: {now}\nif-modified-since: {now}", 200, WHOLE),
    ("9111 4.3.2 the date it was sent", "date: {now}", "if-modified-since: {now}", 304, ""),
    ("9111 4.3.2 sent later", "date: {now}", "if-modified-since: Sat, 05 Nov 1994 08:49:37 GMT", 200, WHOLE),
    ("9111 4.3.2 the date it was received", "", "if-modified-since: {now}", 304, ""),
    ("9111 4.3.2 said badly", "date: {now}\nlast-modified: now", "if-modified-since: {now}", 200, WHOLE),
    ("9110 13.1.1 strong", "etag: \"a\"", "if-match: \"b\", \"a\"", 200, WHOLE),
    ("9110 13.1.1 another", "etag: \"a\"", "if-match: \"b\"", 412, ""),
    ("9110 13.1.1 weak", "etag: W/\"a\"", "if-match: W/\"a\"", 412, ""),
    ("9110 13.1.4 changed since", "last-modified: {now}", "if-unmodified-since: Sat, 05 Nov 1994 08:49:37 GMT", 412, ""),
    ("9110 13.1.4 not since", "last-modified: {now}", "if-unmodified-since: {now}", 200, WHOLE),
    ("9110 14.1.2 both ends", "", "range: bytes=2-4", 206, "234"),
    ("9110 14.1.2 no end", "", "range: bytes=8-", 206, "89"),
    ("9110 14.1.2 from the end", "", "range: bytes=-1", 206, "9"),
    ("9110 14.1.2 beyond the end", "", "range: bytes=9-99999999999999999999999999", 206, "9"),
    ("9110 14.1.2 outside", "", "range: bytes=10-", 416, ""),
    ("9110 14.1.2 several", "", "range: bytes=0-0,2-2", 200, WHOLE),
    ("9110 14.2 in two lines", "", "range: bytes=0-0\nrange: bytes=2-2", 200, WHOLE),
    ("9110 14.2 another unit", "", "range: pages=0-0", 200, WHOLE),
    ("9110 14.2 no grammar", "", "range: bytes=a-b", 200, WHOLE),
    ("9110 13.1.5 strong", "etag: \"a\"", "range: bytes=2-4\nif-range: \"a\"", 206, "234"),
    ("9110 13.1.5 another", "etag: \"a\"", "range: bytes=2-4\nif-range: \"b\"", 200, WHOLE),
    ("9110 13.1.5 weak", "etag: W/\"a\"", "range: bytes=2-4\nif-range: W/\"a\"", 200, WHOLE),
    ("9110 13.1.5 two", "etag: \"a\"", "range: bytes=2-4\nif-range: \"a\"\nif-range: \"b\"", 200, WHOLE),
    ("9110 13.1.5 of two tags", "etag: \"a\"\netag: \"b\"", "range: bytes=2-4\nif-range: \"a\"", 200, WHOLE),
    ("9110 13.1.5 a date", "last-modified: {now}\ndate: Sun, 06 Nov 1994 08:49:38 GMT", "range: bytes=2-4\nif-range: {now}", 206, "234"),
    ("9110 8.8.2.2 sent in the second of its change", "last-modified: {now}\ndate: {now}", "range: bytes=2-4\nif-range: {now}", 200, WHOLE),
    ("9110 13.1.5 a later date", "last-modified: {now}\ndate: Sun, 06 Nov 1994 08:49:38 GMT", "range: bytes=2-4\nif-range: Mon, 07 Nov 1994 08:49:37 GMT", 200, WHOLE),
];

#[test]
fn conditions_and_ranges() {
    let mut failed = Vec::new();
    for (name, response, request, status, body) in CONDITIONS {
        let entry = page(&format!("content-length: 10\n{response}"));
        let released = entry.release(&receiver(request), Ground::Stored, NOW).expect("fresh");
        if (released.status.as_u16(), &*released.body) != (*status, body.as_bytes()) {
            failed.push(format!("{name}: {released:?}"));
        }
        // RFC 9110 §8.6: `content-length` is that of the body that is sent, or absent.
        let stated = released.headers.get("content-length").map(HeaderValue::as_bytes);
        let length = released.body.len().to_string();
        if stated.is_some_and(|stated| stated != length.as_bytes()) {
            failed.push(format!("{name}: content-length {stated:?} of {length} bytes"));
        }
        // RFC 9110 §15.4.5.
        let kept = ["etag", "cache-control", "date"];
        let lost = |name: &&str| !entry_has(response, name) || released.headers.contains_key(*name);
        if !kept.iter().all(lost) {
            failed.push(format!("{name}: lost one of {kept:?}: {:?}", released.headers));
        }
    }
    assert!(failed.is_empty(), "{} of {}: {failed:#?}", failed.len(), CONDITIONS.len());
}

fn entry_has(response: &str, name: &str) -> bool {
    response.lines().any(|line| line.split(':').next() == Some(name))
}

#[test]
fn what_has_no_body_states_no_length_and_an_error_is_not_subject_to_conditions() {
    let no_content = admit("", 204, "cache-control: max-age=60\netag: \"a\"").expect("stored");
    let no_content = no_content.with_body(Bytes::new());
    let released = no_content.release(&receiver(""), Ground::Stored, NOW).expect("fresh");
    assert!(!released.headers.contains_key("content-length"), "{released:?}");
    let missing = admit("", 404, "cache-control: max-age=60\netag: \"a\"").expect("stored");
    for request in
        ["if-none-match: \"a\"", "if-match: \"b\"", "range: bytes=2-4", "if-none-match: *"]
    {
        let released = missing.release(&receiver(request), Ground::Stored, NOW).expect("fresh");
        assert_eq!((released.status.as_u16(), &*released.body), (404, &b"0123456789"[..]));
        assert_eq!(released.headers["content-length"], "10");
    }
}

/// RFC 9110 §14.2: a range does not apply to `HEAD`.
#[test]
fn a_head_is_about_the_whole() {
    let asked = headers("range: bytes=0-1\nif-range: \"a\"\naccept: b");
    let added = Added { host: "shop.example", client: "192.0.2.7", via: "1.1 enroute" };
    for (method, kept) in [(Method::HEAD, false), (Method::GET, true), (Method::POST, true)] {
        let sent = forwarded(&method, &asked, added).expect("headers");
        for name in ["range", "if-range"] {
            assert_eq!(sent.contains_key(name), kept, "{method} {name}");
        }
        assert!(sent.contains_key("accept"));
    }
}

/// Header, its value in the stored response, its value in a 304, and its value in later responses.
const UPDATES: &[(&str, &str, &str, &str)] = &[
    ("x-new", "", "b", "b"),
    ("x-old", "a", "", "a"),
    ("x-test", "a", "b", "b"),
    ("content-foo", "a", "b", "b"),
    ("content-location", "/a", "/b", "/b"),
    ("content-security-policy", "default-src 'self'", "default-src b", "default-src b"),
    ("x-frame-options", "deny", "sameorigin", "sameorigin"),
    ("expires", "Fri, 01 Jan 2038 01:01:01 GMT", "{now}", AT),
    ("cache-control", "max-age=1", "max-age=3600", "max-age=3600"),
    ("date", "Sat, 05 Nov 1994 08:49:37 GMT", "{now}", AT),
    ("last-modified", "Sat, 05 Nov 1994 08:49:37 GMT", "", "Sat, 05 Nov 1994 08:49:37 GMT"),
    ("etag", "\"a\"", "W/\"a\"", "W/\"a\""),
    // RFC 9111 §3.2: they describe the body, which stays.
    ("content-length", "10", "9", "10"),
    ("content-encoding", "gzip", "br", "gzip"),
    ("content-type", "text/plain", "text/css", "text/plain"),
    // Headers of one client, or of one connection.
    ("set-cookie", "", "a=b", ""),
    ("proxy-authentication-info", "", "b", ""),
    ("connection", "", "close", ""),
    ("keep-alive", "", "timeout=9", ""),
];

#[test]
fn a_304_updates_what_is_stored() {
    for (name, stored, news, sent) in UPDATES {
        let line = |value: &str| match value {
            "" => String::new(),
            value => format!("{name}: {value}\n"),
        };
        let always = match *name {
            "cache-control" => "etag: \"a\"\n",
            "etag" => "cache-control: max-age=3600\n",
            _ => "cache-control: max-age=3600\netag: \"a\"\n",
        };
        let entry = admit("", 200, &(line(stored) + always)).expect("stored");
        let news = headers(&line(news));
        let refreshed = entry.refreshed(&receiver(""), &news, NOW, NOW);
        let Refreshed::Storable(entry) = refreshed else { panic!("{name}: {refreshed:?}") };
        let released = entry.release(&receiver(""), Ground::OwnRequest, NOW).expect("its own");
        let said: Vec<_> = released.headers.get_all(*name).into_iter().collect();
        let expected: Vec<_> = [*sent].into_iter().filter(|sent| !sent.is_empty()).collect();
        assert_eq!(said, expected, "{name}");
    }
}

/// RFC 9111 §3.1: header, and whether the response is stored without the header.
#[test]
fn headers_of_one_connection_are_not_stored() {
    for name in [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "transfer-encoding",
        "upgrade",
        "a",
        "b",
    ] {
        let response = format!("connection: a, b\n{name}: x");
        let released = page(&response).release(&receiver(""), Ground::Stored, NOW).expect("fresh");
        assert!(!released.headers.contains_key(name), "{name}: {released:?}");
    }
}

/// RFC 9111 §3.5: what a response to a request with credentials must say to be shared.
#[test]
fn credentials() {
    let table = [
        ("max-age=3600", false),
        ("max-age=3600, public", true),
        ("max-age=3600, must-revalidate", true),
        ("s-maxage=3600", true),
        ("max-age=3600, proxy-revalidate", false),
        ("max-age=3600, proxy-revalidate, public", true),
        ("max-age=3600, immutable", false),
        ("max-age=3600, must-revalidate, private", false),
    ];
    for (said, is_stored) in table {
        let line = format!("cache-control: {said}");
        let entry = admit("authorization: Basic eA==", 200, &line);
        assert_eq!(entry.is_ok(), is_stored, "{said}");
        // A 304 to a request with credentials needs the same directives as a 200.
        let entry = admit("", 200, "cache-control: max-age=1\netag: \"a\"").expect("stored");
        let asked = receiver("authorization: Basic eA==");
        let refreshed = entry.refreshed(&asked, &headers(&line), NOW, NOW);
        assert_eq!(matches!(refreshed, Refreshed::Storable(_)), is_stored, "{said}: {refreshed:?}");
    }
}

/// Status, and whether a response is stored with an explicit lifetime, and without one.
#[test]
fn statuses() {
    let (said, guessed) =
        ("cache-control: max-age=60", "last-modified: Thu, 06 Nov 1980 08:49:37 GMT");
    for status in 200..=599 {
        let by_default = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501].contains(&status);
        let if_said = by_default || [302, 303, 307].contains(&status);
        assert_eq!(admit("", status, said).is_ok(), if_said, "{status}");
        assert_eq!(admit("", status, guessed).is_ok(), by_default, "{status}, nothing said");
        if let Ok(entry) = admit("", status, said) {
            let at = |later| entry.release(&receiver(""), Ground::Stored, NOW + later);
            assert!(at(MINUTE - Duration::from_secs(1)).is_ok(), "{status}");
            assert!(at(MINUTE).is_err(), "{status}: stale");
        }
    }
}

#[test]
fn nothing_is_fresh_that_comes_from_the_future() {
    let (hour, anyone) = (60 * MINUTE, receiver(""));
    let entry = page("cache-control: stale-if-error=86400, stale-while-revalidate=86400");
    let released = |ground, now| entry.release(&anyone, ground, now).is_ok();
    // The clocks of two edges differ a little.
    assert!(released(Ground::Stored, NOW - Duration::from_secs(1)));
    for back in [Duration::from_secs(2), hour, 24 * hour, NOW] {
        for ground in [Ground::Stored, Ground::OriginFailed] {
            assert!(
                !released(ground, NOW - back),
                "{ground:?}: the clock was set back by {back:?}"
            );
        }
    }
    assert!(released(Ground::Stored, NOW + hour - MINUTE));
}

/// Extreme times and lifetimes: nothing overflows, and a record is read as it was written.
#[test]
fn no_time_is_too_long() {
    let longest = "18446744073709551615";
    let responses = [
        format!(
            "cache-control: max-age={longest}, stale-while-revalidate={longest}, stale-if-error={longest}"
        ),
        format!("cache-control: s-maxage={longest}\nage: {longest}\netag: \"a\""),
        "expires: Fri, 31 Dec 9999 23:59:59 GMT\ndate: Thu, 01 Jan 1970 00:00:00 GMT\netag: \"a\""
            .to_owned(),
        "last-modified: Thu, 01 Jan 1970 00:00:00 GMT\ndate: Fri, 31 Dec 9999 23:59:59 GMT"
            .to_owned(),
        "cache-control: max-age=0, stale-if-error=4294967295\ndate: Thu, 01 Jan 1970 00:00:00 GMT"
            .to_owned(),
    ];
    let ends = Duration::from_secs(253_402_300_799);
    let times = [0, 1, NOW.as_nanos() as u64 + 999_999_999, u64::MAX].map(Duration::from_nanos);
    let times = [&times[..], &[ends, ends + MINUTE, Duration::from_millis(u64::MAX)]].concat();
    for response in &responses {
        for (&asked, &now) in
            times.iter().flat_map(|asked| times.iter().map(move |now| (asked, now)))
        {
            let admitted =
                Entry::admit(&receiver(""), StatusCode::OK, &headers(response), asked, now);
            let Ok(entry) = admitted else { continue };
            let stored = Bytes::from(Record::Entry(entry.clone()).encode());
            assert_eq!(
                Record::decode(&stored),
                Ok(Record::Entry(entry.clone())),
                "{response} {now:?}"
            );
            for &later in &times {
                let _ = entry.useful_for(later);
                let requests = [
                    format!("cache-control: max-stale={longest}"),
                    format!("cache-control: min-fresh={longest}"),
                ];
                for request in requests {
                    let _ = entry.release(&receiver(&request), Ground::OwnRequest, later);
                }
                let _ = entry.refreshed(&receiver(""), &headers(response), asked, later);
            }
        }
    }
}

/// The record counts the headers in 16 bits.
#[test]
fn what_varies_by_very_much_is_not_stored() {
    let vary = |names: usize| {
        let names: Vec<String> = (0..names).map(|number| format!("x-{number}")).collect();
        admit("", 200, &format!("cache-control: max-age=60\nvary: {}", names.join(",")))
    };
    let entry = vary(64).expect("stored");
    let stored = Bytes::from(Record::Entry(entry.clone()).encode());
    assert_eq!(Record::decode(&stored), Ok(Record::Entry(entry)));
    for names in [65, 70_000] {
        assert_eq!(vary(names).map(|_| ()), Err(NotStored::VariesByAnything), "{names}");
    }
}
