//! The thread for origins: a watch of each origin, a connection to each origin that reports writes
//! that bypass the cache, and the monitors of origins that move.

use std::{future::poll_fn, io, sync::Arc, time::Duration};

use cache::{
    feed::{Config, Feed, Reporter},
    stats::Stats,
};
use platform::random;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
    task::LocalSet,
};
use tracing::{info, warn};

use super::{
    Handle, Origin, Shared, inbox, monitor,
    reached::Reached,
    watch::{self, Watcher},
};

/// Settings of a feed.
pub(super) struct Source {
    pub(super) reporter: Reporter,
    pub(super) origin: Arc<Origin>,
    pub(super) config: Config,
}

/// Time between two attempts to reach an origin, and after the first refusal.
const RETRY: Duration = Duration::from_millis(250);
/// Longest time between two attempts at an origin that refuses the feed; it doubles up to here.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Bytes read at once.
const READ_BYTES: usize = 16 << 10;

/// Runs every watch, feed and monitor until draining.
pub(super) fn run(
    shared: &Arc<Shared>,
    stats: &Arc<Stats>,
    watches: Vec<(watch::Source, mpsc::UnboundedReceiver<inbox::Wanted>)>,
    sources: Vec<(Source, Feed)>,
    monitors: Vec<monitor::Source>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("cannot start the thread for feeds and origin identity: {error}");
            return;
        }
    };
    let tasks = LocalSet::new();
    for (source, questions) in watches {
        let storage = Handle::new(Arc::clone(&shared.shards), Arc::clone(stats));
        let watcher = Watcher::new(Arc::clone(shared), storage, source, questions);
        tasks.spawn_local(watcher.follow());
    }
    for (source, feed) in sources {
        let storage = Handle::new(Arc::clone(&shared.shards), Arc::clone(stats));
        let shared = Arc::clone(shared);
        tasks.spawn_local(Follower { shared, storage, source, feed, stood: false }.follow());
    }
    for source in monitors {
        let storage = Handle::new(Arc::clone(&shared.shards), Arc::clone(stats));
        tasks.spawn_local(source.follow(Arc::clone(shared), storage));
    }
    tasks.block_on(&runtime, shared.drain.notified());
}

/// A feed, and the storage that it invalidates.
struct Follower {
    shared: Arc<Shared>,
    storage: Handle,
    source: Source,
    feed: Feed,
    /// Whether the feed was established on the present connection.
    stood: bool,
}

impl Follower {
    /// Keeps the feed connected.
    async fn follow(mut self) {
        let mut pause = RETRY;
        let mut told = None;
        loop {
            let reached = match self.source.origin.connect().await {
                Ok(reached) => reached,
                Err(error) => {
                    self.source.origin.report(&error);
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
            };
            self.stood = false;
            let ended = self.listen(reached).await;
            if self.stood {
                (pause, told) = (RETRY, None);
            }
            self.feed.lost(&mut self.storage);
            inbox::deliver(&self.shared.post, self.storage.woken());
            let Err(why) = ended else { continue };
            let why = why.to_string();
            // An origin that refuses the feed does so each time.
            if told.as_ref() != Some(&why) {
                warn!(
                    origin = %self.source.origin,
                    "feed lost, nothing is cached until it is re-established: {why}; retrying after \
                     {RETRY:?}, then at growing intervals of up to {RETRY_MAX:?}"
                );
                told = Some(why);
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(RETRY_MAX);
        }
    }

    /// Reads from the origin until it closes, is silent for too long, or violates the protocol.
    ///
    /// Returns if the origin may close the connection, and does so.
    async fn listen(&mut self, reached: Reached) -> anyhow::Result<()> {
        let (origin, epoch) = (Arc::clone(&self.source.origin), reached.epoch);
        let mut stream = reached.into_duplex();
        let start = self.shared.start;
        let mut buffer = vec![0; READ_BYTES];
        self.feed.connected(u128::from_ne_bytes(random::bytes()), start.elapsed());
        loop {
            let was_open = self.feed.is_open();
            let output = self.feed.output();
            let pending = output.bytes().to_vec();
            output.advance(pending.len());
            stream.write_all(&pending).await?;
            stream.flush().await?;
            let alarm = self.feed.poll_timeout();
            tokio::select! {
                read = stream.read(&mut buffer) => match read? {
                    0 if self.stood && self.feed.may_end() => return Ok(()),
                    0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                    count => {
                        self.feed.receive(&buffer[..count], &mut self.storage, start.elapsed())?;
                    }
                },
                () = poll_fn(|context| self.feed.poll_wanted(context)) => {}
                () = origin.place.moved_from(epoch) => {
                    anyhow::bail!("the origin is another server now");
                }
                () = tokio::time::sleep_until(start + alarm) => {
                    let now = start.elapsed().max(alarm);
                    let judged = self.feed.handle_timeout(&mut self.storage, now);
                    judged.map_err(anyhow::Error::msg)?;
                }
            }
            inbox::deliver(&self.shared.post, self.storage.woken());
            self.tell(was_open);
        }
    }

    /// Logs that the feed is established, or suspended.
    fn tell(&mut self, was_open: bool) {
        let (origin, bound) = (&self.source.origin, self.source.config.silence_max);
        match (was_open, self.feed.is_open()) {
            (false, true) => info!(
                %origin,
                "feed established: the origin reports writes that bypass the cache; one is visible after at \
                 most {bound:?}{}",
                self.feed.caveat()
            ),
            (true, false) => warn!(
                %origin,
                "feed suspended, nothing is cached until it has caught up: the origin has not reported all \
                 writes of {bound:?} ago"
            ),
            _ => {}
        }
        self.stood |= self.feed.is_open();
    }
}
