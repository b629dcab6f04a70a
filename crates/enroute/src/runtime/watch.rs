//! One connection to each origin that detects when it is no longer the server whose replies are
//! stored.
//!
//! A session with a new connection reads nothing from it until the watch has then queried the
//! identity of the origin; the session's request is sent without waiting. If the watch gets no
//! answer in time, the stored entries of the origin are dropped first. So entries are dropped
//! before the first reply of an origin that has lost its data.

use std::{sync::Arc, time::Duration};

use cache::{
    key::{self, Scope},
    storage::Storage,
    watch::{Speaks, Verdict, Watch},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};
use tracing::{error, info, warn};
use wire::detect;

use super::{
    Handle, Origin, Shared,
    inbox::{self, Note, Wanted},
    reached::Reached,
};

/// Interval of periodic identity queries: bounds the detection time of a data loss that closes no
/// connection.
const ASK_INTERVAL: Duration = Duration::from_secs(1);
/// An origin that has not answered for this time counts as lost.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Maximum time that a session waits for the watch; after it the stored entries of the origin are
/// dropped.
const CONFIRM_MAX: Duration = Duration::from_secs(2);
/// The same at an origin that has not answered the watch in any protocol: hardly anything of it is
/// stored.
const UNKNOWN_CONFIRM_MAX: Duration = Duration::from_millis(250);
/// Time between two attempts to reach an origin.
const RETRY: Duration = Duration::from_millis(250);
/// Time between two attempts at an origin that speaks another protocol.
const WRONG_RETRY: Duration = Duration::from_secs(5);
/// Timeout for the first answer of an origin.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(1);
/// Maximum number of sessions that continued without the watch and are notified if the origin
/// speaks another protocol.
const LOOSE_MAX: usize = 1_024;
const READ_BYTES: usize = 16 << 10;

/// Settings of a watch.
#[derive(Clone)]
pub(super) struct Source {
    /// Where clients connect, for the log.
    pub(super) listen: std::net::SocketAddr,
    pub(super) origin: Arc<Origin>,
    /// Identifies the origin in scopes.
    pub(super) scope: u64,
    pub(super) speaks: Speaks,
}

impl Source {
    pub(super) fn scope_of(secret: u64, name: &str) -> u64 {
        key::origin(secret, name)
    }
}

/// State of a running watch.
pub(super) struct Watcher {
    shared: Arc<Shared>,
    storage: Handle,
    source: Source,
    watch: Watch,
    questions: mpsc::UnboundedReceiver<Wanted>,
    /// Sessions that wait for the next query, and for the answer to the current one.
    waiting: Vec<Wanted>,
    asked: Vec<Wanted>,
    /// Time at which the first of them stops waiting.
    patience: Option<Instant>,
    /// Sessions that continued before the first answer.
    loose: Vec<Wanted>,
    /// The origin was asked in other protocols and answered in none.
    unknown: bool,
}

impl Watcher {
    pub(super) fn new(
        shared: Arc<Shared>,
        storage: Handle,
        source: Source,
        questions: mpsc::UnboundedReceiver<Wanted>,
    ) -> Self {
        let watch = Watch::new(source.speaks.clone());
        let (waiting, asked, loose) = (Vec::new(), Vec::new(), Vec::new());
        let (patience, unknown) = (None, false);
        Self { shared, storage, source, watch, questions, waiting, asked, patience, loose, unknown }
    }

    /// Keeps watching until it is dropped.
    pub(super) async fn follow(mut self) {
        loop {
            let pause = match self.attend().await {
                Ok(pause) => pause,
                Err(fault) => {
                    self.is_foreign(&fault);
                    WRONG_RETRY
                }
            };
            self.while_serving_sessions(tokio::time::sleep(pause)).await;
        }
    }

