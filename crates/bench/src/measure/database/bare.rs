//! Direct reads of a database's files without the page cache, with which its lookups are compared.

use std::{
    fs::{self, File, OpenOptions},
    io,
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
    /// The files of the database in `directory` that are completely written. Preallocated ones are
    /// omitted: the file system knows that they contain zeroes and does not read the disk.
    pub(super) fn open(directory: &Path) -> anyhow::Result<Self> {
        let (mut files, mut page) = (Vec::new(), Page::new());
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
                    page.read(&file, pages.saturating_sub(1))?;
                    if page.0.iter().any(|byte| *byte != 0) {
                        files.push((file, pages));
                    }
                }
            }
        }
        ensure!(!files.is_empty(), "no files of the log in {}", directory.display());
        Ok(Self(files))
    }

    /// Reads pages at random, other ones with another seed.
    pub(super) fn reader(&self, seed: u64) -> Reader<'_> {
        Reader { segments: self, random: Pcg64Mcg::seed_from_u64(seed), page: Page::new() }
    }
}

/// See [`Segments::reader`].
pub(super) struct Reader<'s> {
    segments: &'s Segments,
    random: Pcg64Mcg,
    page: Page,
}

impl Reader<'_> {
    /// Reads one page.
    pub(super) fn read(&mut self) -> anyhow::Result<()> {
        let files = &self.segments.0;
        let (file, pages) = &files[self.random.random_range(0..files.len())];
        self.page.read(file, self.random.random_range(0..*pages))?;
        Ok(())
    }
}

/// Memory for one page, longer than that so that some of it is aligned as the disk wants it.
struct Page(Vec<u8>);

impl Page {
    fn new() -> Self {
        Self(vec![0; PAGE * 2])
    }

    fn read(&mut self, file: &File, number: u64) -> io::Result<()> {
        let aligned = self.0.as_ptr().align_offset(PAGE);
        file.read_exact_at(&mut self.0[aligned..aligned + PAGE], number * PAGE as u64)
    }
}
