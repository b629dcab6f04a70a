//! A directory that is held open: everything in it is opened relative to it, so that a service
//! continues to use it after it is renamed.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, ErrorKind, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::DirBuilderExt,
    },
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow};
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, fchmod, fstat, fsync, openat, renameat, statat, unlinkat},
    io::Errno,
    path::Arg,
};

/// An open directory.
pub struct Directory {
    path: PathBuf,
    descriptor: OwnedFd,
}

impl Directory {
    /// Opens the directory; makes it, for its owner only, if it is missing.
    ///
    /// # Errors
    /// It cannot be made or opened.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| {
            anyhow!("cannot create the data directory {shown}: {}", why(&error))
        })?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = openat(CWD, path, flags, Mode::empty())
            .map_err(|error| anyhow!("cannot open {shown}: {}", why(&error.into())))?;
        Ok(Self { path: path.to_owned(), descriptor })
    }

    /// Its path when it was opened, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it contains `name`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        statat(&self.descriptor, name, AtFlags::empty()).is_ok()
    }

    /// Something in it that is not in `expected`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn has_besides(&self, expected: &[&str]) -> io::Result<Option<String>> {
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            if !expected.iter().any(|one| name == *one) {
                return Ok(Some(name.display().to_string()));
            }
        }
        Ok(None)
    }

    /// The text of file `name`, up to `bytes_max`; `None` if there is no such file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, name: &str, bytes_max: u64) -> anyhow::Result<Option<String>> {
        let shown = || format!("cannot read {}", self.path.join(name).display());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = match openat(&self.descriptor, name, flags, Mode::empty()) {
            Ok(opened) => File::from(opened),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(anyhow!("{}: {}", shown(), why(&error.into()))),
        };
        let mut text = String::new();
        file.take(bytes_max).read_to_string(&mut text).with_context(shown)?;
        Ok(Some(text))
    }

    /// Replaces file `name` atomically, by way of a file `new`.
    ///
    /// # Errors
    /// It cannot be written; then the file is as it was.
    pub fn replace(&self, name: &str, new: &str, text: &str) -> anyhow::Result<()> {
        replace(&self.descriptor, name, new, text).map_err(|error| {
            anyhow!("cannot write {}: {}", self.path.join(name).display(), why(&error))
        })
    }

    /// Sets the mode of a new directory to owner only; warns if an existing one is accessible to
    /// others.
    ///
    /// # Errors
    /// Its mode cannot be read.
    pub fn guard(&self, is_new: bool) -> anyhow::Result<()> {
        let mode = fstat(&self.descriptor)?.st_mode & 0o7777;
        if mode & 0o077 == 0 || (is_new && fchmod(&self.descriptor, Mode::RWXU).is_ok()) {
            return Ok(());
        }
        let shown = self.path.display();
        tracing::warn!(
            "{shown} has mode {mode:04o}: other users of this machine may read the data; run \
             `chmod -R go= {shown}`"
        );
        Ok(())
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Replaces file `name` of a directory atomically and durably, by way of a file `new`. Only its
/// owner may read and write it.
pub(crate) fn replace(
    directory: impl AsFd,
    name: impl Arg,
    new: impl Arg + Copy,
    text: &str,
) -> io::Result<()> {
    // One that a crash left may have another mode, or lead elsewhere.
    match unlinkat(&directory, new, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut file = File::from(openat(&directory, new, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    renameat(&directory, new, &directory, name)?;
    // Without it a crash of the machine may bring the former file back.
    Ok(fsync(&directory)?)
}

/// Makes the name of a new file durable: a sync of the file alone may not.
///
/// # Errors
/// Its directory cannot be synced.
pub fn sync_name(path: &Path) -> io::Result<()> {
    File::open(parent(path))?.sync_all()
}

/// The directory of a file.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

/// The system's error about something in the directory, and what to do about it.
#[must_use]
pub fn why(error: &io::Error) -> String {
    let next = match error.kind() {
        ErrorKind::PermissionDenied => {
            let user = rustix::process::geteuid().as_raw();
            format!("the process runs as user {user}; run it as the owner of the directory")
        }
        ErrorKind::ReadOnlyFilesystem => {
            "mount the file system read-write, or use another directory".to_owned()
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space on the disk".to_owned(),
        _ => return error.to_string(),
    };
    format!("{error}; {next}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_directory_is_still_the_one_that_is_read_and_written() {
        let path = std::env::temp_dir().join(format!("directory-{}", std::process::id()));
        let moved = path.with_extension("moved");
        let directory = Directory::open(&path).expect("made");
        assert_eq!(directory.read("list", 100).expect("read"), None);
        fs::rename(&path, &moved).expect("renamed");
        directory.replace("list", "list.new", "one\n").expect("written");
        assert_eq!(directory.read("list", 100).expect("read"), Some("one\n".to_owned()));
        assert!(directory.has("list") && !directory.has("list.new"));
        assert_eq!(fs::read_to_string(moved.join("list")).expect("there"), "one\n");
        let reopened = Directory::open(&moved).expect("opened");
        assert_eq!(reopened.has_besides(&["list"]).expect("read"), None);
        assert_eq!(reopened.has_besides(&["other"]).expect("read"), Some("list".to_owned()));
        fs::remove_dir_all(&moved).expect("removed");
    }
}
