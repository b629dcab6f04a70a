//! Which part of a stored response answers a request: all of it, a range, or nothing because the
//! client has it (RFC 9110 §13 and §14).

use std::{ops::Range, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

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
    if let Some(status) = precondition(request, &stored).filter(|_| status.is_success()) {
        // They describe a body that is not sent.
        for name in [header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::CONTENT_TYPE] {
            stored.remove(name);
        }
        return Selected { status, headers: stored, body: 0..0 };
    }
    let ranged = status == StatusCode::OK && if_range(request, &stored);
    let asked = single(request, &header::RANGE).and_then(|range| range.to_str().ok());
    let (status, body) = match asked.filter(|_| ranged).and_then(|text| select_range(text, length))
    {
        Some(Ok(range)) => {
            let place = format!("bytes {}-{}/{length}", range.start, range.end - 1);
            stored.insert(header::CONTENT_RANGE, value(&place));
            (StatusCode::PARTIAL_CONTENT, range)
        }
        Some(Err(())) => {
            stored.insert(header::CONTENT_RANGE, value(&format!("bytes */{length}")));
            stored.remove(header::CONTENT_ENCODING);
            (StatusCode::RANGE_NOT_SATISFIABLE, 0..0)
        }
        None => (status, 0..length),
    };
    if status == StatusCode::NO_CONTENT {
        // RFC 9110 §8.6.
        stored.remove(header::CONTENT_LENGTH);
    } else {
        stored.insert(header::CONTENT_LENGTH, body.len().into());
    }
    Selected { status, headers: stored, body }
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
    let tag = single(stored, &header::ETAG).map(HeaderValue::as_bytes);
    let modified = date(stored, &header::LAST_MODIFIED);
    if request.contains_key(header::IF_MATCH) {
        let matches = any_tag(request, &header::IF_MATCH, |wanted| {
            wanted == b"*" || (Some(wanted) == tag && !wanted.starts_with(b"W/"))
        });
        if !matches {
            return Some(StatusCode::PRECONDITION_FAILED);
        }
    } else if let (Some(limit), Some(modified)) =
        (date(request, &header::IF_UNMODIFIED_SINCE), modified)
        && modified > limit
    {
        return Some(StatusCode::PRECONDITION_FAILED);
    }
    let seen = if request.contains_key(header::IF_NONE_MATCH) {
        let weak = |tag: &[u8]| tag.strip_prefix(b"W/").unwrap_or(tag).to_vec();
        any_tag(request, &header::IF_NONE_MATCH, |wanted| {
            wanted == b"*" || tag.is_some_and(|tag| weak(tag) == weak(wanted))
        })
    } else {
        // RFC 9111 §4.3.2: its date counts where nothing says when it was changed.
        let dated = || date(stored, &header::DATE);
        let is_said = stored.contains_key(header::LAST_MODIFIED);
        let changed = if is_said { modified } else { dated() };
        date(request, &header::IF_MODIFIED_SINCE).zip(changed).is_some_and(|(seen, at)| at <= seen)
    };
    seen.then_some(StatusCode::NOT_MODIFIED)
}

/// Returns whether the range may be taken from this response (RFC 9110 §13.1.5). Only a strong
/// match counts: a date only if the response was sent later than in the second of its change
/// (§8.8.2.2).
fn if_range(request: &HeaderMap, stored: &HeaderMap) -> bool {
    let Some(wanted) = single(request, &header::IF_RANGE) else {
        return !request.contains_key(header::IF_RANGE);
    };
    if wanted.as_bytes().starts_with(b"\"") {
        return single(stored, &header::ETAG) == Some(wanted);
    }
    let modified = date(stored, &header::LAST_MODIFIED);
    let is_strong = modified < date(stored, &header::DATE);
    is_strong && modified.is_some() && modified == date(request, &header::IF_RANGE)
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<Duration> {
    single(headers, name)?.to_str().ok().and_then(since_epoch)
}

/// The value of a header that has only one; `None` where it stands in several lines.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut lines = headers.get_all(name).into_iter();
    lines.next().filter(|_| lines.next().is_none())
}

/// Returns whether any entity tag in the lines of this header satisfies `wanted`. Tags are quoted,
/// and may contain a comma.
fn any_tag(request: &HeaderMap, name: &HeaderName, wanted: impl Fn(&[u8]) -> bool) -> bool {
    let separates = |byte: &u8| matches!(byte, b',' | b' ' | b'\t');
    request.get_all(name).into_iter().map(HeaderValue::as_bytes).any(|mut rest| {
        while let Some(start) = rest.iter().position(|byte| !separates(byte)) {
            rest = &rest[start..];
            let next = |sought: u8, from: usize| {
                rest.iter().skip(from).position(|&byte| byte == sought).map(|at| from + at)
            };
            let open = next(b'"', 0).filter(|_| rest[0] != b'*');
            let close = open.and_then(|open| next(b'"', open + 1)).map(|close| close + 1);
            let end = close.or_else(|| next(b',', 0)).unwrap_or(rest.len());
            if wanted(rest[..end].trim_ascii()) {
                return true;
            }
            rest = &rest[end..];
        }
        false
    })
}
