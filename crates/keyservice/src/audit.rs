//! The audit log as a file: opened to append, every line written before its answer leaves.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    ops::Deref,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::{Context, bail};
use keyserver::audit::{Chain, Entry, LINE_BYTES_MAX, Lines, whole};
use parking_lot::Mutex;
use platform::{
    directory::sync_name,
    lock::{self, Refused},
};

/// Maximum time before a written line is synced to disk. A crash of the machine (not of the
/// program) loses the lines of up to this period.
pub(super) const SYNC_EVERY: Duration = Duration::from_secs(1);

/// The log. Shared by everything that uses keys.
///
/// Requests that are done at the same time are written together: each adds its line and yields to
/// the others of its thread; the first to continue writes all lines. So the lock under which lines
/// are chained is never held over a system call.
pub struct Log {
    path: PathBuf,
    lines: Mutex<Lines>,
    /// Held while writing. Taken before `lines`.
    file: Mutex<Arc<Held>>,
}

impl Log {
    /// Opens the log at `path` and continues its chain.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let (file, chain) = open(path, Chain::default())?;
        Ok(Self {
            path: path.to_owned(),
            lines: Mutex::new(Lines::new(chain)),
            file: Mutex::new(Arc::new(file)),
        })
    }

    /// Opens the path again: after the file was moved aside, a new one continues its chain. Lines
    /// that do not fit into the old file go to the new one.
    ///
    /// # Errors
    /// The file there is another log, or cannot be written. Then lines are still kept for it, and
    /// nothing is answered before they are written.
    pub fn reopen(&self) -> anyhow::Result<()> {
        let shown = self.path.display();
        let mut file = self.file.lock();
        let mut lines = self.lines.lock();
        let finished = write_all(&mut lines, &file);
        if file.is_at(&self.path)? {
            return finished.with_context(|| {
                format!(
                    "cannot write {shown}; free some space, or move the file to another file \
                         system, then send SIGHUP"
                )
            });
        }
        let new = Held::open(&self.path)?;
        if new.metadata()?.len() > 0 {
            bail!(
                "{shown}: expected the open audit log or an empty file, found another file; move \
                 it away"
            );
        }
        lines.begin_file(now()?).context("cannot continue the audit log")?;
        // The old one may be removed already, and hold the room that the new one needs.
        *file = Arc::new(new);
        write_all(&mut lines, &file).with_context(|| format!("cannot write {shown}"))
    }

    /// Writes one line. An error means that it is not written; then nothing may be answered. The
    /// line stays in the chain and is written before any other, when that is possible again.
    pub async fn append(&self, entry: &Entry<'_>) -> io::Result<()> {
        let must_write_first = self.lines.lock().must_write_first();
        if must_write_first {
            self.write(None)?;
        }
        let number = self.lines.lock().append(entry);
        tokio::task::yield_now().await;
        self.write(Some(number))
    }

    /// Path of the file, as in messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all unwritten lines, unless line `number` is written already.
    fn write(&self, number: Option<u64>) -> io::Result<()> {
        let is_written = |lines: &Lines| number.is_some_and(|number| lines.is_written(number));
        if is_written(&self.lines.lock()) {
            return Ok(());
        }
        let file = self.file.lock();
        let taken = {
            let mut lines = self.lines.lock();
            if is_written(&lines) {
                return Ok(());
            }
            lines.take()
        };
        let (whole, outcome) = write(&file, &taken);
        self.lines.lock().note(taken, whole, outcome.is_err());
        outcome
    }

    /// Waits until everything written is on the disk.
    pub fn sync(&self) -> io::Result<()> {
        // A task that chained a line may have been cancelled before it wrote it.
        self.write(None)?;
        let file = Arc::clone(&self.file.lock());
        file.sync_data()
    }

    /// Lines so far and the value which binds them, to be noted elsewhere.
    pub fn chain(&self) -> Chain {
        self.lines.lock().chain().clone()
    }
}

/// Writes the lines that wait while no line can be added.
fn write_all(lines: &mut Lines, file: &File) -> io::Result<()> {
    let taken = lines.take();
    let (whole, outcome) = write(file, &taken);
    lines.note(taken, whole, outcome.is_err());
    outcome
}

/// Writes whole lines; returns how many bytes of them are in the file, which are whole lines too: a
/// partly written line is removed from the file, so that the file can be continued.
fn write(mut file: &File, lines: &[u8]) -> (usize, io::Result<()>) {
    let mut done = 0;
    let outcome = loop {
        match lines.get(done..).filter(|rest| !rest.is_empty()).map(|rest| file.write(rest)) {
            None => break Ok(()),
            Some(Ok(0)) => break Err(io::ErrorKind::WriteZero.into()),
            Some(Ok(written)) => done += written,
            Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Some(Err(error)) => break Err(error),
        }
    };
    let whole = whole(&lines[..done]);
    let begun = (done - whole) as u64;
    if begun > 0 {
        let taken_back = file.metadata().and_then(|file_now| file.set_len(file_now.len() - begun));
        if let Err(error) = taken_back {
            tracing::error!(
                "the audit log ends with an incomplete line that cannot be removed: {error}; repair the file before the \
                 next start"
            );
        }
    }
    (whole, outcome)
}

/// A file of the log, open to append, that no other process appends to: two would break the chain.
struct Held(File);

impl Held {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let mut options = OpenOptions::new();
        let file = options.create(true).read(true).append(true).mode(0o600).open(path);
        let file = file.with_context(|| format!("cannot open the audit log {shown}"))?;
        match lock::hold(&file) {
            Ok(()) => Ok(Self(file)),
            Err(Refused::Held(holder)) => bail!(
                "the audit log {shown} is in use by {holder}; stop that process, or use another --audit"
            ),
            Err(Refused::Failed(error)) => {
                Err(error).with_context(|| format!("cannot lock the audit log {shown}"))
            }
        }
    }

    /// Whether the open file is the one at `path`.
    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let own = self.metadata()?;
        match fs::metadata(path) {
            Ok(there) => Ok((own.dev(), own.ino()) == (there.dev(), there.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Deref for Held {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

fn now() -> anyhow::Result<Duration> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?)
}

/// The file and its chain; a new file continues `chain`.
fn open(path: &Path, mut chain: Chain) -> anyhow::Result<(Held, Chain)> {
    let shown = path.display();
    let held = Held::open(path)?;
    let mut file = &*held;
    let length = file.metadata()?.len();
    if length == 0 {
        file.write_all(&chain.begin_file(now()?))
            .and_then(|()| file.sync_data())
            .and_then(|()| sync_name(path))
            .with_context(|| format!("cannot write the audit log {shown}"))?;
        return Ok((held, chain));
    }
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(length.saturating_sub(LINE_BYTES_MAX as u64)))?;
    file.read_to_end(&mut tail)?;
    let chain = Chain::behind(&tail).with_context(|| {
        format!(
            "cannot continue the audit log {shown}; verify it by `enroute keyserver audit \
                 {shown}`, then move it away"
        )
    })?;
    Ok((held, chain))
}

/// Verifies files in their order; returns the state of the chain after the last.
pub fn verify(paths: &[PathBuf]) -> anyhow::Result<Chain> {
    let mut chain = Chain::default();
    for path in paths {
        let shown = path.display().to_string();
        let file = File::open(path).with_context(|| format!("cannot open {shown}"))?;
        chain
            .verify(&mut BufReader::with_capacity(1 << 20, file))
            .with_context(|| format!("cannot read {shown}"))?
            .with_context(|| format!("{shown} was changed, or is not an audit log"))?;
    }
    Ok(chain)
}
