//! One request, from end to end.
//!
//! 1. Is the request for the site of its connection? If not, 421: its TLS session proves nothing
//!    about another site.
//! 2. `GET` and `HEAD` are looked up. What is fresh is the answer, whole, in part or as "not
//!    modified"; what is stale but allowed is, too, while a fetch makes it fresh.
//! 3. Anything else of them is fetched: [`fetch::join`] asks the origin once for many.
//! 4. Other methods go to the origin as they are; if it accepts one, what is stored for its target
//!    is forgotten (RFC 9111 §4.4).

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use content::{Entry, Record, Selecting, Usable, end_to_end, primary_key, secondary_key, select};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header, request};
use http_body_util::Limited;
use hyper::{
    Request, Response,
    body::{Body as _, Bytes, Incoming},
};
use tracing::info;

use super::{
    Shared, Site,
    body::{Body, RequestBody, full, passing},
    fetch::{self, How, Outcome, Place, Wanted},
    now,
    origin::Failure,
};

/// RFC 9211: what this cache did, for whoever looks for the reason of an answer.
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
const NAME: &str = "enroute";

/// What the requests of one connection share.
pub(super) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) site: Arc<Site>,
    pub(super) peer: SocketAddr,
}

/// Answers one request.
pub(super) async fn answer(
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    connection.shared.stats.requests.count();
    let is_head = request.method() == Method::HEAD;
    let mut response = connection.answer(request).await.unwrap_or_else(|refusal| *refusal);
    if is_head {
        // Its headers speak of a body that is not sent.
        let length = response.body().size_hint().exact();
        let headers = response.headers_mut();
        if let Some(length) = length.filter(|_| !headers.contains_key(header::CONTENT_LENGTH)) {
            headers.insert(header::CONTENT_LENGTH, length.into());
        }
        *response.body_mut() = full(Bytes::new());
    }
    Ok(response)
}

/// What is refused is an answer too; boxed, since it is rare.
type Answer = Result<Response<Body>, Box<Response<Body>>>;

