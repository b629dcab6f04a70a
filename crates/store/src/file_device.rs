//! Real files in one directory: the only code below the binary that touches a disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::device::{Device, FileName};

/// The files of one store in one directory.
#[derive(Debug)]
pub struct FileDevice {
    directory: PathBuf,
}

impl FileDevice {
    /// Opens `directory`, making it if it is missing.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn open(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        Ok(Self { directory: directory.to_owned() })
    }

    fn path(&self, file: FileName) -> PathBuf {
        self.directory.join(file.to_string())
    }

    fn handle(&self, file: FileName) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.path(file))
    }
}

fn name(text: &str) -> Option<FileName> {
    match text {
        "superblock" => Some(FileName::Superblock),
        "index.spill" => Some(FileName::Spill),
        _ => {
            let number = text.strip_prefix("segment-")?.strip_suffix(".log")?;
            number.parse().ok().map(FileName::Segment)
        }
    }
}

impl Device for FileDevice {
    fn list(&self) -> io::Result<Vec<(FileName, u64)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if let Some(name) = entry.file_name().to_str().and_then(name) {
                files.push((name, entry.metadata()?.len()));
            }
        }
        Ok(files)
    }

    fn read(&self, file: FileName, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        self.handle(file)?.read_exact_at(&mut buffer, offset)?;
        Ok(buffer)
    }

    fn write(&self, file: FileName, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.handle(file)?.write_all_at(bytes, offset)
    }

    fn sync(&self, file: FileName) -> io::Result<()> {
        self.handle(file)?.sync_data()
    }

    fn create(&self, file: FileName, bytes: u64) -> io::Result<()> {
        let handle = File::create(self.path(file))?;
        // The system refuses to take room for nothing.
        if bytes > 0 {
            rustix::fs::fallocate(&handle, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
        }
        handle.sync_all()?;
        File::open(&self.directory)?.sync_all()
    }

    fn remove(&self, file: FileName) -> io::Result<()> {
        match fs::remove_file(self.path(file)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => File::open(&self.directory)?.sync_all(),
        }
    }
}
