//! RFC 9111 and RFC 5861 as tables: the stored response, a later request, and what the cache may
//! answer.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::{
    Entry, Ground,
    NotStored::{self, Forbidden, NeverFresh, SetsCookie, VariesByAnything},
    Receiver, Refreshed, Selecting, end_to_end, for_the_origin, secondary_key,
};

/// Sun, 06 Nov 1994 08:49:37 GMT, the RFCs' own example.
const NOW: Duration = Duration::from_secs(784_111_777);
const DATE: &str = "date: Sun, 06 Nov 1994 08:49:37 GMT";

pub(crate) fn headers(lines: &[&str]) -> HeaderMap {
    let pairs = lines.iter().filter(|line| !line.is_empty()).map(|line| {
        let (name, value) = line.split_once(": ").expect("name: value");
        let name = HeaderName::try_from(name).expect("a name");
        (name, HeaderValue::from_str(value).expect("a value"))
    });
    let mut map = HeaderMap::new();
    pairs.for_each(|(name, value)| {
        map.append(name, value);
    });
    map
}

fn admit(request: &[&str], status: u16, response: &[&str]) -> Result<Entry, NotStored> {
    let status = StatusCode::from_u16(status).expect("a status");
    Entry::admit(&receiver(request), status, &headers(response), NOW, NOW)
}

fn receiver(lines: &[&str]) -> Receiver {
    Receiver::new(headers(lines))
}

/// Whether a stored response may answer a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Usable {
    Fresh,
    WhileRevalidating,
    AfterRevalidation,
}
use Usable::{AfterRevalidation, Fresh, WhileRevalidating};

fn usable(entry: &Entry, request: &[&str], now: Duration) -> Usable {
    match entry.release(&receiver(request), Ground::Stored, now) {
        Ok(released) if released.refresh => WhileRevalidating,
        Ok(_) => Fresh,
        Err(_) => AfterRevalidation,
    }
}

fn storable(refreshed: Refreshed) -> Entry {
    match refreshed {
        Refreshed::Storable(entry) => entry,
        other => panic!("{other:?}"),
    }
}