impl Connection {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let body = RequestBody::new(body);
        let (host, target) = self.target(&head)?;
        let limit = self.shared.limits.request_bytes_max;
        if body.size_hint().lower() > limit as u64 {
            let why = format!("a body of more than {limit} bytes");
            return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, &why));
        }
        // A site is its name, on whatever port its clients reach it.
        let key = primary_key(name_of(&host), &target);
        let headers = self.forwarded(&head.headers, &host);
        let wanted = Wanted { target, headers, key, variant: None };
        match head.method {
            Method::GET | Method::HEAD if body.is_end_stream() => {
                self.cached(&head.method, wanted).await
            }
            Method::CONNECT | Method::TRACE => {
                Err(refuse(StatusCode::METHOD_NOT_ALLOWED, "this edge has no such method"))
            }
            method => {
                let safe = method.is_safe();
                let body = passing(Limited::new(body, limit));
                let answer = self.pass(method, &wanted, body, "method").await?;
                let changed = !safe && !answer.status().is_client_error();
                if changed && !answer.status().is_server_error() {
                    self.shared.flights.revoke(&wanted.key);
                    self.shared.content.forget(&wanted.key).await;
                    self.shared.stats.invalidations.count();
                }
                Ok(answer)
            }
        }
    }

    /// Host and target of a request for this connection's site.
    fn target(&self, request: &request::Parts) -> Result<(String, Uri), Box<Response<Body>>> {
        let named = request.uri.authority().map(http::uri::Authority::as_str);
        let header = || request.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = named.or_else(header).unwrap_or_default().to_ascii_lowercase();
        let name = name_of(&host);
        let domain = &self.site.domain;
        let below = domain.strip_prefix('*').is_some_and(|parent| {
            name.strip_suffix(parent).is_some_and(|label| !label.is_empty() && !label.contains('.'))
        });
        if name != domain && !below {
            self.shared.stats.misdirected.count();
            let why = format!("this connection is for {domain}, not for {name:?}");
            return Err(refuse(StatusCode::MISDIRECTED_REQUEST, &why));
        }
        let path = request.uri.path_and_query().map_or("/", |path| path.as_str());
        let target = path.parse().map_err(|_| refuse(StatusCode::BAD_REQUEST, "no such target"))?;
        Ok((host, target))
    }

    /// The headers as the origin is to see them: without this connection's, with who asks.
    fn forwarded(&self, headers: &HeaderMap, host: &str) -> HeaderMap {
        let mut headers = end_to_end(headers);
        let mut set = |name: HeaderName, text: &str| {
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        };
        set(header::HOST, host);
        // What a client claims here is not believed.
        set(HeaderName::from_static("x-forwarded-for"), &self.peer.ip().to_string());
        set(HeaderName::from_static("x-forwarded-proto"), "https");
        headers.remove(header::EXPECT);
        // HTTP/2 clients send one line for each cookie; HTTP/1.1 knows one for all (RFC 9113 §8.2.3).
        let cookies = headers.get_all(header::COOKIE).into_iter().map(HeaderValue::as_bytes);
        let cookies = cookies.collect::<Vec<_>>().join(b"; ".as_slice());
        if let Some(joined) = HeaderValue::from_bytes(&cookies).ok().filter(|all| !all.is_empty()) {
            headers.insert(header::COOKIE, joined);
        }
        headers.append(header::VIA, HeaderValue::from_static("1.1 enroute"));
        headers
    }

    async fn cached(&self, method: &Method, mut wanted: Wanted) -> Answer {
        let (stats, content) = (&self.shared.stats, &self.shared.content);
        let mut found = content.lookup(&wanted.key, now()).await;
        if let Some(Record::Variants { names, generation }) = found {
            let selecting = Selecting::from_names(names, &wanted.headers);
            let key = secondary_key(&wanted.key, generation, &selecting);
            found = content.lookup(&key, now()).await;
            wanted.variant = Some(key);
        }
        let stored = match found {
            Some(Record::Pass) => {
                return self.pass(method.clone(), &wanted, full(Bytes::new()), "bypass").await;
            }
            Some(Record::Entry(entry)) if entry.selecting.matches(&wanted.headers) => Some(entry),
            _ => None,
        };
        match stored.as_ref().map(|entry| entry.usable(&wanted.headers, now())) {
            Some(Usable::Fresh) => {
                stats.hits.count();
                return Ok(respond(&wanted, stored.as_ref().expect("found"), "hit"));
            }
            Some(Usable::WhileRevalidating) => {
                stats.hits.count();
                stats.hits_stale.count();
                let entry = stored.expect("found");
                let response = respond(&wanted, &entry, "hit; detail=stale-while-revalidate");
                drop(fetch::join(&self.shared, &self.site, wanted, Some(entry)));
                return Ok(response);
            }
            Some(Usable::AfterRevalidation) => stats.revalidations.count(),
            None => stats.misses.count(),
        }
        if only_if_cached(&wanted.headers) {
            return Err(refuse(StatusCode::GATEWAY_TIMEOUT, "it is not stored"));
        }
        // Its answer is this client's alone, or a whole one would be fetched for nothing.
        if method == Method::HEAD && stored.is_none() || is_personal(&wanted.headers) {
            return self.pass(method.clone(), &wanted, full(Bytes::new()), "bypass").await;
        }
        self.fetched(method, wanted, stored).await
    }

    /// The answer of a fetch, this client's own or one it waits for.
    async fn fetched(&self, method: &Method, wanted: Wanted, stored: Option<Entry>) -> Answer {
        let reason = if stored.is_some() { "stale" } else { "miss" };
        let place = fetch::join(&self.shared, &self.site, wanted.clone(), stored);
        let (mut told, collapsed) = match place {
            Place::First(handed, told) => {
                if let Ok(response) = handed.await {
                    return Ok(finish(response, &format!("fwd={reason}")));
                }
                (told, "")
            }
            Place::Behind(told) => (told, "; collapsed"),
        };
        let outcome = match told.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Outcome::Alone),
            // The fetch panicked; its message is in the log.
            Err(_) => Outcome::Failed(StatusCode::BAD_GATEWAY),
        };
        match outcome {
            Outcome::Shared(entry, how) if entry.selecting.matches(&wanted.headers) => {
                let how = match how {
                    How::Fetched => format!("fwd={reason}; stored"),
                    How::NotModified => format!("fwd={reason}; fwd-status=304; stored"),
                    How::CoversError => {
                        self.shared.stats.errors_covered.count();
                        "hit; detail=stale-if-error".to_owned()
                    }
                };
                Ok(respond(&wanted, &entry, &(how + collapsed)))
            }
            Outcome::Failed(status) => Err(refuse(status, "the origin does not answer")),
            // Not for this client: it asks for itself.
            Outcome::Shared(..) | Outcome::Alone => {
                self.pass(method.clone(), &wanted, full(Bytes::new()), "bypass").await
            }
        }
    }

    /// Hands a request to the origin as it is, and its answer to the client.
    async fn pass(&self, method: Method, wanted: &Wanted, body: Body, reason: &str) -> Answer {
        self.shared.stats.passed.count();
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = wanted.target.clone();
        *request.headers_mut() = wanted.headers.clone();
        match self.site.origin.ask(request).await {
            Ok(response) => {
                let response = response.map(passing);
                Ok(finish(response, &format!("fwd={reason}")))
            }
            Err(failure) => {
                info!("{failure}");
                self.shared.stats.origin_failures.count();
                let status = match failure {
                    Failure::TimedOut(..) => StatusCode::GATEWAY_TIMEOUT,
                    Failure::Unreachable(..) => StatusCode::BAD_GATEWAY,
                };
                Err(refuse(status, "the origin does not answer"))
            }
        }
    }
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

/// Would an answer to this be nobody else's, whatever the origin says?
fn is_personal(headers: &HeaderMap) -> bool {
    headers.contains_key(header::AUTHORIZATION) || has(headers, "no-store")
}

fn only_if_cached(headers: &HeaderMap) -> bool {
    has(headers, "only-if-cached")
}

fn has(headers: &HeaderMap, directive: &str) -> bool {
    let lines = headers.get_all(header::CACHE_CONTROL).into_iter();
    let mut parts = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
    parts.any(|part| part.trim().eq_ignore_ascii_case(directive))
}

/// A stored response as the answer to a request.
fn respond(wanted: &Wanted, entry: &Entry, how: &str) -> Response<Body> {
    let headers = entry.headers_at(now());
    let selected = select(&wanted.headers, entry.status, headers, entry.body.len());
    let mut response = Response::new(full(entry.body.slice(selected.body)));
    (*response.status_mut(), *response.headers_mut()) = (selected.status, selected.headers);
    finish(response, how)
}

/// An answer with what this edge adds, and without what was the origin connection's.
fn finish(mut response: Response<Body>, how: &str) -> Response<Body> {
    let mut headers = end_to_end(response.headers());
    if let Ok(status) = HeaderValue::from_str(&format!("{NAME}; {how}")) {
        headers.append(CACHE_STATUS, status);
    }
    headers.append(header::VIA, HeaderValue::from_static("1.1 enroute"));
    *response.headers_mut() = headers;
    *response.version_mut() = http::Version::HTTP_11;
    response
}

fn refuse(status: StatusCode, why: &str) -> Box<Response<Body>> {
    let mut response = Response::new(full(format!("{status}: {why}\n").into()));
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    Box::new(finish(response, "fwd=bypass; detail=refused"))
}
