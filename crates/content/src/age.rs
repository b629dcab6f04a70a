//! How old a response was when it came (RFC 9111 §4.2.3).

use std::time::{Duration, SystemTime};

use http::{HeaderMap, header};

/// The corrected initial age of a response asked for at `asked` and received at `received`.
pub(crate) fn initial(headers: &HeaderMap, asked: Duration, received: Duration) -> Duration {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let date = text(header::DATE).and_then(since_epoch);
    let apparent = date.map_or(Duration::ZERO, |date| received.saturating_sub(date));
    let stated = text(header::AGE).and_then(|age| age.trim().parse::<u32>().ok()).unwrap_or(0);
    let corrected = Duration::from_secs(stated.into()) + received.saturating_sub(asked);
    // Dates have whole seconds: half a second of difference is no age.
    let apparent = Duration::from_secs(apparent.as_secs());
    apparent.max(Duration::from_secs(corrected.as_secs()))
}

/// An HTTP date, in all three formats of RFC 9110 §5.6.7.
pub(crate) fn since_epoch(date: &str) -> Option<Duration> {
    httpdate::parse_http_date(date).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()
}

/// The other way.
pub(crate) fn date(since_epoch: Duration) -> String {
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since_epoch)
}
