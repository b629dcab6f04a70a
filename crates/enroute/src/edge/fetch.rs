//! Asking the origin, once for all who want the same (request coalescing).
//!
//! A fetch runs as a task of its own: a client that goes away ends it for nobody else. Only what
//! may be stored is shared; an answer that may not is the asking client's alone, and the others ask
//! for themselves.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use content::{Entry, Record, for_the_origin, secondary_key};
use http::{HeaderMap, Method, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper::{
    Request, Response,
    body::{Body as _, Bytes, Incoming},
};
use parking_lot::Mutex;
use tokio::{
    sync::{oneshot, watch},
    time::{error::Elapsed, timeout},
};
use tracing::{debug, info};

use super::{
    Shared, Site,
    body::{Body, Resumed, full, passing},
    now,
    origin::Failure,
};

/// For how long a target whose answer was not stored is handed to the origin without waiting for
/// others' answers.
const PASS_FOR: Duration = Duration::from_secs(10);

/// What a client asks, as far as the origin must know.
#[derive(Clone)]
pub(super) struct Wanted {
    /// Path and query.
    pub(super) target: Uri,
    /// Headers as they came, with those of a proxy added.
    pub(super) headers: HeaderMap,
    /// Its primary key.
    pub(super) key: Vec<u8>,
    /// The key of the variant it wants, where the target is known to have some.
    pub(super) variant: Option<Vec<u8>>,
}

/// What came of asking the origin, for everybody who waits.
#[derive(Clone)]
pub(super) enum Outcome {
    /// A response that may be shared.
    Shared(Arc<Entry>, How),
    /// The answer may not be shared.
    Alone,
    /// There is no answer, and nothing stored that covers for it.
    Failed(StatusCode),
}

/// How a shared response came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// The origin sent it.
    Fetched,
    /// The origin said that what was stored is still right.
    NotModified,
    /// The origin failed, and what was stored may be used (stale-if-error).
    CoversError,
}

/// Fetches under way.
#[derive(Default)]
pub(super) struct Flights(Mutex<HashMap<Vec<u8>, Flight>>);

struct Flight {
    told: watch::Receiver<Option<Outcome>>,
    primary: Vec<u8>,
    /// The target was changed since: what comes may be of before, and is not stored.
    revoked: Arc<AtomicBool>,
}

impl Flights {
    /// Lets no fetch of this target that is under way fill anything, nor answer who comes from now
    /// on.
    pub(super) fn revoke(&self, primary: &[u8]) {
        self.0.lock().retain(|_, flight| {
            let other = flight.primary != primary;
            flight.revoked.fetch_or(!other, SeqCst);
            other
        });
    }
}

/// A place in a fetch.
pub(super) enum Place {
    /// The first: an answer that may not be shared is this client's.
    First(oneshot::Receiver<Response<Body>>, watch::Receiver<Option<Outcome>>),
    /// Another one asked already.
    Behind(watch::Receiver<Option<Outcome>>),
}

/// Joins the fetch of `wanted`, or begins it; `stored` is what may turn out to be still right.
pub(super) fn join(
    shared: &Arc<Shared>,
    site: &Arc<Site>,
    wanted: Wanted,
    stored: Option<Entry>,
) -> Place {
    let key = wanted.variant.clone().unwrap_or_else(|| wanted.key.clone());
    let mut flights = shared.flights.0.lock();
    if let Some(flight) = flights.get(&key) {
        shared.stats.coalesced.count();
        return Place::Behind(flight.told.clone());
    }
    let (tell, told) = watch::channel(None);
    let revoked = Arc::new(AtomicBool::new(false));
    let primary = wanted.key.clone();
    let flight = Flight { told: told.clone(), primary, revoked: Arc::clone(&revoked) };
    flights.insert(key.clone(), flight);
    drop(flights);
    let (hand_over, handed) = oneshot::channel();
    let (shared, site) = (Arc::clone(shared), Arc::clone(site));
    tokio::spawn(async move {
        let landing = Landing { shared: &shared, key, revoked };
        let outcome = landing.fetch(&site, &wanted, stored, hand_over).await;
        // Whoever comes from here on finds what was stored, or begins a new fetch.
        drop(landing);
        tell.send_replace(Some(outcome));
    });
    Place::First(handed, told)
}

/// A fetch under way, from its own side; it leaves the list however it ends.
struct Landing<'a> {
    shared: &'a Shared,
    key: Vec<u8>,
    revoked: Arc<AtomicBool>,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        let mut flights = self.shared.flights.0.lock();
        let listed = flights.get(&self.key);
        if listed.is_some_and(|flight| Arc::ptr_eq(&flight.revoked, &self.revoked)) {
            flights.remove(&self.key);
        }
    }
}

