//! One request, from end to end.
//!
//! 1. Has it exactly one host, and is that of the site of its connection? If not, 400 or 421: its
//!    TLS session proves nothing about another site.
//! 2. `GET` and `HEAD` are looked up. What may be released to this receiver is the answer, whole,
//!    in part or as "not modified"; what is stale but allowed is, too, while a fetch makes it
//!    fresh.
//! 3. Anything else of them is fetched: [`flights::join`] asks the origin once for many.
//! 4. Other methods go to the origin as they are; if it accepts one, what is stored for its target,
//!    and for those that the response names, is forgotten (RFC 9111 §4.4).

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use content::{
    Added, BadTarget, Entry, Ground, How, Outcome, Receiver, Record, Released, Selecting, Target,
    Unforwardable, VIA, Waited, check_framing, finish, forwarded, primary_key, secondary_key,
};
use endpoint::seldom;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request};
use http_body_util::Limited;
use hyper::{
    Request, Response,
    body::{Body as _, Bytes},
};
use platform::memory::transit::{Account, Counted, InRoom};
use tokio::sync::watch;

use super::{
    Shared, Site,
    body::{Body, RequestBody, full, passing},
    content::NoRoom,
    fetch::{Own, Wanted},
    flights::{self, Place},
    now,
    origin::Failure,
    room::PASSING_BYTES,
    stats::time,
    taking::Taking,
};

/// Memory of one header in a map, besides its bytes.
const HEADER_BYTES: usize = 128;
/// Number of copies of a head: as received, as forwarded, and in the output buffer.
const HEAD_COPIES: usize = 3;

/// State shared by the requests of one connection.
pub(super) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) site: Arc<Site>,
    pub(super) peer: SocketAddr,
    /// Requests begun.
    pub(super) begun: AtomicU64,
    /// The responses in progress, some of which the client may read and others not.
    pub(super) taking: Option<Taking>,
    /// Its memory account.
    pub(super) account: Arc<Account>,
}

/// Answers one request.
pub(super) async fn answer(
    connection: Arc<Connection>,
    request: Request<RequestBody>,
    in_room: InRoom,
) -> Result<Response<Body>, Infallible> {
    connection.shared.stats.requests.count();
    connection.begun.fetch_add(1, Relaxed);
    let began = Instant::now();
    let is_head = request.method() == Method::HEAD;
    let mut response = connection.answer(request, began).await.unwrap_or_else(|refusal| *refusal);
    if is_head {
        // Its headers describe a body that is not sent.
        *response.body_mut() = full(Bytes::new());
    }
    let response = response.map(|body| body.answers(in_room, &connection.account));
    Ok(match &connection.taking {
        Some(taking) => response.map(|body| taking.watch(body)),
        None => response,
    })
}

/// The answer, or as an error the response that refuses the request; boxed, since it is rare.
type Answer = Result<Response<Body>, Box<Response<Body>>>;