    /// Watches until a connection ends, or none is made. Returns the pause before the next one.
    async fn attend(&mut self) -> Result<Duration, wire::Error> {
        let Some(reached) = self.reach().await? else { return Ok(RETRY) };
        let ended = self.listen(reached).await;
        let answered = self.watch.has_answered();
        self.watch.lost();
        self.waiting.append(&mut self.asked);
        match ended {
            Err(cache::Error::Server(fault @ wire::Error::Foreign { .. })) => Err(fault),
            _ if !self.watch.has_stood() => {
                self.probe(true).await?;
                self.unknown = true;
                Ok(RETRY)
            }
            // The next connection is made at once, because sessions may have made new ones.
            _ if answered => Ok(Duration::ZERO),
            _ => Ok(RETRY),
        }
    }

    /// Connects. An origin whose first handshake fails, or is late, may not speak TLS at all.
    async fn reach(&mut self) -> Result<Option<Reached>, wire::Error> {
        let origin = Arc::clone(&self.source.origin);
        let mut reaching = std::pin::pin!(origin.reach());
        if origin.tls().is_some() && !self.watch.has_stood() {
            let first = timeout(FIRST_ANSWER_MAX, &mut reaching);
            let first = self.while_serving_sessions(first).await;
            if let Ok(Ok(reached)) = first {
                return Ok(Some(reached));
            }
            self.probe(false).await?;
            if first.is_ok() {
                return Ok(None);
            }
        }
        Ok(self.while_serving_sessions(reaching).await.ok())
    }

    /// Waits for `event`. Sessions that have waited for an answer too long continue without it.
    async fn while_serving_sessions<T>(&mut self, event: impl Future<Output = T>) -> T {
        let mut event = std::pin::pin!(event);
        loop {
            let patience = self.patience;
            tokio::select! {
                happened = &mut event => return happened,
                Some(wanted) = self.questions.recv() => self.enqueue(wanted),
                () = until(patience) => self.let_go(),
            }
        }
    }

    /// Sends queries and reads answers until the connection ends.
    async fn listen(&mut self, reached: Reached) -> Result<(), cache::Error> {
        let (origin, epoch) = (Arc::clone(&self.source.origin), reached.epoch);
        let mut stream = reached.into_duplex();
        let mut buffer = vec![0; READ_BYTES];
        let mut asks_at = Instant::now();
        let mut asked_at = None;
        loop {
            if asked_at.is_none() && (!self.waiting.is_empty() || Instant::now() >= asks_at) {
                let mut question = Vec::new();
                self.watch.ask(&mut question);
                self.asked = std::mem::take(&mut self.waiting);
                asked_at = Some(Instant::now());
                if stream.write_all(&question).await.and(stream.flush().await).is_err() {
                    return Ok(());
                }
            }
            let silence = if self.watch.has_stood() { SILENCE_MAX } else { FIRST_ANSWER_MAX };
            let alarm = asked_at.map_or(asks_at, |at| at + silence);
            let patience = self.patience;
            tokio::select! {
                read = stream.read(&mut buffer) => match read {
                    Ok(0) | Err(_) => return Ok(()),
                    Ok(count) => {
                        if let Some(verdict) = self.watch.receive(&buffer[..count])? {
                            self.answered(verdict);
                            asked_at = None;
                            asks_at = Instant::now() + ASK_INTERVAL;
                        }
                    }
                },
                Some(wanted) = self.questions.recv() => self.enqueue(wanted),
                () = until(patience) => self.let_go(),
                () = origin.place.moved_from(epoch) => return Ok(()),
                () = sleep_until(alarm) => if asked_at.is_some() { return Ok(()) },
            }
        }
    }

    fn enqueue(&mut self, wanted: Wanted) {
        // An error of a connection that was made before the fault was known.
        if let Some(why) = self.source.origin.fault() {
            let refused = Err(std::io::Error::other(why));
            return self.tell(wanted, Note::Connected(wanted, refused));
        }
        let longest = if self.unknown { UNKNOWN_CONFIRM_MAX } else { CONFIRM_MAX };
        self.waiting.push(wanted);
        self.patience.get_or_insert_with(|| Instant::now() + longest);
    }

