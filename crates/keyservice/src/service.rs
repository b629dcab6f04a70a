//! One request from its bytes to the bytes of its answer: parsed, authorized, executed, logged.
//! Every failure is a refusal.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use endpoint::{Told, seldom};
use keyserver::{
    Keyring, Policy, SigningKey,
    audit::Entry,
    cache::{self, Cache},
    policy::{Rates, check_server_name},
    record,
};
use parking_lot::{Mutex, RwLock};
use platform::{slow_lane::Lane, wall_clock};
use tokio::sync::Semaphore;
use tracing::debug;
use wire::{
    resp::Reply,
    ski::{self, KeyId, Refusal, Request},
};
use zeroize::Zeroizing;

use super::{audit::Log, database::Database, report::Times};

/// Records longer than this hold RSA keys, which take long to parse.
const QUICK_RECORD_BYTES_MAX: usize = 640;

/// Number of signatures that a thread makes before it sends their answers. Without a limit the
/// first of many would wait for the last; one at a time, each would cost its own system calls.
const TURNS: usize = 32;

/// State shared by the connections of one thread.
pub struct Worker {
    database: Database,
    /// A permit is held from before the signature until the answer is made.
    turns: Semaphore,
}

impl Worker {
    /// A worker that asks this database.
    pub fn new(database: Database) -> Self {
        Self { database, turns: Semaphore::new(TURNS) }
    }
}

/// State shared by all connections.
pub struct Service {
    began: Instant,
    rules: RwLock<Arc<Rules>>,
    rates: Mutex<Rates>,
    cache: Arc<Mutex<Cache>>,
    lane: Lane,
    log: Log,
    told: Told,
    times: Times,
}

/// Settings that may change while serving.
struct Rules {
    policy: Policy,
    keyring: Keyring,
    /// Number of replacements. A key is cached only under the rules it was fetched under.
    generation: u64,
}

/// Reason of a failure: for the edge, and for the audit log.
struct Failure {
    refusal: Refusal,
    reason: String,
}

impl Failure {
    fn new(refusal: Refusal, reason: &dyn fmt::Display) -> Self {
        Self { refusal, reason: reason.to_string() }
    }
}

impl Service {
    /// Everything a service needs.
    pub fn new(
        policy: Policy,
        keyring: Keyring,
        keys: &cache::Config,
        lane: Lane,
        log: Log,
    ) -> Self {
        Self {
            began: Instant::now(),
            rates: Mutex::new(Rates::new(policy.edges.len())),
            rules: RwLock::new(Arc::new(Rules { policy, keyring, generation: 0 })),
            cache: Arc::new(Mutex::new(Cache::new(keys))),
            lane,
            log,
            told: Told::default(),
            times: Times::default(),
        }
    }

    /// Replaces the policy and the key-encryption keys. Parsed keys are dropped and fetched again,
    /// so that changes in the database take effect too.
    pub fn replace(&self, policy: Policy, keyring: Keyring) {
        *self.rates.lock() = Rates::new(policy.edges.len());
        let generation = {
            let mut rules = self.rules.write();
            let generation = rules.generation + 1;
            *rules = Arc::new(Rules { policy, keyring, generation });
            generation
        };
        self.cache.lock().clear(generation);
    }

    /// The audit log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Time since it was made.
    pub(super) fn uptime(&self) -> Duration {
        self.began.elapsed()
    }

    /// Latencies of requests.
    pub(super) fn times(&self) -> &Times {
        &self.times
    }

    /// Counters of the cache of parsed keys, and its number of keys.
    pub fn cache_stats(&self) -> (cache::Stats, usize) {
        let cache = self.cache.lock();
        (cache.stats(), cache.len())
    }

    /// Answers the body of a request of `edge`.
    pub async fn answer(&self, edge: &str, body: &[u8], worker: &Worker) -> Vec<u8> {
        let began = Instant::now();
        let request = ski::request::decode(body);
        let allowed = match &request {
            Ok(request) => {
                let key = self.admit(edge, request, &worker.database).await;
                key.map(|key| (request, key))
            }
            Err(error) => Err(Failure::new(Refusal::Malformed, error)),
        };
        let is_slow = allowed.as_ref().is_ok_and(|(_, key)| !key.is_quick());
        // Never closed, so a permit is always obtained.
        let turn = if is_slow { None } else { worker.turns.acquire().await.ok() };
        let outcome = match allowed {
            Ok((request, key)) => self.perform(&key, request).await,
            Err(failure) => Err(failure),
        };
        let reason = match &outcome {
            Ok(_) => "done",
            Err(failure) => {
                debug!(edge, "{}: {}", failure.refusal, failure.reason);
                &failure.reason
            }
        };
        let outcome = match self.note(edge, request.as_ref().ok(), reason).await {
            Ok(()) => outcome.as_ref().map(|output| &output[..]).map_err(|failure| failure.refusal),
            Err(error) => {
                seldom!(self.told, Audit => error,
                    "cannot write the audit log {}, all requests are denied: {error}; free some \
                     space, or move the file to another file system and send SIGHUP",
                    self.log.path().display());
                Err(Refusal::Denied)
            }
        };
        drop(turn);
        let done = request.ok().filter(|_| outcome.is_ok());
        self.times.note(done.map(|request| request.operation.method()), began);
        ski::response::encode(outcome)
    }

