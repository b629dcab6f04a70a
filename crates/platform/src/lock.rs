//! A file that one process at a time may hold: a dedicated lock file ([`Lock`]), or a file that a
//! process writes ([`hold`]).
//!
//! It is an open file description lock (`F_OFD_SETLK`): the kernel drops it when the last
//! descriptor is closed, however the process ends, and a second opening in the same process does
//! not get it either. A [`Lock`]'s file names its holder. It stays when the lock is gone: a file
//! that is removed could be locked twice.
#![allow(unsafe_code)]

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Seek, Write},
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::Path,
};

use crate::wall_clock;

/// The lock, until it is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why there is no lock.
#[derive(Debug)]
pub enum Refused {
    /// Another process has it.
    Held(Holder),
    /// The system call failed.
    Failed(io::Error),
}

/// Description of the holder, from the lock file.
#[derive(Debug)]
pub struct Holder {
    text: String,
}

impl Lock {
    /// Takes the lock of the file at `path`, which is made if it is missing, for a process that
    /// runs `command`.
    ///
    /// # Errors
    /// Another process holds it, or the file cannot be opened or locked.
    pub fn take(path: &Path, command: &str) -> Result<Self, Refused> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(Refused::Failed)?;
        if !lock(&file, libc::F_OFD_SETLK, 0, 0).map_err(Refused::Failed)? {
            let mut text = String::new();
            // The description is for people only; errors in writing it are ignored.
            let _ = file.take(HOLDER_BYTES_MAX).read_to_string(&mut text);
            return Err(Refused::Held(Holder { text }));
        }
        name_holder(&mut file, command).map_err(Refused::Failed)?;
        Ok(Self { _file: file })
    }
}

/// Read of what a lock file says.
const HOLDER_BYTES_MAX: u64 = 4096;

/// Writes which process has the lock. On a full disk it is left out.
fn name_holder(file: &mut File, command: &str) -> io::Result<()> {
    let started = wall_clock::now().as_secs();
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let pid = std::process::id();
    let text = format!("pid {pid}\nhost {host}\nstarted {started}\ncommand {command}\n");
    file.set_len(0)?;
    file.rewind()?;
    match file.write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::StorageFull => Ok(()),
        written => written,
    }
}

/// Takes the lock of a file that this process writes, for as long as the file is open.
///
/// # Errors
/// Another process holds it, or the file cannot be locked.
pub fn hold(file: &File) -> Result<(), Refused> {
    if !lock(file, libc::F_OFD_SETLK, 0, NAMES_FROM).map_err(Refused::Failed)? {
        return Err(Refused::Held(Holder::of(file)));
    }
    // The kernel names the holders of locks of this other kind, which are lost when the process
    // closes the file once: it is for the message alone.
    lock(file, libc::F_SETLK, NAMES_FROM, 1).map(drop).map_err(Refused::Failed)
}

/// Offset beyond the end of any file: locks from here on identify the holder of the file.
const NAMES_FROM: libc::off_t = 1 << 62;

/// Locks `bytes` of an open file from byte `from` on, or all to its end if `bytes` is 0; false if
/// another process holds the lock.
fn lock(file: &File, kind: libc::c_int, from: libc::off_t, bytes: libc::off_t) -> io::Result<bool> {
    let range = range(from, bytes);
    // SAFETY: the descriptor is open, and the kernel only reads the structure.
    if unsafe { libc::fcntl(file.as_raw_fd(), kind, &range) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

fn range(from: libc::off_t, bytes: libc::off_t) -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: from,
        l_len: bytes,
        l_pid: 0,
    }
}

impl Holder {
    /// The process that [`hold`]s a file, as far as the kernel says.
    fn of(file: &File) -> Self {
        let mut range = range(NAMES_FROM, 1);
        // SAFETY: the descriptor is open, and the structure is ours to be written.
        let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &mut range) };
        let is_held = asked == 0 && range.l_type != libc::F_UNLCK as libc::c_short;
        if !is_held || range.l_pid <= 0 {
            return Self { text: String::new() };
        }
        let pid = range.l_pid;
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        Self { text: format!("pid {pid}\ncommand {}\n", command.trim_end()) }
    }

    fn says(&self, field: &str) -> Option<&str> {
        self.text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(' '))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(pid) = self.says("pid") else { return f.write_str("another process") };
        write!(f, "process {pid}")?;
        let command = self.says("command").unwrap_or("unknown command");
        write!(f, " ({command}")?;
        if let Some(host) = self.says("host") {
            write!(f, " on {host}")?;
        }
        let started = self.says("started").and_then(|started| started.parse().ok());
        let now = wall_clock::now().as_secs();
        if let Some(seconds) = started.and_then(|started| now.checked_sub(started)) {
            write!(f, ", started {seconds} s ago")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_second_is_told_which_process_has_it_and_gets_it_after_the_first() {
        let path = std::env::temp_dir().join(format!("lock-{}", std::process::id()));
        let first = Lock::take(&path, "enroute test").expect("no process holds it");
        let Err(Refused::Held(holder)) = Lock::take(&path, "enroute other") else {
            panic!("it is held")
        };
        let said = holder.to_string();
        let expected = format!("process {} (enroute test on ", std::process::id());
        assert!(said.starts_with(&expected) && said.ends_with(" s ago)"), "{said}");
        drop(first);
        drop(Lock::take(&path, "enroute other").expect("it is free"));
        let text = fs::read_to_string(&path).expect("the file stays");
        assert!(text.contains("command enroute other"), "{text}");
        fs::remove_file(&path).expect("removed");
    }
}
