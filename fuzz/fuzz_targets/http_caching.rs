//! Arbitrary headers of a request and of the origin's response: checks whether the response is
//! stored, for which clients, and what they receive.
#![no_main]

use std::time::Duration;

use bytes::Bytes;
use content::{Entry, Ground, Receiver, Record, Refreshed};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use libfuzzer_sys::fuzz_target;

const STATUSES: [u16; 8] = [200, 203, 204, 206, 301, 404, 410, 500];
const ASKED: Duration = Duration::from_secs(1_800_000_000);

/// Headers from lines `name: value`; other lines are ignored.
fn headers(bytes: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n').take(64) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else { continue };
        let value = HeaderValue::from_bytes(value.trim_ascii());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), value) {
            headers.append(name, value);
        }
    }
    headers
}

/// Whether the response forbids storage explicitly. Quoted strings are not examined.
fn forbids(response: &HeaderMap) -> bool {
    let lines = response.get_all(header::CACHE_CONTROL);
    lines.iter().map(HeaderValue::as_bytes).filter(|line| !line.contains(&b'"')).any(|line| {
        let mut words = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        words.any(|word| {
            word.eq_ignore_ascii_case(b"private") || word.eq_ignore_ascii_case(b"no-store")
        })
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[status, late], rest)) = bytes.split_first_chunk() else { return };
    let mut parts = rest.splitn(3, |byte| *byte == 0);
    let mut next = || headers(parts.next().unwrap_or_default());
    let (request, response, another) = (Receiver::new(next()), next(), Receiver::new(next()));
    let status = StatusCode::from_u16(STATUSES[usize::from(status) % STATUSES.len()]);
    let status = status.expect("a status");
    let now = ASKED + Duration::from_nanos(u64::from(late) * 1_234_567_891);
    let Ok(entry) = Entry::admit(&request, status, &response, ASKED, now) else { return };
    assert!(!forbids(&response), "stored although the origin forbids it: {response:?}");
    assert!(!response.contains_key(header::SET_COOKIE), "stored with a cookie");

    let entry = entry.with_body(Bytes::from_static(b"0123456789"));
    let stored = Bytes::from(Record::Entry(entry.clone()).encode());
    assert_eq!(Record::decode(&stored), Ok(Record::Entry(entry.clone())), "changed by storing it");
    for later in [0, 1, 60, 86_400, u64::from(u32::MAX)] {
        let later = now + Duration::from_secs(later);
        let _ = entry.useful_for(later);
        for ground in [Ground::Stored, Ground::OriginFailed, Ground::OwnRequest] {
            let Ok(released) = entry.release(&another, ground, later) else { continue };
            assert!(entry.answers(&another), "released to a request that selects another");
            assert!(released.body.len() <= 10, "more than the body: {:?}", released.body);
            assert!(
                ground == Ground::OwnRequest || !another.insists(),
                "released from storage to a request that wants the origin asked"
            );
        }
        if let Refreshed::Storable(fresh) =
            entry.refreshed(&request, another.headers(), ASKED, later)
        {
            assert!(!forbids(another.headers()), "storable although the 304 forbids it");
            let _ = fresh.useful_for(later);
        }
    }
});