    /// The origin has reported its identity.
    fn answered(&mut self, verdict: Verdict) {
        if self.source.origin.set_fault(None) {
            info!(origin = %self.source.origin, "the origin now speaks the expected protocol");
        }
        self.unknown = false;
        // Sessions that continued before the first answer may have stored replies of an earlier
        // process.
        let loose = !std::mem::take(&mut self.loose).is_empty();
        if verdict == Verdict::Changed {
            warn!(
                origin = %self.source.origin,
                "the identity of the origin has changed (restart, failover or restored data): all its entries are \
                 dropped"
            );
        }
        if verdict == Verdict::Changed || loose {
            self.drop_stored();
        }
        for wanted in std::mem::take(&mut self.asked) {
            self.tell(wanted, Note::Confirmed(wanted));
        }
        self.patience = (!self.waiting.is_empty()).then(|| Instant::now() + CONFIRM_MAX);
    }

    /// The identity of the origin is not known in time: its entries are dropped.
    fn let_go(&mut self) {
        self.patience = None;
        self.drop_stored();
        let waiting: Vec<_> = self.asked.drain(..).chain(self.waiting.drain(..)).collect();
        for wanted in waiting {
            if !self.watch.has_stood() && self.loose.len() < LOOSE_MAX {
                self.loose.push(wanted);
            }
            self.tell(wanted, Note::Confirmed(wanted));
        }
    }

    fn drop_stored(&mut self) {
        self.storage.written_elsewhere(Scope::Origin(self.source.scope));
        inbox::deliver(&self.shared.post, self.storage.woken());
    }

    /// The origin speaks another protocol: logs that and notifies waiting sessions.
    fn is_foreign(&mut self, fault: &wire::Error) {
        let origin = &self.source.origin;
        let why = format!("the origin {origin} speaks another protocol: {fault}");
        if origin.set_fault(Some(why.clone())) {
            error!(listen = %self.source.listen, %origin, "{why}");
        }
        self.patience = None;
        let waiting =
            self.waiting.drain(..).chain(self.asked.drain(..)).chain(self.loose.drain(..));
        for wanted in waiting.collect::<Vec<_>>() {
            let refused = Err(std::io::Error::other(why.clone()));
            self.tell(wanted, Note::Connected(wanted, refused));
        }
    }

    /// Queries an origin that has never answered in other protocols. `reached`: a connection to it
    /// was made, with its handshake if it has one.
    async fn probe(&mut self, reached: bool) -> Result<(), wire::Error> {
        let origin = &self.source.origin;
        let (expected, questions) = self.watch.speaks().probes(origin.tls().is_some(), reached);
        for question in questions {
            let origin = Arc::clone(&self.source.origin);
            let answer = async move {
                let mut stream = match reached {
                    true => origin.reach().await.ok()?.into_duplex(),
                    false => Box::new(origin.reach_without_tls().await.ok()?),
                };
                stream.write_all(&question).await.ok()?;
                stream.flush().await.ok()?;
                let mut said = vec![0; READ_BYTES];
                let count = stream.read(&mut said).await.ok()?;
                said.truncate(count);
                Some(said)
            };
            let answer = self.while_serving_sessions(timeout(FIRST_ANSWER_MAX, answer)).await;
            if let Ok(Some(said)) = answer
                && let Some(found) = detect::server(expected, &said)
            {
                return Err(detect::foreign(expected, found, &said));
            }
        }
        Ok(())
    }

    fn tell(&self, wanted: Wanted, note: Note) {
        self.shared.post.inbox(inbox::worker_of(wanted.ticket)).send(note);
    }
}

/// At its end no session is left waiting.
impl Drop for Watcher {
    fn drop(&mut self) {
        while let Ok(wanted) = self.questions.try_recv() {
            self.waiting.push(wanted);
        }
        self.let_go();
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
