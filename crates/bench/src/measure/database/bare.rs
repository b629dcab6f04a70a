//! Bare reads of a database's files, past the page cache: what its lookups are held against.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

use anyhow::ensure;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::PAGE;

/// The log's files, and how many pages each has.
pub(super) struct Segments(Vec<(File, u64)>);

impl Segments {
    /// Those of the database in `directory`, as they are now.
    pub(super) fn open(directory: &Path) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        for shard in fs::read_dir(directory)? {
            let shard = shard?.path();
            if !shard.is_dir() {
                continue;
            }
            for file in fs::read_dir(shard)? {
                let path = file?.path();
                if path.extension().is_some_and(|extension| extension == "log") {
                    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
                    let file = OpenOptions::new().read(true).custom_flags(direct).open(&path)?;
                    let pages = file.metadata()?.len() / PAGE as u64;
                    files.push((file, pages));
                }
            }
        }
        ensure!(!files.is_empty(), "no files of the log in {}", directory.display());
        Ok(Self(files))
    }

    /// Reads pages at random, other ones with another seed.
    pub(super) fn reader(&self, seed: u64) -> Reader<'_> {
        Reader { segments: self, random: Pcg64Mcg::seed_from_u64(seed), bytes: vec![0; PAGE * 2] }
    }
}

/// See [`Segments::reader`].
pub(super) struct Reader<'s> {
    segments: &'s Segments,
    random: Pcg64Mcg,
    bytes: Vec<u8>,
}

impl Reader<'_> {
    /// Reads one page.
    pub(super) fn read(&mut self) -> anyhow::Result<()> {
        let files = &self.segments.0;
        let (file, pages) = &files[self.random.random_range(0..files.len())];
        let aligned = self.bytes.as_ptr().align_offset(PAGE);
        let buffer = &mut self.bytes[aligned..aligned + PAGE];
        file.read_exact_at(buffer, self.random.random_range(0..*pages) * PAGE as u64)?;
        Ok(())
    }
}
