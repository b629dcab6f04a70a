//! The shards, each with a lock and a directory.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, bail};
use db::{Shard, keyspace::Shards};
use platform::{directory::Directory, random};
use store::{
    FileDevice,
    device::FileName,
    elastic::{Config, Elastic, Listing, shard_name},
};

use crate::directory;

/// Number of shards of a new database: few, because with `--sync always` each shard syncs on its
/// own; enough that two workers rarely need the same lock.
pub(crate) const SHARDS_NEW: usize = 4;

/// All shards.
///
/// They use locks of the standard library, which sleep until released. `parking_lot` calls
/// `sched_yield` first, after which the kernel may run every other thread for its slice of 3 ms.
pub struct Locks {
    shards: Box<[Mutex<Shard>]>,
}

impl Locks {
    /// Number of shards.
    pub fn len(&self) -> usize {
        self.shards.len()
    }

    /// Always false.
    pub fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// Waits for a shard and holds it.
    pub fn hold(&self, index: usize) -> MutexGuard<'_, Shard> {
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shards for Locks {
    type Guard<'a> = MutexGuard<'a, Shard>;

    fn count(&self) -> usize {
        self.shards.len()
    }

    fn lock(&self, index: usize) -> Self::Guard<'_> {
        self.hold(index)
    }
}

/// One shard that was opened.
pub(crate) struct Opened {
    /// Name of its directory.
    name: String,
    pub(crate) store: Elastic,
    /// Its files.
    pub(crate) device: Arc<FileDevice>,
}

/// Opens the shards in `directory`, making them if they are absent; the memory in `config` is for
/// all.
///
/// # Errors
/// A shard is missing, is another one, or cannot be opened.
pub fn open(
    directory: &Directory,
    config: &Config,
    now: Duration,
) -> anyhow::Result<(Locks, Vec<Arc<FileDevice>>)> {
    let listing = directory::listing(directory)?;
    directory.guard(listing == Listing::Empty)?;
    let listed = match &listing {
        Listing::Empty => {
            directory::list(directory, &Listing::Count(SHARDS_NEW))?;
            vec![None; SHARDS_NEW]
        }
        Listing::Count(count) => vec![None; *count],
        Listing::Shards(identities) => identities.iter().copied().map(Some).collect(),
    };
    check_presence(directory, &listed, config.accept_data_loss)?;
    let opened = open_listed(directory, &listed, config, now)?;
    let now_listed = identities(&opened);
    if now_listed != listing {
        directory::list(directory, &now_listed)?;
    }
    let (shards, devices): (Vec<_>, Vec<_>) = opened
        .into_iter()
        .map(|Opened { name, store, device }| (Mutex::new(Shard::new(&name, store)), device))
        .unzip();
    Ok((Locks { shards: shards.into() }, devices))
}

/// The list of these shards.
pub(crate) fn identities(opened: &[Opened]) -> Listing {
    Listing::Shards(opened.iter().map(|opened| opened.store.identity()).collect())
}

/// Opens these shards, in parallel: it takes as long as opening the largest one.
pub(crate) fn open_listed(
    directory: &Directory,
    listed: &[Option<u32>],
    config: &Config,
    now: Duration,
) -> anyhow::Result<Vec<Opened>> {
    let memory_bytes = config.memory_bytes / listed.len();
    let config = &Config { memory_bytes, ..config.clone() };
    std::thread::scope(|scope| {
        let open = |(index, &identity): (usize, &Option<u32>)| {
            scope.spawn(move || open_shard(directory, index, identity, config, now))
        };
        let threads: Vec<_> = listed.iter().enumerate().map(open).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(opened) => opened,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect()
    })
}

/// Fails if a shard is missing that existed before.
pub(crate) fn check_presence(
    directory: &Directory,
    listed: &[Option<u32>],
    accept_data_loss: bool,
) -> anyhow::Result<()> {
    let missing: Vec<String> =
        (0..listed.len()).map(shard_name).filter(|name| !directory.has(name)).collect();
    // While a database is made its shards have no identity; all directories are there before any
    // holds a store.
    let begun = (0..listed.len())
        .any(|index| listed[index].is_some() || directory.has(&superblock(&shard_name(index))));
    if missing.is_empty() || !begun || accept_data_loss {
        for name in &missing {
            if begun {
                tracing::error!("{name} is missing: an empty one is created, its keys are lost");
            }
            FileDevice::open_in(directory, name).with_context(|| {
                format!("cannot create {}", directory.path().join(name).display())
            })?;
        }
        return Ok(());
    }
    let (shown, count) = (directory.path().display(), listed.len());
    bail!(
        "{shown} has no {}, expected {count} shards: restore what is missing, or start with \
         --accept-data-loss to continue without the keys in it",
        missing.join(", ")
    );
}

fn superblock(shard: &str) -> String {
    format!("{shard}/{}", FileName::Superblock)
}

fn open_shard(
    directory: &Directory,
    index: usize,
    listed: Option<u32>,
    config: &Config,
    now: Duration,
) -> anyhow::Result<Opened> {
    let name = shard_name(index);
    let path = directory.path().join(&name);
    let device = FileDevice::open_in(directory, &name)
        .with_context(|| format!("cannot open {}", path.display()))?;
    let mut hash_key = [[0; 8]; 2];
    hash_key.iter_mut().for_each(|half| random::fill(half));
    let hash_key = hash_key.map(u64::from_le_bytes);
    let accept_data_loss = config.accept_data_loss;
    let create = listed.is_none() || accept_data_loss;
    let store = Elastic::open(Config { hash_key, create, ..config.clone() }, &device, now)
        .with_context(|| format!("cannot open the shard in {}", path.display()))?;
    let identity = store.identity();
    if let Some(listed) = listed.filter(|listed| *listed != identity) {
        if !accept_data_loss {
            bail!(
                "{} holds shard {identity:08x}, expected {listed:08x}: it is another shard's directory, \
                 or of another database; restore the right one, or start with --accept-data-loss to \
                 serve this one",
                path.display()
            );
        }
        tracing::error!(
            "{name} holds shard {identity:08x}, expected {listed:08x}: the keys of the expected \
             shard are lost"
        );
    }
    if let Some((file, offset)) = store.recovery().cut {
        tracing::warn!(
            "{name}/{file} ends at offset {offset}: a crash left an incomplete record after it"
        );
    }
    Ok(Opened { name, store, device: Arc::new(device) })
}