impl Landing<'_> {
    async fn fetch(
        &self,
        site: &Site,
        wanted: &Wanted,
        stored: Option<Entry>,
        hand_over: oneshot::Sender<Response<Body>>,
    ) -> Outcome {
        let (shared, asked) = (self.shared, now());
        let validated = stored.as_ref().filter(|entry| entry.has_validator());
        let headers = for_the_origin(&wanted.headers, validated.map(|entry| &entry.headers));
        let mut request = Request::new(full(Bytes::new()));
        (*request.method_mut(), *request.headers_mut()) = (Method::GET, headers);
        *request.uri_mut() = wanted.target.clone();
        let answer = site.origin.ask(request).await;
        let covers = |entry: &Entry| entry.covers_an_error(&wanted.headers, now());
        let failed = match &answer {
            Ok(answer) => is_failure(answer.status()),
            Err(_) => true,
        };
        match (answer, stored) {
            (answer, Some(entry)) if failed && covers(&entry) => {
                let why = answer.map_or_else(|error| error.to_string(), |a| a.status().to_string());
                info!("{} is answered from storage, the origin failed: {why}", wanted.target);
                shared.stats.origin_failures.count();
                Outcome::Shared(Arc::new(entry), How::CoversError)
            }
            (Err(failure), _) => no_answer(shared, &failure),
            (Ok(answer), Some(entry)) if answer.status() == StatusCode::NOT_MODIFIED => {
                shared.stats.not_modified.count();
                let entry = entry.refreshed(answer.headers(), asked, now());
                if !entry.is_storable() {
                    pass(shared, wanted).await;
                    return Outcome::Alone;
                }
                self.keep(wanted, &entry).await;
                Outcome::Shared(Arc::new(entry), How::NotModified)
            }
            (Ok(answer), _) => self.admit(site, wanted, answer, asked, hand_over).await,
        }
    }

    /// Stores an answer, or hands it to the one client it is for.
    async fn admit(
        &self,
        site: &Site,
        wanted: &Wanted,
        answer: Response<Incoming>,
        asked: Duration,
        hand_over: oneshot::Sender<Response<Body>>,
    ) -> Outcome {
        let shared = self.shared;
        let (head, body) = answer.into_parts();
        let admitted = Entry::admit(&wanted.headers, head.status, &head.headers, asked, now());
        let too_long = body.size_hint().lower() > site.body_bytes_max as u64;
        let why_not = match (admitted, too_long) {
            (Ok(entry), false) => {
                let read = timeout(shared.limits.origin_timeout, read(body, site.body_bytes_max));
                return self.fill(wanted, entry, head, read.await, hand_over).await;
            }
            (Ok(_), true) => format!("longer than {} bytes", site.body_bytes_max),
            (Err(why), _) => why.to_string(),
        };
        debug!("{} is not stored: {why_not}", wanted.target);
        if !head.status.is_server_error() {
            pass(shared, wanted).await;
        }
        let _ = hand_over.send(Response::from_parts(head, passing(body)));
        Outcome::Alone
    }

    /// Stores an answer whose body has come, or hands it over if that is too long.
    async fn fill(
        &self,
        wanted: &Wanted,
        mut entry: Entry,
        head: http::response::Parts,
        body: Result<hyper::Result<Read>, Elapsed>,
        hand_over: oneshot::Sender<Response<Body>>,
    ) -> Outcome {
        let shared = self.shared;
        let status = match body {
            Ok(Ok(Read::Whole(bytes))) => {
                entry.body = bytes;
                self.keep(wanted, &entry).await;
                shared.stats.fills.count();
                return Outcome::Shared(Arc::new(entry), How::Fetched);
            }
            Ok(Ok(Read::TooLong(body))) => {
                pass(shared, wanted).await;
                let _ = hand_over.send(Response::from_parts(head, passing(body)));
                return Outcome::Alone;
            }
            Ok(Err(_)) => StatusCode::BAD_GATEWAY,
            Err(_) => StatusCode::GATEWAY_TIMEOUT,
        };
        info!("{} is not answered: its body broke off", wanted.target);
        shared.stats.origin_failures.count();
        Outcome::Failed(status)
    }

    /// Stores `entry` under the keys it is found by.
    async fn keep(&self, wanted: &Wanted, entry: &Entry) {
        let (now, content) = (now(), &self.shared.content);
        if self.revoked.load(SeqCst) {
            return;
        }
        let kept_for = entry.useful_for(now);
        let names: Vec<_> = entry.selecting.names().cloned().collect();
        let record = Record::Entry(entry.clone());
        if names.is_empty() {
            content.store(&wanted.key, &record, kept_for, now).await;
        } else {
            let generation = match content.lookup(&wanted.key, now).await {
                Some(Record::Variants { names: known, generation }) if known == names => generation,
                _ => now.as_micros() as u64,
            };
            let key = secondary_key(&wanted.key, generation, &entry.selecting);
            content.store(&key, &record, kept_for, now).await;
            let variants = Record::Variants { names, generation };
            content.store(&wanted.key, &variants, kept_for, now).await;
        }
        // The change may have come between the look and the store.
        if self.revoked.load(SeqCst) {
            content.forget(&wanted.key).await;
        }
    }
}

fn no_answer(shared: &Shared, failure: &Failure) -> Outcome {
    info!("{failure}");
    shared.stats.origin_failures.count();
    Outcome::Failed(match failure {
        Failure::TimedOut(..) => StatusCode::GATEWAY_TIMEOUT,
        Failure::Unreachable(..) => StatusCode::BAD_GATEWAY,
    })
}

/// RFC 5861 §4: what counts as an error.
fn is_failure(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}

/// A body, or what was read of it before it was found too long.
enum Read {
    Whole(Bytes),
    TooLong(Resumed),
}

async fn read(mut body: Incoming, limit: usize) -> hyper::Result<Read> {
    let mut bytes = Vec::with_capacity(body.size_hint().lower() as usize);
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            bytes.extend(data);
        }
        if bytes.len() > limit {
            return Ok(Read::TooLong(Resumed { read: Some(bytes.into()), rest: body }));
        }
    }
    Ok(Read::Whole(bytes.into()))
}

/// Remembers that waiting for others' answers is in vain here.
async fn pass(shared: &Shared, wanted: &Wanted) {
    // With credentials it may be only this client's answer that is not stored.
    if !wanted.headers.contains_key(header::AUTHORIZATION) {
        shared.content.store(&wanted.key, &Record::Pass, PASS_FOR, now()).await;
    }
}
