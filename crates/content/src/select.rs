//! Which part of a stored response answers a request: all of it, a range, or nothing because the
//! client has it (RFC 9110 §13 and §14).

use std::ops::Range;

use http::{HeaderMap, StatusCode, header};

use crate::{age::since_epoch, headers::value};

#[cfg(test)]
mod tests;

/// The response to a client, made from a stored response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selected {
    /// 200 or as stored, 206, 304, 412 or 416.
    pub(crate) status: StatusCode,
    /// The stored headers, adapted.
    pub(crate) headers: HeaderMap,
    /// Which bytes of the stored body.
    pub(crate) body: Range<usize>,
}

/// The response to a `GET` or `HEAD` with the headers `request`, made from a stored response with
/// `status`, `stored` headers and `length` bytes of body.
pub(crate) fn select(
    request: &HeaderMap,
    status: StatusCode,
    mut stored: HeaderMap,
    length: usize,
) -> Selected {
    if !status.is_success() {
        return Selected { status, headers: stored, body: 0..length };
    }
    if let Some(status) = precondition(request, &stored) {
        if status == StatusCode::NOT_MODIFIED {
            for name in [header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::CONTENT_TYPE] {
                stored.remove(name);
            }
        }
        return Selected { status, headers: stored, body: 0..0 };
    }
    let ranged = status == StatusCode::OK && if_range(request, &stored);
    let asked = request.get(header::RANGE).and_then(|range| range.to_str().ok());
    match asked.filter(|_| ranged).and_then(|text| select_range(text, length)) {
        Some(Ok(range)) => {
            let place = format!("bytes {}-{}/{length}", range.start, range.end - 1);
            stored.insert(header::CONTENT_RANGE, value(&place));
            stored.insert(header::CONTENT_LENGTH, range.len().into());
            Selected { status: StatusCode::PARTIAL_CONTENT, headers: stored, body: range }
        }
        Some(Err(())) => {
            stored.insert(header::CONTENT_RANGE, value(&format!("bytes */{length}")));
            stored.insert(header::CONTENT_LENGTH, 0.into());
            Selected { status: StatusCode::RANGE_NOT_SATISFIABLE, headers: stored, body: 0..0 }
        }
        None => {
            stored.insert(header::CONTENT_LENGTH, length.into());
            Selected { status, headers: stored, body: 0..length }
        }
    }
}

/// The part of `length` bytes that a `Range` asks for. `Err` if it cannot be satisfied; `None` if
/// the whole body is sent: for other units, several ranges, or a value that cannot be parsed.
pub(crate) fn select_range(text: &str, length: usize) -> Option<Result<Range<usize>, ()>> {
    let (unit, range) = text.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = range.trim().split_once('-')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number that does not fit is larger than any body.
        digits.then(|| text.parse::<usize>().unwrap_or(usize::MAX))
    };
    if first.is_empty() {
        let suffix = number(last)?;
        let start = length.saturating_sub(suffix);
        return Some(if suffix == 0 || length == 0 { Err(()) } else { Ok(start..length) });
    }
    let start = number(first)?;
    let end = if last.is_empty() { usize::MAX } else { number(last)? };
    if end < start {
        return None;
    }
    Some(if start < length { Ok(start..end.saturating_add(1).min(length)) } else { Err(()) })
}

/// Evaluates the conditions of a request in the order of RFC 9110 §13.2.2; `None` if the stored
/// response is sent.
fn precondition(request: &HeaderMap, stored: &HeaderMap) -> Option<StatusCode> {
    let tag = stored.get(header::ETAG).and_then(|tag| tag.to_str().ok());
    if request.contains_key(header::IF_MATCH) {
        let matches = any_tag(request, &header::IF_MATCH, |wanted| {
            wanted == "*" || (Some(wanted) == tag && !wanted.starts_with("W/"))
        });
        if !matches {
            return Some(StatusCode::PRECONDITION_FAILED);
        }
    } else if let (Some(limit), Some(modified)) =
        (date(request, &header::IF_UNMODIFIED_SINCE), date(stored, &header::LAST_MODIFIED))
        && modified > limit
    {
        return Some(StatusCode::PRECONDITION_FAILED);
    }
    let seen = if request.contains_key(header::IF_NONE_MATCH) {
        let weak = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
        any_tag(request, &header::IF_NONE_MATCH, |wanted| {
            wanted == "*" || tag.is_some_and(|tag| weak(tag) == weak(wanted))
        })
    } else {
        match (date(request, &header::IF_MODIFIED_SINCE), date(stored, &header::LAST_MODIFIED)) {
            (Some(since), Some(modified)) => modified <= since,
            _ => false,
        }
    };
    seen.then_some(StatusCode::NOT_MODIFIED)
}

/// Returns whether the range may be taken from this response (RFC 9110 §13.1.5). Requires a strong
/// match.
fn if_range(request: &HeaderMap, stored: &HeaderMap) -> bool {
    let Some(wanted) = request.get(header::IF_RANGE).and_then(|text| text.to_str().ok()) else {
        return !request.contains_key(header::IF_RANGE);
    };
    if wanted.starts_with('"') {
        return stored.get(header::ETAG).is_some_and(|tag| tag.as_bytes() == wanted.as_bytes());
    }
    let modified = date(stored, &header::LAST_MODIFIED);
    modified.is_some() && modified == since_epoch(wanted)
}

fn date(headers: &HeaderMap, name: &header::HeaderName) -> Option<std::time::Duration> {
    headers.get(name).and_then(|date| date.to_str().ok()).and_then(since_epoch)
}

/// Returns whether any entity tag in the lines of this header satisfies `wanted`. Tags are quoted
/// and may contain commas.
fn any_tag(
    request: &HeaderMap,
    name: &header::HeaderName,
    mut wanted: impl FnMut(&str) -> bool,
) -> bool {
    let lines = request.get_all(name).into_iter().filter_map(|line| line.to_str().ok());
    lines.into_iter().any(|line| {
        let mut rest = line.trim();
        while !rest.is_empty() {
            let open = rest.find('"').filter(|_| !rest.starts_with('*'));
            let close = open.and_then(|open| rest[open + 1..].find('"').map(|at| open + at + 2));
            let end = close.unwrap_or_else(|| rest.find(',').unwrap_or(rest.len()));
            if wanted(rest[..end].trim()) {
                return true;
            }
            rest = rest[end..].trim_start_matches([',', ' ', '\t']);
        }
        false
    })
}
