//! Filling the database with the private keys of many domains, as an operator would: by
//! `enroute keyserver import`.

use std::{
    fs,
    io::Write,
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use keyserver::key;
use wire::ski::KeyKind;

use super::{super::program::ourselves, stage::DOMAIN};
use crate::report::Progress;

/// Number of keys per call of `enroute keyserver import`.
const BATCH: usize = 500;

/// A database to fill; the directory contains the key-encryption key and the key of the domain.
pub(super) struct Filling<'a> {
    pub(super) directory: &'a Path,
    pub(super) database: SocketAddr,
}

impl Filling<'_> {
    /// Stores the domain's key among those of `count` domains, by as many threads as cores. `stop`
    /// ends it early, which is an error.
    pub(super) fn fill(&self, count: usize, stop: &AtomicBool) -> anyhow::Result<()> {
        let (done, began) = (AtomicUsize::new(0), Instant::now());
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let mut progress = Progress::stderr();
        self.import(&[format!("{DOMAIN}.key").into()])?;
        done.fetch_add(1, Relaxed);
        thread::scope(|scope| {
            let (others, done) = (count.saturating_sub(1), &done);
            let workers: Vec<_> = (0..threads)
                .map(|number| {
                    let share = others / threads + usize::from(number < others % threads);
                    scope.spawn(move || self.store(number, share, done, stop))
                })
                .collect();
            while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
                let line =
                    format!("private keys made and sealed: {} of {count}", done.load(Relaxed));
                progress.show(&[line], began.elapsed());
                thread::sleep(Duration::from_millis(50));
            }
            for worker in workers {
                worker.join().expect("no worker panics").context("cannot store private keys")?;
            }
            anyhow::Ok(())
        })?;
        let stored = self.stored()?;
        ensure!(stored == count, "the database has {stored} private keys, not {count}");
        let seconds = began.elapsed().as_secs_f64();
        eprintln!("private keys in the database, sealed: {stored}, after {seconds:.1} s");
        Ok(())
    }

    /// Makes `count` keys and stores them; `number` is the number of this thread.
    fn store(
        &self,
        number: usize,
        count: usize,
        done: &AtomicUsize,
        stop: &AtomicBool,
    ) -> anyhow::Result<()> {
        let names: Vec<PathBuf> =
            (0..BATCH.min(count)).map(|key| format!("made-{number}-{key}").into()).collect();
        let mut left = count;
        while left > 0 {
            ensure!(!stop.load(Relaxed), "interrupted");
            let names = &names[..left.min(BATCH)];
            for name in names {
                self.write(name, &key::generate(KeyKind::EcdsaP256)?)?;
            }
            self.import(names)?;
            left -= names.len();
            done.fetch_add(names.len(), Relaxed);
        }
        for name in names {
            fs::remove_file(self.directory.join(name))?;
        }
        Ok(())
    }

    fn write(&self, name: &Path, key: &[u8]) -> anyhow::Result<()> {
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        Ok(options.open(self.directory.join(name))?.write_all(key)?)
    }

    fn import(&self, keys: &[PathBuf]) -> anyhow::Result<()> {
        self.said_by(self.keyserver("import")?.args(keys))?;
        Ok(())
    }

    /// Number of keys in the database.
    fn stored(&self) -> anyhow::Result<usize> {
        Ok(self.said_by(&mut self.keyserver("list")?)?.lines().count())
    }

    fn keyserver(&self, action: &str) -> anyhow::Result<Command> {
        let mut command = ourselves()?;
        command.args(["--log", "error", "keyserver", action, "--kek-file", "kek"]);
        command.args(["--database", &format!("redis://{}", self.database)]);
        command.current_dir(self.directory);
        Ok(command)
    }

    fn said_by(&self, command: &mut Command) -> anyhow::Result<String> {
        let output = command.stderr(Stdio::piped()).output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}", error.trim());
        Ok(String::from_utf8(output.stdout)?)
    }
}
