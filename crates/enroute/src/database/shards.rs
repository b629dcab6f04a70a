//! The shards, each behind a lock and in a directory of its own.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, bail};
use db::{Shard, keyspace::Shards};
use store::{
    FileDevice,
    elastic::{Config, Elastic},
};

/// Shards of a new database: few, because with `--sync always` each has syncs of its own; enough
/// that two workers rarely want the same lock.
const SHARDS_NEW: usize = 4;
/// A database with more was not made by us.
const SHARDS_MAX: usize = 256;

/// All shards.
///
/// Their locks are the standard library's, which sleep until they are given up: those of `parking_lot` call
/// `sched_yield` first, and the kernel lets whoever does that wait for everybody else's slice of 3 ms.
pub struct Locks {
    shards: Box<[Mutex<Shard>]>,
}

impl Locks {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.shards.len()
    }

    /// Never.
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

/// Opens the shards in `directory`, making it and them if absent; the memory in `config` is for all.
pub(super) fn open(
    directory: &Path,
    config: &Config,
    now: Duration,
) -> anyhow::Result<(Locks, Vec<Arc<FileDevice>>)> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the data directory {}", directory.display()))?;
    let count = count(directory)?;
    let memory_bytes = config.memory_bytes / count;
    // Shards open at once: a large database is back as fast as its largest shard.
    let opened = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|index| {
                scope.spawn(move || {
                    let name = format!("shard-{index:03}");
                    let path = directory.join(&name);
                    let device = FileDevice::open(&path)
                        .with_context(|| format!("cannot open {}", path.display()))?;
                    let hash_key = [0; 2].map(|_: u64| super::host::random_number());
                    let config = Config { memory_bytes, hash_key, ..config.clone() };
                    let store = Elastic::open(config, &device, now)
                        .with_context(|| format!("cannot open the shard in {}", path.display()))?;
                    if let Some((file, offset)) = store.recovery().cut {
                        tracing::warn!(
                            "{name}/{file} ends at offset {offset}: a crash tore what followed"
                        );
                    }
                    Ok((Mutex::new(Shard::new(&name, store)), Arc::new(device)))
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(opened) => opened,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect::<anyhow::Result<Vec<_>>>()
    })?;
    let (shards, devices): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
    Ok((Locks { shards: shards.into() }, devices))
}

/// How many shards the directory holds, or a new one is to hold.
fn count(directory: &Path) -> anyhow::Result<usize> {
    let file = directory.join("shards");
    match fs::read_to_string(&file) {
        Ok(text) => {
            let count = text.trim().parse().ok().filter(|count| (1..=SHARDS_MAX).contains(count));
            count.with_context(|| format!("{}: {text:?} is no number of shards", file.display()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut entries = fs::read_dir(directory)?;
            if entries.any(|entry| entry.is_ok_and(|entry| entry.file_name() != "lock")) {
                bail!(
                    "{} holds something that is not a database of ours (there is no file `shards`); \
                     name an empty directory with --dir",
                    directory.display()
                );
            }
            let written = fs::write(&file, format!("{SHARDS_NEW}\n"))
                .and_then(|()| fs::File::open(&file)?.sync_all())
                .and_then(|()| fs::File::open(directory)?.sync_all());
            written.with_context(|| format!("cannot write {}", file.display()))?;
            Ok(SHARDS_NEW)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}