/// Section, request, status, response, result.
type Storing =
    (&'static str, &'static [&'static str], u16, &'static [&'static str], Result<(), NotStored>);

const STORING: &[Storing] = &[
    ("5.2.2.1 max-age", &[], 200, &["cache-control: max-age=60"], Ok(())),
    ("any case", &[], 200, &["cache-control: Max-Age=60"], Ok(())),
    ("5.2.2.10 s-maxage", &[], 200, &["cache-control: s-maxage=60"], Ok(())),
    ("5.3 Expires", &[], 200, &[DATE, "expires: Sun, 06 Nov 1994 08:59:37 GMT"], Ok(())),
    ("5.3 RFC 850 date", &[], 200, &[DATE, "expires: Sunday, 06-Nov-94 08:59:37 GMT"], Ok(())),
    ("5.3 past", &[], 200, &[DATE, "expires: Sun, 06 Nov 1994 08:40:37 GMT"], Err(NeverFresh)),
    ("5.3 invalid is past", &[], 200, &[DATE, "expires: 0"], Err(NeverFresh)),
    ("4.2.2 heuristic", &[], 200, &[DATE, "last-modified: Sat, 05 Nov 1994 08:49:37 GMT"], Ok(())),
    ("nothing said", &[], 200, &[], Err(NeverFresh)),
    ("only a validator", &[], 200, &["etag: \"a\""], Ok(())),
    ("5.2.2.5 no-store", &[], 200, &["cache-control: no-store, max-age=60"], Err(Forbidden)),
    (
        "second line",
        &[],
        200,
        &["cache-control: max-age=60", "cache-control: no-store"],
        Err(Forbidden),
    ),
    ("5.2.2.7 private", &[], 200, &["cache-control: private, max-age=60"], Err(Forbidden)),
    ("5.2.2.4 no-cache, validator", &[], 200, &["cache-control: no-cache", "etag: \"a\""], Ok(())),
    ("no-cache, no validator", &[], 200, &["cache-control: no-cache"], Err(NeverFresh)),
    (
        "5.2.1.5 request no-store",
        &["cache-control: no-store"],
        200,
        &["cache-control: max-age=60"],
        Err(Forbidden),
    ),
    (
        "3.5 credentials",
        &["authorization: Basic eA=="],
        200,
        &["cache-control: max-age=60"],
        Err(Forbidden),
    ),
    (
        "3.5 public",
        &["authorization: Basic eA=="],
        200,
        &["cache-control: public, max-age=60"],
        Ok(()),
    ),
    ("3.5 s-maxage", &["authorization: Basic eA=="], 200, &["cache-control: s-maxage=60"], Ok(())),
    ("4.1 Vary *", &[], 200, &["cache-control: max-age=60", "vary: *"], Err(VariesByAnything)),
    (
        "4.1 Vary a, *",
        &[],
        200,
        &["cache-control: max-age=60", "vary: accept, *"],
        Err(VariesByAnything),
    ),
    ("7.3 cookie", &[], 200, &["cache-control: max-age=60", "set-cookie: a=b"], Err(SetsCookie)),
    ("404 with lifetime", &[], 404, &["cache-control: max-age=60"], Ok(())),
    ("301 by default", &[], 301, &[DATE, "last-modified: Sat, 05 Nov 1994 08:49:37 GMT"], Ok(())),
    ("206 not understood", &[], 206, &["cache-control: max-age=60"], Err(Forbidden)),
    ("500", &[], 500, &["cache-control: max-age=60"], Err(Forbidden)),
    ("older than it lasts", &[], 200, &["cache-control: max-age=60", "age: 61"], Err(NeverFresh)),
    ("RFC 5861 alone", &[], 200, &["cache-control: max-age=0, stale-while-revalidate=60"], Ok(())),
];

#[test]
fn what_may_be_stored() {
    for (case, request, status, response, judged) in STORING {
        assert_eq!(admit(request, *status, response).map(|_| ()), *judged, "{case}");
    }
}

/// Section, response, seconds until the request, request, result.
type Usability = (&'static str, &'static [&'static str], u64, &'static [&'static str], Usable);

/// Lifetimes given by the origin.
const LIFETIMES: &[Usability] = &[
    ("fresh", &["cache-control: max-age=60"], 59, &[], Fresh),
    ("no longer", &["cache-control: max-age=60"], 60, &[], AfterRevalidation),
    ("4.2.3 Age counts", &["cache-control: max-age=60", "age: 30"], 29, &[], Fresh),
    ("4.2.3 Age counts", &["cache-control: max-age=60", "age: 30"], 30, &[], AfterRevalidation),
    (
        "4.2.3 an old Date counts",
        &["cache-control: max-age=60", "date: Sun, 06 Nov 1994 08:49:07 GMT"],
        30,
        &[],
        AfterRevalidation,
    ),
    ("s-maxage before max-age", &["cache-control: max-age=1, s-maxage=60"], 30, &[], Fresh),
    (
        "max-age before Expires",
        &[DATE, "cache-control: max-age=60", "expires: Sun, 06 Nov 1994 08:49:38 GMT"],
        30,
        &[],
        Fresh,
    ),
    (
        "heuristic: a tenth of a day",
        &[DATE, "last-modified: Sat, 05 Nov 1994 08:49:37 GMT"],
        8_639,
        &[],
        Fresh,
    ),
    (
        "heuristic: over",
        &[DATE, "last-modified: Sat, 05 Nov 1994 08:49:37 GMT"],
        8_640,
        &[],
        AfterRevalidation,
    ),
    ("5.2.2.4 no-cache", &["cache-control: no-cache", "etag: \"a\""], 0, &[], AfterRevalidation),
];

/// Freshness requirements of the client.
const DEMANDS: &[Usability] = &[
    (
        "5.2.1.4 reload",
        &["cache-control: max-age=60"],
        1,
        &["cache-control: no-cache"],
        AfterRevalidation,
    ),
    ("5.4 Pragma", &["cache-control: max-age=60"], 1, &["pragma: no-cache"], AfterRevalidation),
    (
        "5.2.1.1 younger than",
        &["cache-control: max-age=60"],
        10,
        &["cache-control: max-age=5"],
        AfterRevalidation,
    ),
    (
        "5.2.1.3 fresh for",
        &["cache-control: max-age=60"],
        50,
        &["cache-control: min-fresh=20"],
        AfterRevalidation,
    ),
    (
        "5.2.1.2 max-stale",
        &["cache-control: max-age=60"],
        70,
        &["cache-control: max-stale=20"],
        Fresh,
    ),
    (
        "5.2.1.2 too stale",
        &["cache-control: max-age=60"],
        90,
        &["cache-control: max-stale=20"],
        AfterRevalidation,
    ),
    (
        "must-revalidate",
        &["cache-control: max-age=60, must-revalidate"],
        70,
        &["cache-control: max-stale"],
        AfterRevalidation,
    ),
];

/// RFC 5861: stale responses that may be used.
const STALE: &[Usability] = &[
    (
        "RFC 5861 §3",
        &["cache-control: max-age=60, stale-while-revalidate=30"],
        89,
        &[],
        WhileRevalidating,
    ),
    (
        "RFC 5861 §3 over",
        &["cache-control: max-age=60, stale-while-revalidate=30"],
        90,
        &[],
        AfterRevalidation,
    ),
    (
        "old already",
        &["cache-control: max-age=60, stale-while-revalidate=30", "age: 80"],
        10,
        &[],
        AfterRevalidation,
    ),
    (
        "the client insists",
        &["cache-control: max-age=60, stale-while-revalidate=30"],
        70,
        &["cache-control: no-cache"],
        AfterRevalidation,
    ),
    (
        "the origin insists",
        &["cache-control: max-age=60, must-revalidate, stale-while-revalidate=30"],
        70,
        &[],
        AfterRevalidation,
    ),
    (
        "s-maxage and by name",
        &["cache-control: s-maxage=60, stale-while-revalidate=30"],
        70,
        &[],
        WhileRevalidating,
    ),
];

#[test]
fn how_long_it_is_the_answer() {
    for (case, response, later, request, judged) in [LIFETIMES, DEMANDS, STALE].concat() {
        let entry = admit(&[], 200, response).expect(case);
        let now = NOW + Duration::from_secs(later);
        assert_eq!(usable(&entry, request, now), judged, "{case}: {later} s later");
    }
}

#[test]
fn what_an_error_of_the_origin_leaves() {
    let table: &[(&str, u64, bool)] = &[
        ("cache-control: max-age=60, stale-if-error=30", 89, true),
        ("cache-control: max-age=60, stale-if-error=30", 90, false),
        ("cache-control: max-age=60", 61, false),
        ("cache-control: max-age=60, stale-if-error=30, must-revalidate", 61, false),
    ];
    for (line, later, covered) in table {
        let entry = admit(&[], 200, &[line]).expect("stored");
        let now = NOW + Duration::from_secs(*later);
        assert_eq!(
            entry.release(&receiver(&[]), Ground::OriginFailed, now).is_ok(),
            *covered,
            "{line} {later}"
        );
    }
}

#[test]
fn which_requests_a_variant_answers() {
    let varied = ["cache-control: max-age=60", "vary: Accept-Encoding", "vary: accept-language"];
    let first = ["accept-encoding: gzip, br", "accept-language: de"];
    let entry = admit(&first, 200, &varied).expect("stored");
    let table: &[(&[&str], bool)] = &[
        (&["accept-encoding: gzip, br", "accept-language: de"], true),
        (&["accept-encoding: gzip ,br", "accept-language: de", "x-other: 1"], true),
        (&["accept-encoding: gzip", "accept-encoding: br", "accept-language: de"], true),
        (&["accept-encoding: gzip", "accept-language: de"], false),
        (&["accept-encoding: gzip, br"], false),
        (&["accept-encoding: gzip, br", "accept-language: "], false),
    ];
    for (request, matches) in table {
        assert_eq!(entry.selecting.matches(&receiver(request)), *matches, "{request:?}");
    }
    // An absent header differs from an empty one.
    let absent = admit(&[], 200, &["cache-control: max-age=60", "vary: accept"]).expect("stored");
    assert!(absent.selecting.matches(&receiver(&["x-other: 1"])));
    assert!(!absent.selecting.matches(&receiver(&["accept: "])));
}

#[test]
fn each_variant_has_a_key_of_its_own() {
    let key = |generation, language: &str| {
        let names = vec![header::ACCEPT_LANGUAGE];
        let request = receiver(&[&format!("accept-language: {language}")]);
        secondary_key(b"shop.example /", generation, &Selecting::from_names(names, &request))
    };
    assert_eq!(key(1, "de"), key(1, "de"));
    assert_ne!(key(1, "de"), key(1, "en"));
    assert_ne!(key(1, "de"), key(2, "de"));
}

#[test]
fn what_is_of_one_connection_or_asks_for_less_stays_here() {
    let came =
        ["connection: x-own, close", "x-own: 1", "te: trailers", "keep-alive: 9", "accept: a"];
    let asked = ["range: bytes=0-1", "if-range: \"b\"", "if-none-match: \"b\"", "if-match: *"];
    let request = headers(&[&came[..], &asked, &["if-modified-since: now"]].concat());
    let request = Receiver::new(end_to_end(&request));
    assert_eq!(for_the_origin(&request, None), headers(&["accept: a"]));
    assert_eq!(end_to_end(&headers(&came)), headers(&["accept: a"]));
    let stored = admit(&[], 200, &["etag: \"a\"", "last-modified: then"]).expect("stored");
    let validates = ["accept: a", "if-none-match: \"a\"", "if-modified-since: then"];
    assert_eq!(for_the_origin(&request, Some(&stored)), headers(&validates));
}

#[test]
fn a_304_makes_it_fresh_and_brings_new_headers() {
    let stored = ["cache-control: max-age=60", "etag: \"a\"", "x-old: 1", "content-type: text/css"];
    let entry = admit(&[], 200, &stored).expect("stored");
    let later = NOW + Duration::from_secs(100);
    let news = headers(&["cache-control: max-age=10", "x-old: 2", "content-length: 0"]);
    let entry = storable(entry.refreshed(&receiver(&[]), &news, later, later));
    assert_eq!(usable(&entry, &[], later + Duration::from_secs(9)), Fresh);
    assert_eq!(usable(&entry, &[], later + Duration::from_secs(10)), AfterRevalidation);
    assert_eq!(entry.headers["x-old"], "2");
    assert_eq!(entry.headers[header::CONTENT_TYPE], "text/css");
    assert!(!entry.headers.contains_key(header::CONTENT_LENGTH));
}

#[test]
fn a_304_shares_no_cookie_and_can_forbid_storing() {
    let entry = admit(&[], 200, &["cache-control: max-age=60", "etag: \"a\""]).expect("stored");
    let after = |line: &str| entry.refreshed(&receiver(&[]), &headers(&[line]), NOW, NOW);
    let cookie = storable(after("set-cookie: a=b"));
    assert!(!cookie.headers.contains_key(header::SET_COOKIE));
    for line in ["cache-control: private", "vary: *", "cache-control: max-age=1; private"] {
        assert!(matches!(after(line), Refreshed::Personal(_)), "{line}");
    }
}

#[test]
fn age_is_told() {
    let entry = admit(&[], 200, &["cache-control: max-age=60", "age: 7"]).expect("stored");
    let headers = entry.headers_at(NOW + Duration::from_secs(5));
    assert_eq!(headers[header::AGE], "12");
    // RFC 9110 §6.6.1: a recipient without a date adds one.
    assert_eq!(headers[header::DATE], DATE["date: ".len()..]);
    // The Age of the stored response is not that of the new one.
    assert_eq!(
        storable(entry.refreshed(&receiver(&[]), &HeaderMap::new(), NOW, NOW)).headers_at(NOW)
            [header::AGE],
        "0"
    );
}

#[test]
fn it_is_kept_for_as_long_as_it_is_of_use() {
    let day = 24 * 3600;
    for (line, seconds) in [
        ("x-nothing: said", 60),
        ("x-nothing: said\ncache-control: stale-while-revalidate=30", 90),
        ("x-nothing: said\ncache-control: stale-while-revalidate=30, stale-if-error=300", 360),
        ("etag: \"a\"", 60 + day),
        ("last-modified: Sun, 06 Nov 1994 08:49:37 GMT", 60 + day),
    ] {
        let lines: Vec<&str> = line.lines().chain(["cache-control: max-age=60"]).collect();
        let entry = admit(&[], 200, &lines).expect("stored");
        assert_eq!(entry.useful_for(NOW), Duration::from_secs(seconds), "{line}");
        let later = NOW + Duration::from_secs(20);
        assert_eq!(entry.useful_for(later), Duration::from_secs(seconds - 20), "{line}");
    }
}
