//! Prevents keys from leaving the memory of this process.

use anyhow::Context;
use rustix::{
    mm::{MlockAllFlags, mlockall},
    process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit},
    thread::{CapabilitySet, capabilities},
};
use tracing::warn;

/// No core dumps, no debugger of the same user, no swapping where the system allows it. Comes
/// before the first key is read.
///
/// # Errors
/// One of the first two cannot be had.
pub fn harden() -> anyhow::Result<()> {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none).context("cannot disable core dumps")?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot disable core dumps")?;
    lock_memory();
    Ok(())
}

/// Locks all memory, unless a limit is set: with a limit, later allocations would fail.
fn lock_memory() {
    let limit = getrlimit(Resource::Memlock);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let unlimited = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Memlock, unlimited).is_err() {
        let _ = setrlimit(Resource::Memlock, raised);
    }
    let is_exempt =
        capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    if getrlimit(Resource::Memlock).current.is_some() && !is_exempt {
        warn!(
            "memory is not locked, keys may be swapped out: set LimitMEMLOCK=infinity or give \
             CAP_IPC_LOCK"
        );
        return;
    }
    // ONFAULT: pages are locked as they come into use, not the whole of every thread's stack.
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if let Err(error) = mlockall(flags) {
        warn!(%error, "memory is not locked, keys may be swapped out");
    }
}
