//! Network namespaces without a name. Each ends with the last file, socket and thread in it, and
//! therefore with this process, also if that is killed.
//!
//! This file contains the `unsafe` call.
#![allow(unsafe_code)]

use std::{fs::File, thread};

use anyhow::{Context, bail};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// A new network namespace.
///
/// # Errors
/// The process lacks root privileges.
pub(super) fn create() -> anyhow::Result<File> {
    let create = || {
        // SAFETY: the thread leaves its network namespace only. It shares its files as before.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
            .context("cannot create a network namespace; root is required")?;
        File::open("/proc/thread-self/ns/net").context("cannot open a new network namespace")
    };
    let thread = thread::spawn(create);
    thread.join().unwrap_or_else(|_| bail!("the thread of a new network namespace panicked"))
}
