//! What every endpoint has in common: which requests it refuses, and how it says so.

use std::convert::Infallible;

use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ALLOW, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN},
};
use serde::Serialize;

const JSON: &str = "application/json";
pub(super) const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Longest body of a request.
pub(super) const BODY_BYTES_MAX: usize = 4 << 10;

pub(crate) type Answer = Response<Full<Bytes>>;

/// What answers over HTTP.
pub(crate) trait Endpoint: Send + Sync + 'static {
    /// The paths there are, each with the one method it answers to.
    const PATHS: &'static [(&'static str, Method)];

    /// The answer at one of the paths.
    fn answer(&self, path: &str, body: &[u8]) -> Answer;
}

/// Answers one request.
pub(super) async fn answer<E: Endpoint>(
    request: Request<Incoming>,
    endpoint: &E,
) -> Result<Answer, Infallible> {
    let path = request.uri().path().to_owned();
    let Some((_, method)) = E::PATHS.iter().find(|(known, _)| *known == path) else {
        let known: Vec<String> =
            E::PATHS.iter().map(|(path, method)| format!("{method} {path}")).collect();
        let why = format!("there is no {path}; there are {}", known.join(", "));
        return Ok(refuse(StatusCode::NOT_FOUND, why));
    };
    let asked = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    if asked != method {
        let mut answer = refuse(
            StatusCode::METHOD_NOT_ALLOWED,
            format!("{path} answers to {method}, not to {asked}"),
        );
        let allow = HeaderValue::from_str(method.as_str()).expect("a method is a header value");
        answer.headers_mut().insert(ALLOW, allow);
        return Ok(answer);
    }
    if method == Method::POST && is_from_elsewhere(request.headers()) {
        return Ok(refuse(
            StatusCode::FORBIDDEN,
            "a page from another place sent this; only this endpoint's own page may".to_owned(),
        ));
    }
    let body = match Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => {
            let why = format!("cannot read the body, at most {BODY_BYTES_MAX} bytes: {error}");
            return Ok(refuse(StatusCode::BAD_REQUEST, why));
        }
    };
    Ok(endpoint.answer(&path, &body))
}

/// Did a browser send this for a page of somebody else? Such a page can reach a loopback address
/// although its author cannot.
fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let host = origin.as_bytes().strip_prefix(b"http://");
    host.is_none() || host != headers.get(HOST).map(HeaderValue::as_bytes)
}

#[derive(Debug, Serialize)]
struct Refused {
    error: String,
}

pub(super) fn refuse(status: StatusCode, error: String) -> Answer {
    let mut answer = json(&Refused { error });
    *answer.status_mut() = status;
    answer
}

pub(super) fn json(value: &impl Serialize) -> Answer {
    let mut body = serde_json::to_string_pretty(value).expect("plain values become JSON");
    body.push('\n');
    text(JSON, body)
}

pub(super) fn text(kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
