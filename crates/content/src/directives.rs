//! `Cache-Control` directives (RFC 9111 §5.2), as far as `http-cache-semantics` does not judge them.

use std::time::Duration;

use http::{HeaderMap, header::CACHE_CONTROL};

/// The value of a directive in all `Cache-Control` lines; empty where it has none.
pub(crate) fn directive(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines = headers.get_all(CACHE_CONTROL).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).find_map(|part| {
        let (found, value) = part.split_once('=').unwrap_or((part, ""));
        let matches = found.trim().eq_ignore_ascii_case(name);
        matches.then(|| value.trim().trim_matches('"').to_owned())
    })
}

/// Is the directive there?
pub(crate) fn has(headers: &HeaderMap, name: &str) -> bool {
    directive(headers, name).is_some()
}

/// A directive that is a number of seconds.
pub(crate) fn seconds(headers: &HeaderMap, name: &str) -> Option<Duration> {
    let text = directive(headers, name)?;
    // "If it cannot be represented, it is infinite": digits that overflow are a long time.
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| Duration::from_secs(text.parse::<u32>().unwrap_or(u32::MAX).into()))
}