impl Connection {
    async fn answer(&self, request: Request<RequestBody>, began: Instant) -> Answer {
        let (head, body) = request.into_parts();
        let (of_head, of_body) = (kept_of_head(&head), kept_of_body(&body));
        let _charged = self.account.charge(of_head + of_body);
        let (room, body) =
            (self.room_for(of_head).await?, body.with(self.room_for(of_body).await?));
        if matches!(head.method, Method::CONNECT | Method::TRACE) {
            return Err(refuse(StatusCode::METHOD_NOT_ALLOWED, "unsupported method"));
        }
        let target = self.target(&head)?;
        check_framing(&head.headers, VIA).map_err(|why| match why {
            Unforwardable::Loop => refuse(StatusCode::LOOP_DETECTED, &why.to_string()),
            _ => {
                let mut refusal = refuse(StatusCode::NOT_IMPLEMENTED, &why.to_string());
                // Another server may see another end of the body.
                let close = HeaderValue::from_static("close");
                refusal.headers_mut().insert(header::CONNECTION, close);
                refusal
            }
        })?;
        let limit = self.shared.limits.request_bytes_max;
        if body.size_hint().lower() > limit as u64 {
            let why = format!("expected a body of at most {limit} bytes (request_bytes_max)");
            return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, &why));
        }
        let has_body = !body.is_end_stream();
        let headers = self.headers(&head, &target, has_body)?;
        let key = primary_key(&self.site.domain, &target.host, &target.uri);
        let (receiver, _room) = (Receiver::new(headers), Arc::new(room));
        let wanted = Wanted { target: target.uri.clone(), receiver, key, variant: None, _room };
        match head.method {
            Method::GET | Method::HEAD if !has_body => {
                self.cached(&head.method, wanted, began).await
            }
            method => {
                let body = passing(Limited::new(body, limit));
                self.changing(method, &target, &wanted, body).await
            }
        }
    }

    /// Accounts for data that a client has sent.
    async fn room_for(&self, bytes: usize) -> Result<Counted, Box<Response<Body>>> {
        let room = self.shared.room.admit(bytes).await;
        room.ok_or_else(|| {
            self.shared.stats.no_room.count();
            refuse(StatusCode::SERVICE_UNAVAILABLE, "the edge is overloaded; try again")
        })
    }

    /// The headers of a request as the origin is to see them.
    fn headers(
        &self,
        head: &request::Parts,
        target: &Target,
        has_body: bool,
    ) -> Result<HeaderMap, Box<Response<Body>>> {
        let client = self.peer.ip().to_string();
        let added = Added { host: &target.host, client: &client, via: VIA };
        let headers = forwarded(&head.method, &head.headers, added);
        let bad = || refuse(StatusCode::BAD_REQUEST, "a header cannot be forwarded");
        let mut headers = headers.ok_or_else(bad)?;
        if !has_body && head.method.is_safe() {
            headers.remove(header::CONTENT_LENGTH);
        }
        Ok(headers)
    }

    /// Forwards a request to the origin unchanged; if it changes something there, the stored
    /// entries of its target, and of those that the response names, are dropped.
    async fn changing(
        &self,
        method: Method,
        target: &Target,
        wanted: &Wanted,
        body: Body,
    ) -> Answer {
        let safe = method.is_safe();
        let answer = self.pass(method, wanted, body, "method").await?;
        let changed = !safe && !answer.status().is_client_error();
        if changed && !answer.status().is_server_error() {
            let key = |uri| primary_key(&self.site.domain, &target.host, &uri);
            let named: Vec<_> = target.also_changed(answer.headers()).map(key).collect();
            for key in named.iter().chain([&wanted.key]) {
                self.shared.flights.revoke(key);
                self.shared.content.forget(key).await;
            }
            self.shared.stats.invalidations.count();
        }
        Ok(answer)
    }

    /// The target of a request for this connection's site.
    fn target(&self, request: &request::Parts) -> Result<Target, Box<Response<Body>>> {
        let target = Target::of(&request.method, &request.uri, &request.headers);
        let target = target.map_err(|why| {
            let status = match why {
                BadTarget::Scheme => StatusCode::MISDIRECTED_REQUEST,
                _ => StatusCode::BAD_REQUEST,
            };
            refuse(status, &why.to_string())
        })?;
        let own_port = self.shared.port;
        let is_here = target.port.is_none_or(|port| port == own_port);
        if !is_here || !self.shared.serves(&self.site, &target.host) {
            self.shared.stats.misdirected.count();
            let (domain, Target { host, port, .. }) = (&self.site.domain, &target);
            let port = port.map_or_else(String::new, |port| format!(":{port}"));
            let why = format!(
                "this connection is for {domain}, port 443 or {own_port}: use another one for {host}{port}"
            );
            return Err(refuse(StatusCode::MISDIRECTED_REQUEST, &why));
        }
        Ok(target)
    }

    async fn cached(&self, method: &Method, mut wanted: Wanted, began: Instant) -> Answer {
        let stats = &self.shared.stats;
        let Ok(stored) = self.stored(&mut wanted).await else {
            stats.uncopied.count();
            return self.uncopied(method, &wanted).await;
        };
        match stored.as_ref().map(|entry| entry.release(&wanted.receiver, Ground::Stored, now())) {
            Some(Ok(released)) => {
                stats.hits.count();
                time(&stats.hit_latency, began);
                if !released.refresh {
                    return Ok(respond(released, "hit"));
                }
                stats.hits_stale.count();
                // Other clients' responses must not be fetched with one client's credentials.
                if !wanted.receiver.is_personal() {
                    drop(flights::join(&self.shared, &self.site, wanted, stored));
                }
                return Ok(respond(released, "hit; detail=stale-while-revalidate"));
            }
            Some(Err(_)) => stats.revalidations.count(),
            None => stats.misses.count(),
        }
        if wanted.receiver.only_if_cached() {
            return Err(refuse(StatusCode::GATEWAY_TIMEOUT, "only-if-cached: no stored response"));
        }
        let marked = self.shared.marks.is_marked(&wanted.key, now());
        // Its response is for this client only, or a complete one would be fetched in vain.
        let whole_is_vain = method == Method::HEAD || marked && wanted.receiver.is_partial();
        if wanted.receiver.is_personal() || stored.is_none() && whole_is_vain {
            return self.pass(method.clone(), &wanted, full(Bytes::new()), "bypass").await;
        }
        self.fetched(wanted, stored, marked).await
    }

    /// Looks up the stored entry for a request; whether the request may be answered with it is not
    /// checked here.
    async fn stored(&self, wanted: &mut Wanted) -> Result<Option<Arc<Entry>>, NoRoom> {
        let Shared { content, room, .. } = &*self.shared;
        let mut found = content.lookup(&wanted.key, room, now()).await?;
        if let Some(Record::Variants { names, generation }) = found {
            let selecting = Selecting::from_names(names, &wanted.receiver);
            let key = secondary_key(&wanted.key, generation, &selecting);
            found = content.lookup(&key, room, now()).await?;
            wanted.variant = Some(key);
        }
        Ok(match found {
            Some(Record::Entry(entry)) if entry.answers(&wanted.receiver) => Some(Arc::new(entry)),
            _ => None,
        })
    }

    /// The response of the origin, if there is no memory for a copy of the stored one.
    async fn uncopied(&self, method: &Method, wanted: &Wanted) -> Answer {
        if wanted.receiver.only_if_cached() {
            return Err(refuse(
                StatusCode::GATEWAY_TIMEOUT,
                "only-if-cached: no memory to serve the stored response",
            ));
        }
        let reason = "bypass; detail=no-memory";
        self.pass(method.clone(), wanted, full(Bytes::new()), reason).await
    }

    /// The answer of a fetch, this client's own or one it waits for.
    async fn fetched(&self, wanted: Wanted, stored: Option<Arc<Entry>>, marked: bool) -> Answer {
        let (shared, site) = (&self.shared, &self.site);
        let reason = if stored.is_some() { "stale" } else { "miss" };
        let place = match marked {
            true => Place::Own(flights::alone(shared, site, wanted.clone(), stored.clone())),
            false => flights::join(shared, site, wanted.clone(), stored.clone()),
        };
        let own = match place {
            Place::Own(own) => own,
            Place::Behind(told) => match self.waited(&wanted.receiver, told, reason).await {
                Ok(answer) => return answer,
                // Not for this client: the origin is asked on its behalf.
                Err(news) => flights::alone(shared, site, wanted.clone(), news.or(stored)),
            },
        };
        match own.await {
            Ok(Own::Response(response)) => Ok(finish(response, &format!("fwd={reason}"))),
            Ok(Own::Entry { entry, how, cookies }) => {
                if how == How::CoversError {
                    self.shared.stats.errors_covered.count();
                }
                let (ground, how) = (how.ground(), how.cache_status(reason));
                let Ok(mut released) = entry.release(&wanted.receiver, ground, now()) else {
                    return Err(no_answer(StatusCode::BAD_GATEWAY));
                };
                released.headers.extend(cookies.into_iter().map(|line| (header::SET_COOKIE, line)));
                Ok(respond(released, &how))
            }
            Ok(Own::Failed(status)) => Err(no_answer(status)),
            // The fetch panicked; its message is in the log.
            Err(_) => Err(no_answer(StatusCode::BAD_GATEWAY)),
        }
    }

    /// Returns the response for a request that waited for another request's fetch; or, if the
    /// origin must be asked, the entry that the origin may confirm for this client.
    async fn waited(
        &self,
        receiver: &Receiver,
        mut told: watch::Receiver<Option<Outcome>>,
        reason: &str,
    ) -> Result<Answer, Option<Arc<Entry>>> {
        let outcome = match told.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Outcome::NotShared),
            Err(_) => Outcome::Failed(None, Some(StatusCode::BAD_GATEWAY)),
        };
        match outcome.to_waiting(receiver, now()) {
            Waited::Shared(released) => {
                Ok(Ok(respond(released, &format!("fwd={reason}; stored; collapsed"))))
            }
            Waited::Covered(released) => {
                self.shared.stats.errors_covered.count();
                Ok(Ok(respond(released, &How::CoversError.cache_status(reason))))
            }
            Waited::Refused(status) => Ok(Err(no_answer(status))),
            Waited::Asks(news) => Err(news),
        }
    }

    /// Forwards a request to the origin unchanged, and its answer to the client.
    async fn pass(&self, method: Method, wanted: &Wanted, body: Body, reason: &str) -> Answer {
        self.shared.stats.passed.count();
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = wanted.target.clone();
        *request.headers_mut() = wanted.receiver.headers().clone();
        match self.shared.ask(&self.site.origin, request).await {
            Ok(response) => {
                let response = response.map(passing);
                Ok(finish(response, &format!("fwd={reason}")))
            }
            Err(failure) => {
                if let Failure::Upload(status, _) = failure {
                    return Err(refuse(status, &failure.to_string()));
                }
                seldom!(self.site.origin.told, Origin => warn, "{failure}");
                self.shared.stats.origin_failures.count();
                Err(no_answer(failure.status()))
            }
        }
    }
}

/// Memory of the headers of a request: their bytes and the parsed form.
fn kept_of_head(head: &request::Parts) -> usize {
    let of_header = |(name, value): (&HeaderName, &HeaderValue)| {
        name.as_str().len() + value.len() + HEADER_BYTES
    };
    let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    HEAD_COPIES * (target + head.headers.iter().map(of_header).sum::<usize>())
}

/// Memory reserved for a request body on its way to the origin; unread data are counted on arrival.
fn kept_of_body(body: &RequestBody) -> usize {
    let length = body.size_hint().upper().and_then(|length| usize::try_from(length).ok());
    length.unwrap_or(usize::MAX).min(PASSING_BYTES)
}

/// A response released for a request.
fn respond(released: Released, how: &str) -> Response<Body> {
    content::respond(released, how).map(full)
}

fn no_answer(status: StatusCode) -> Box<Response<Body>> {
    refuse(status, "the origin does not answer")
}

fn refuse(status: StatusCode, why: &str) -> Box<Response<Body>> {
    Box::new(content::refuse(status, why).map(full))
}
