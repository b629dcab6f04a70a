//! The audit log as a file: opened to append, every line written before its answer leaves.

use std::{
    fs::{File, OpenOptions},
    io::{BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::{Context, bail};
use keyserver::audit::{Chain, Entry, LINE_BYTES_MAX};
use parking_lot::Mutex;

/// How long a written line may wait to be on the disk. A crash of the machine, not of the program,
/// loses that much.
pub(super) const SYNC_EVERY: Duration = Duration::from_secs(1);

/// Lines that may wait for the next write. Who would exceed it writes first.
const UNWRITTEN_BYTES_MAX: usize = 1 << 20;

/// The log. Shared by everything that uses keys.
///
/// Requests that are done at the same time are written together: each adds its line, lets the others
/// of its thread add theirs, and whoever is first then writes all. So the lock under which lines are
/// chained is never held over a system call.
pub struct Log {
    path: PathBuf,
    lines: Mutex<Lines>,
    /// Held while writing. Taken before `lines`.
    file: Mutex<Arc<File>>,
}

/// What was chained.
struct Lines {
    chain: Chain,
    unwritten: Vec<u8>,
    /// The number of the last line that is written, or begun.
    written: u64,
    /// The last write failed. Then no line is added before one succeeds.
    failing: bool,
}

impl Log {
    /// Opens the log at `path` and continues its chain.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let (file, chain) = open(path, Chain::default())?;
        let lines = Lines { written: chain.count, chain, unwritten: Vec::new(), failing: false };
        Ok(Self {
            path: path.to_owned(),
            lines: Mutex::new(lines),
            file: Mutex::new(Arc::new(file)),
        })
    }

    /// Opens the path again: after the file was moved aside, a new one continues its chain.
    pub fn reopen(&self) -> anyhow::Result<()> {
        let mut file = self.file.lock();
        let mut lines = self.lines.lock();
        write(&file, &mut lines.unwritten).context("cannot finish the last lines")?;
        let (new, chain) = open(&self.path, lines.chain.clone())?;
        if chain.count < lines.chain.count {
            bail!("{}: not a new file and not the old one", self.path.display());
        }
        (*file, lines.written, lines.chain) = (Arc::new(new), chain.count, chain);
        Ok(())
    }

    /// Writes one line. An error means that it is not written; then nothing may be answered. The
    /// line stays in the chain and is written before any other, when that is possible again.
    pub async fn append(&self, entry: &Entry<'_>) -> std::io::Result<()> {
        let must_write_first = {
            let lines = self.lines.lock();
            lines.failing || lines.unwritten.len() >= UNWRITTEN_BYTES_MAX
        };
        if must_write_first {
            self.write(None)?;
        }
        let number = {
            let mut lines = self.lines.lock();
            let line = lines.chain.append(entry);
            lines.unwritten.extend_from_slice(&line);
            lines.chain.count
        };
        tokio::task::yield_now().await;
        self.write(Some(number))
    }

    /// Writes what is unwritten, unless line `number` was written meanwhile.
    fn write(&self, number: Option<u64>) -> std::io::Result<()> {
        let is_written = |lines: &Lines| number.is_some_and(|number| number <= lines.written);
        if is_written(&self.lines.lock()) {
            return Ok(());
        }
        let file = self.file.lock();
        let (mut bytes, last) = {
            let mut lines = self.lines.lock();
            if is_written(&lines) {
                return Ok(());
            }
            (std::mem::take(&mut lines.unwritten), lines.chain.count)
        };
        let outcome = write(&file, &mut bytes);
        let mut lines = self.lines.lock();
        lines.failing = outcome.is_err();
        match outcome {
            Ok(()) => lines.written = last,
            Err(_) => lines.unwritten.splice(..0, bytes).for_each(drop),
        }
        outcome
    }

    /// Waits until everything written is on the disk.
    pub fn sync(&self) -> std::io::Result<()> {
        // Whoever chained a line may have gone before writing it.
        self.write(None)?;
        let file = Arc::clone(&self.file.lock());
        file.sync_data()
    }

    /// Lines so far and the value which binds them, to be noted elsewhere.
    pub fn chain(&self) -> Chain {
        self.lines.lock().chain.clone()
    }
}

/// Writes all of `bytes`; what could not be written stays there.
fn write(mut file: &File, bytes: &mut Vec<u8>) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(written) => drop(bytes.drain(..written)),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The file and its chain; a new file continues `chain`.
fn open(path: &Path, mut chain: Chain) -> anyhow::Result<(File, Chain)> {
    let shown = path.display();
    let mut file = OpenOptions::new()
        .create(true)
        .read(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot open the audit log {shown}"))?;
    let length = file.metadata()?.len();
    if length == 0 {
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        file.write_all(&chain.begin_file(at))?;
        file.sync_data()?;
        return Ok((file, chain));
    }
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(length.saturating_sub(LINE_BYTES_MAX as u64)))?;
    file.read_to_end(&mut tail)?;
    let begin =
        tail[..tail.len() - 1].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let chain = Chain::behind(&tail[begin..]).with_context(|| {
        format!("{shown} cannot be continued; see `enroute keyserver audit`, then move it aside")
    })?;
    Ok((file, chain))
}

/// Verifies files in their order; says where the chain stands behind the last.
pub fn verify(paths: &[PathBuf]) -> anyhow::Result<Chain> {
    let mut chain = Chain::default();
    for path in paths {
        let shown = path.display().to_string();
        let file = File::open(path).with_context(|| format!("cannot open {shown}"))?;
        chain
            .verify(&mut BufReader::with_capacity(1 << 20, file))
            .with_context(|| format!("cannot read {shown}"))?
            .with_context(|| format!("{shown} was changed or is no audit log"))?;
    }
    Ok(chain)
}
