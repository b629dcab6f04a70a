//! Age of a response when it was received (RFC 9111 §4.2.3), and its dates.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::directives::delta_seconds;

/// No response is older. A greater count and an overflow mean this one (RFC 9111 §1.2.2), which
/// still fits in a stored record.
pub(crate) const OLDEST: Duration = Duration::from_secs(1 << 31);
/// The end of the year 9999, the last that an HTTP date can state.
const LAST: Duration = Duration::from_secs(253_402_300_799);

/// The corrected initial age of a response to a request sent at `asked`, received at `received`: in
/// whole seconds, at most [`OLDEST`].
pub(crate) fn initial(headers: &HeaderMap, asked: Duration, received: Duration) -> Duration {
    let date = dates(headers, &header::DATE).flatten().min();
    let apparent = date.map_or(Duration::ZERO, |date| received.saturating_sub(date));
    let corrected = stated(headers) + received.saturating_sub(asked);
    // Dates have whole seconds: half a second of difference is no age.
    let apparent = Duration::from_secs(apparent.as_secs());
    apparent.max(Duration::from_secs(corrected.as_secs())).min(OLDEST)
}

/// `Age`: the first of several counts, and what is no number does not (RFC 9111 §5.1).
fn stated(headers: &HeaderMap) -> Duration {
    let first = headers.get(header::AGE).map(HeaderValue::as_bytes);
    let first = first.and_then(|age| age.split(|&byte| byte == b',').next());
    first.and_then(|age| delta_seconds(age.trim_ascii())).unwrap_or_default()
}

/// Parses the lines of a header as dates; `None` for an invalid one.
pub(crate) fn dates<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = Option<Duration>> + use<'a> {
    headers.get_all(name).into_iter().map(|line| line.to_str().ok().and_then(since_epoch))
}

/// An HTTP date, in all three formats of RFC 9110 §5.6.7.
pub(crate) fn since_epoch(date: &str) -> Option<Duration> {
    httpdate::parse_http_date(date).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()
}

/// The other way; what is later than [`LAST`] is that.
pub(crate) fn date(since_epoch: Duration) -> String {
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since_epoch.min(LAST))
}
