//! The thread for origins: a watch of each origin, and a connection to each origin that reports
//! writes that bypass the cache.

use std::{io, sync::Arc, time::Duration};

use cache::{
    feed::{Config, Feed},
    filter::resp::Settings,
    lease::Ticket,
    stats::Stats,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
    task::LocalSet,
};
use tracing::{info, warn};

use super::{
    Handle, Origin, Shared, inbox,
    reached::Duplex,
    watch::{self, Watcher},
};

/// Settings of a feed.
pub(super) struct Source {
    pub(super) settings: Arc<Settings>,
    pub(super) origin: Arc<Origin>,
    pub(super) config: Config,
}

/// Time between two attempts to reach an origin, and after the first refusal.
const RETRY: Duration = Duration::from_millis(250);
/// Longest time between two attempts at an origin that refuses the feed; it doubles up to here.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Bytes read at once.
const READ_BYTES: usize = 16 << 10;

/// Runs every watch and feed until draining.
pub(super) fn run(
    shared: &Arc<Shared>,
    stats: &Arc<Stats>,
    watches: Vec<(watch::Source, mpsc::UnboundedReceiver<Ticket>)>,
    sources: Vec<(Source, Feed)>,
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
        tasks.spawn_local(follow(Arc::clone(shared), storage, source, feed));
    }
    tasks.block_on(&runtime, async {
        while !shared.is_draining() {
            tokio::time::sleep(super::TICK).await;
        }
    });
}

/// Keeps one feed connected.
async fn follow(shared: Arc<Shared>, mut storage: Handle, source: Source, mut feed: Feed) {
    let mut pause = RETRY;
    let mut told = None;
    loop {
        match source.origin.connect().await {
            Ok(reached) => {
                let stream = reached.into_duplex();
                let ended = listen(&shared, &mut storage, &mut feed, stream).await;
                if feed.is_open() {
                    (pause, told) = (RETRY, None);
                }
                feed.lost(&mut storage);
                inbox::deliver(&shared.post, storage.woken());
                let why = ended.err().map_or_else(String::new, |error| error.to_string());
                // An origin that refuses the feed does so each time.
                if told.as_ref() != Some(&why) {
                    warn!(
                        origin = %source.origin,
                        "feed lost, nothing is cached until it is re-established: {why}; retrying after \
                         {RETRY:?}, then at growing intervals of up to {RETRY_MAX:?}"
                    );
                    told = Some(why);
                }
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(RETRY_MAX);
            }
            Err(error) => {
                source.origin.report(&error);
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Reads from the origin until it closes, is silent for too long, or violates the protocol.
async fn listen(
    shared: &Shared,
    storage: &mut Handle,
    feed: &mut Feed,
    mut stream: Box<dyn Duplex>,
) -> anyhow::Result<()> {
    let now = || shared.start.elapsed();
    let mut buffer = vec![0; READ_BYTES];
    feed.connected(now());
    loop {
        let stood = feed.is_open();
        let output = feed.output();
        let pending = output.bytes().to_vec();
        output.advance(pending.len());
        stream.write_all(&pending).await?;
        stream.flush().await?;
        tokio::select! {
            read = stream.read(&mut buffer) => match read? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                count => feed.receive(&buffer[..count], storage, now())?,
            },
            () = tokio::time::sleep_until(shared.start + feed.poll_timeout()) => {
                anyhow::ensure!(feed.handle_timeout(now().max(feed.poll_timeout())), "no reply on the feed connection");
            }
        }
        inbox::deliver(&shared.post, storage.woken());
        if feed.is_open() && !stood {
            info!("feed established: the origin reports writes that bypass the cache");
        }
    }
}