    /// The key of a request that is allowed.
    async fn admit(
        &self,
        edge: &str,
        request: &Request,
        database: &Database,
    ) -> Result<Arc<SigningKey>, Failure> {
        let rules = Arc::clone(&self.rules.read());
        let denied = |denial| Failure::new(Refusal::Denied, &denial);
        let now = self.began.elapsed();
        rules.policy.admit(edge, request, &mut self.rates.lock(), now).map_err(denied)?;
        let key = self.key(request.key, &rules, database).await?;
        check_server_name(&key, request).map_err(denied)?;
        Ok(key)
    }

    async fn perform(
        &self,
        key: &Arc<SigningKey>,
        request: &Request,
    ) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let refused = |refusal: Refusal| Failure::new(refusal, &format_args!("{key:?}: {refusal}"));
        if key.is_quick() {
            return key.perform(&request.operation).map_err(refused);
        }
        let (own, operation) = (Arc::clone(key), request.operation.clone());
        match self.lane.run(move || own.perform(&operation)).await {
            Some(outcome) => outcome.map_err(refused),
            None => Err(Failure::new(Refusal::Unspecified, &"too many slow operations are queued")),
        }
    }

    async fn key(
        &self,
        id: KeyId,
        rules: &Arc<Rules>,
        database: &Database,
    ) -> Result<Arc<SigningKey>, Failure> {
        if let Some(key) = self.cache.lock().find(id) {
            return Ok(key);
        }
        // Boxed: the state of a request is copied when its task starts, and few must fetch.
        Box::pin(self.fetch(id, rules, database)).await
    }

    /// The key from the database.
    async fn fetch(
        &self,
        id: KeyId,
        rules: &Arc<Rules>,
        database: &Database,
    ) -> Result<Arc<SigningKey>, Failure> {
        let record = match database.ask(&[b"GET", record::name(id).as_bytes()]).await {
            Ok(Reply::Bytes(record)) => record,
            Ok(Reply::Null) => return Err(Failure::new(Refusal::NotFound, &"no such key")),
            Ok(_) => {
                return Err(Failure::new(
                    Refusal::Unspecified,
                    &"unexpected reply of the database",
                ));
            }
            Err(error) => {
                seldom!(self.told, Database => warn,
                    "cannot fetch a key from the database: {error:#}");
                return Err(Failure::new(Refusal::Unspecified, &"the database does not reply"));
            }
        };
        let opened = if record.len() <= QUICK_RECORD_BYTES_MAX {
            Some(open(id, &record, rules, &self.cache))
        } else {
            let (rules, cache) = (Arc::clone(rules), Arc::clone(&self.cache));
            self.lane.run(move || open(id, &record, &rules, &cache)).await
        };
        match opened {
            Some(Ok(key)) => Ok(key),
            Some(Err(error)) => {
                seldom!(self.told, Record => error, "{error}");
                Err(Failure::new(Refusal::Unspecified, &error))
            }
            None => Err(Failure::new(Refusal::Unspecified, &"too many slow operations are queued")),
        }
    }

    async fn note(
        &self,
        edge: &str,
        request: Option<&Request>,
        outcome: &str,
    ) -> std::io::Result<()> {
        let entry = Entry {
            at: wall_clock::now(),
            edge,
            method: request.map(|request| request.operation.method().name()),
            key: request.map(|request| request.key),
            server_name: request.and_then(|request| request.server_name.as_deref()),
            outcome,
        };
        self.log.append(&entry).await
    }
}

/// Opens a record and keeps the key, unless another request that waited for the same has done so.
fn open(
    id: KeyId,
    record: &[u8],
    rules: &Rules,
    cache: &Mutex<Cache>,
) -> keyserver::Result<Arc<SigningKey>> {
    if let Some(key) = cache.lock().find_again(id) {
        return Ok(key);
    }
    let key = Arc::new(record::open(id, record, &rules.keyring)?);
    let left = cache.lock().insert(Arc::clone(&key), rules.generation);
    // Wiped here, where no lock is held.
    drop(left);
    Ok(key)
}
