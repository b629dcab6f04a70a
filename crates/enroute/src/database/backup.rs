//! Backups while the database serves, one at a time, on a thread of their own
//! (`store::elastic::backup`). The client asks at the admin endpoint, again and again until the
//! backup has ended.

use std::{
    fs::{self, DirBuilder, File},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use db::backups::Asked;
use store::{
    FileDevice,
    device::FileName,
    elastic::{
        backup::{self, Contents, Earlier, Failure, Kept, Point},
        shard_name,
    },
};

use super::{Shared, queue::Queue, sync::Mutex};
use crate::admin::Backup;

/// Interval of checks whether its point is on disk.
const DURABLE_LOOK: Duration = Duration::from_millis(1);
/// Number of earlier backups whose segments are used again: the newest ones.
const EARLIER_MAX: usize = 4;

/// The backup that is being made, or was made last.
pub(super) struct Backups {
    wanted: Queue<PathBuf>,
    asked: Mutex<db::backups::Backups<Backup>>,
    since: Instant,
}

impl Backups {
    pub(super) fn new() -> Self {
        Self {
            wanted: Queue::new(),
            asked: Mutex::new(db::backups::Backups::default()),
            since: Instant::now(),
        }
    }

    /// Begins a backup to `directory`, or returns what became of it.
    pub(super) fn ask(&self, directory: &Path) -> Result<Backup, String> {
        match self.asked.lock().ask(directory, self.since.elapsed())? {
            Asked::New => self.wanted.push(directory.to_owned(), false),
            Asked::UnderWay => {}
            Asked::Ended(outcome) => return outcome,
        }
        Ok(Backup::default())
    }

    /// Ends the thread once it has nothing to do.
    pub(super) fn end(&self) {
        self.wanted.end();
    }

    fn has_client(&self) -> bool {
        self.asked.lock().has_client(self.since.elapsed())
    }
}

/// Makes backups until the end.
pub(super) fn run(shared: &Shared) {
    while let Some(directory) = shared.backups.wanted.pop() {
        let began = Instant::now();
        let made = make(shared, &directory);
        let shown = directory.display();
        match &made {
            Ok(made) => tracing::info!(
                linked_bytes = made.linked_bytes,
                copied_bytes = made.copied_bytes,
                "backup to {shown} complete after {:?}",
                began.elapsed()
            ),
            Err(error) => tracing::error!("no backup to {shown}: {error:#}"),
        }
        shared.backups.asked.lock().end(made.map_err(|error| format!("{error:#}")));
    }
}

fn make(shared: &Shared, directory: &Path) -> anyhow::Result<Backup> {
    let shown = directory.display();
    DirBuilder::new().mode(0o700).create(directory).with_context(|| {
        format!("cannot create {shown}; name a directory that does not exist, in one that does")
    })?;
    let (points, mut kept, point_ms) = begin(shared);
    let made = copy(shared, directory, &points, &mut kept, point_ms);
    for (index, kept) in kept.into_iter().enumerate() {
        shared.locks.hold(index).store.end_backup(kept);
    }
    if made.is_err()
        && let Err(error) = fs::remove_dir_all(directory)
    {
        tracing::warn!("cannot remove the incomplete backup {shown}: {error}");
    }
    made
}

/// Fixes the point of all shards: between two commands, as it holds all of them. Returns it also as
/// time.
fn begin(shared: &Shared) -> (Vec<Point>, Vec<Kept>, u64) {
    let mut shards: Vec<_> =
        (0..shared.locks.len()).map(|index| shared.locks.hold(index)).collect();
    let now = shared.now();
    let begun = shards.iter_mut().enumerate().map(|(index, shard)| {
        let begun = shard.store.begin_backup();
        shared.disk.pump(index, shard, now);
        begun
    });
    let (points, kept) = begun.unzip();
    (points, kept, now.as_millis() as u64)
}

fn copy(
    shared: &Shared,
    directory: &Path,
    points: &[Point],
    kept: &mut [Kept],
    point_ms: u64,
) -> anyhow::Result<Backup> {
    let parent = directory.parent().unwrap_or(directory);
    let root = FileDevice::open(directory)?;
    let within = File::open(directory)?;
    let earlier = earlier(parent);
    let mut contents = Contents { point_ms, shards: Vec::new() };
    let mut made = Backup { ended: true, point_ms, ..Backup::default() };
    for (index, point) in points.iter().enumerate() {
        while !is_copyable(shared, index, point)? {
            thread::sleep(DURABLE_LOOK);
        }
        let (name, from) = (shard_name(index), shared.disk.device(index));
        let to = FileDevice::open_in(&within, &name)?;
        let identity = shared.locks.hold(index).store.identity();
        let opened = earlier.iter().filter_map(|(path, contents)| {
            let device = FileDevice::open_in(&File::open(path).ok()?, &name).ok()?;
            Some((contents, device))
        });
        let opened: Vec<(&Contents, FileDevice)> = opened.collect();
        let same = opened.iter();
        let same = same.filter_map(|(of, device)| Earlier::of(of, index, identity, device));
        let copied = backup::copy(point, from, &to, &same.collect::<Vec<_>>(), |left| {
            is_copyable(shared, index, point)?;
            shared.locks.hold(index).store.release_segments(&mut kept[index], left);
            Ok(())
        });
        let copied = copied.with_context(|| name)?;
        made.linked_bytes += copied.linked_bytes;
        made.copied_bytes += copied.copied_bytes;
        contents.shards.push(copied.stored);
    }
    // The list is last: everything that it names exists after a crash.
    File::open(parent)?.sync_all()?;
    contents.store(&root)?;
    Ok(made)
}

/// Whether the point of a shard is on disk; an error if the backup must end.
fn is_copyable(shared: &Shared, index: usize, point: &Point) -> Result<bool, Failure> {
    if shared.is_ending() {
        return Err(Failure::Ended("the database was stopped".to_owned()));
    }
    if !shared.backups.has_client() {
        return Err(Failure::Ended("its client has gone".to_owned()));
    }
    let is_copyable = shared.locks.hold(index).store.is_copyable(point);
    is_copyable.map_err(|error| Failure::Ended(error.to_string()))
}

/// Complete backups in the same directory, newest first.
fn earlier(parent: &Path) -> Vec<(PathBuf, Contents)> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut found: Vec<_> = paths
        .filter(|path| path.join(FileName::Backup.to_string()).is_file())
        .filter_map(|path| {
            let contents = Contents::load(&FileDevice::open(&path).ok()?).ok()?;
            Some((path, contents))
        })
        .collect();
    found.sort_by_key(|(_, contents)| std::cmp::Reverse(contents.point_ms));
    found.truncate(EARLIER_MAX);
    found
}
