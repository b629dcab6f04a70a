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

/// The log. Shared by everything that uses keys.
pub struct Log {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    file: Arc<File>,
    chain: Chain,
    /// What could not be written of a line that was begun.
    rest: Vec<u8>,
}

impl Log {
    /// Opens the log at `path` and continues its chain.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let (file, chain) = open(path, Chain::default())?;
        let state = State { file: Arc::new(file), chain, rest: Vec::new() };
        Ok(Self { path: path.to_owned(), state: Mutex::new(state) })
    }

    /// Opens the path again: after the file was moved aside, a new one continues its chain.
    pub fn reopen(&self) -> anyhow::Result<()> {
        let mut state = self.state.lock();
        state.write_rest().context("cannot finish the last line")?;
        let (file, chain) = open(&self.path, state.chain.clone())?;
        if chain.count < state.chain.count {
            bail!("{}: not a new file and not the old one", self.path.display());
        }
        (state.file, state.chain) = (Arc::new(file), chain);
        Ok(())
    }

    /// Writes one line. An error means that it is not written; then nothing may be answered.
    pub fn append(&self, entry: &Entry<'_>) -> std::io::Result<()> {
        let mut state = self.state.lock();
        state.write_rest()?;
        let before = state.chain.clone();
        let line = state.chain.append(entry);
        let outcome = state.write(&line);
        if outcome.is_err() && state.rest.len() == line.len() {
            (state.chain, state.rest) = (before, Vec::new());
        }
        outcome
    }

    /// Waits until everything written is on the disk.
    pub fn sync(&self) -> std::io::Result<()> {
        let file = Arc::clone(&self.state.lock().file);
        file.sync_data()
    }

    /// Lines so far and the value which binds them, to be noted elsewhere.
    pub fn chain(&self) -> Chain {
        self.state.lock().chain.clone()
    }
}

impl State {
    fn write_rest(&mut self) -> std::io::Result<()> {
        let rest = std::mem::take(&mut self.rest);
        self.write(&rest)
    }

    /// Writes `line` or keeps what is left of it.
    fn write(&mut self, line: &[u8]) -> std::io::Result<()> {
        let mut left = line;
        while !left.is_empty() {
            match (&*self.file).write(left) {
                Ok(written) => left = &left[written..],
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.rest = left.to_vec();
                    return Err(error);
                }
            }
        }
        Ok(())
    }
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
