//! Conditions and ranges (RFC 9110 §13 and §14), as a table.

use http::{StatusCode, header};

use super::{select, select_range};
use crate::rfc9111::headers;

#[test]
fn what_a_condition_or_a_range_comes_to() {
    let stored = [
        "etag: \"abc\"",
        "last-modified: Sun, 06 Nov 1994 08:49:37 GMT",
        "content-type: text/plain",
        "date: Sun, 06 Nov 1994 08:49:38 GMT",
    ];
    // Request headers, status, range of a body of ten bytes.
    let table: &[(&[&str], u16, std::ops::Range<usize>)] = &[
        (&[], 200, 0..10),
        (&["if-none-match: \"abc\""], 304, 0..0),
        (&["if-none-match: W/\"abc\""], 304, 0..0),
        (&["if-none-match: \"x,y\", \"abc\""], 304, 0..0),
        (&["if-none-match: \"x\", *"], 304, 0..0),
        (&["if-none-match: *"], 304, 0..0),
        (&["if-none-match: \"abcd\""], 200, 0..10),
        (&["if-none-match: \"x\"", "if-modified-since: Sun, 06 Nov 1994 08:49:37 GMT"], 200, 0..10),
        (&["if-modified-since: Sun, 06 Nov 1994 08:49:37 GMT"], 304, 0..0),
        (&["if-modified-since: Sun, 06 Nov 1994 08:49:36 GMT"], 200, 0..10),
        (&["if-modified-since: soon"], 200, 0..10),
        (&["if-match: \"abc\""], 200, 0..10),
        (&["if-match: \"x\""], 412, 0..0),
        (&["if-match: W/\"abc\""], 412, 0..0),
        (&["if-unmodified-since: Sun, 06 Nov 1994 08:49:36 GMT"], 412, 0..0),
        (&["range: bytes=2-4"], 206, 2..5),
        (&["range: bytes=2-"], 206, 2..10),
        (&["range: bytes=-3"], 206, 7..10),
        (&["range: bytes=-30"], 206, 0..10),
        (&["range: bytes=5-99999999999999999999999"], 206, 5..10),
        (&["range: bytes=10-"], 416, 0..0),
        (&["range: bytes=-0"], 416, 0..0),
        (&["range: bytes=4-2"], 200, 0..10),
        (&["range: bytes=0-1,4-5"], 200, 0..10),
        (&["range: lines=0-1"], 200, 0..10),
        (&["range: bytes=2-4", "if-range: \"abc\""], 206, 2..5),
        (&["range: bytes=2-4", "if-range: W/\"abc\""], 200, 0..10),
        (&["range: bytes=2-4", "if-range: \"x\""], 200, 0..10),
        (&["range: bytes=2-4", "if-range: Sun, 06 Nov 1994 08:49:37 GMT"], 206, 2..5),
        (&["range: bytes=2-4", "if-none-match: \"abc\""], 304, 0..0),
    ];
    for (request, status, body) in table {
        let selected = select(&headers(request), StatusCode::OK, headers(&stored), 10);
        assert_eq!((selected.status.as_u16(), &selected.body), (*status, body), "{request:?}");
    }
    // A weak tag never matches in a strong comparison, not even an equal tag.
    let weak = headers(&["etag: W/\"abc\""]);
    let selected = select(&headers(&["if-match: W/\"abc\""]), StatusCode::OK, weak, 10);
    assert_eq!(selected.status, StatusCode::PRECONDITION_FAILED);
    // Conditions and ranges do not apply to an error response.
    for line in ["if-none-match: \"abc\"", "if-match: \"x\"", "range: bytes=2-4"] {
        let selected = select(&headers(&[line]), StatusCode::NOT_FOUND, headers(&stored), 10);
        assert_eq!((selected.status, &selected.body), (StatusCode::NOT_FOUND, &(0..10)), "{line}");
    }
    let part = select(&headers(&["range: bytes=2-4"]), StatusCode::OK, headers(&stored), 10);
    assert_eq!(part.headers[header::CONTENT_RANGE], "bytes 2-4/10");
    assert_eq!(part.headers[header::CONTENT_LENGTH], "3");
    assert_eq!(select_range("bytes=0-", 0), Some(Err(())));
}
