//! Synchronisation primitives. Code that also runs under a thread model
//! (`tests/no_thread_sleeps_over_what_it_was_told.rs`), imports them from here; the model replaces
//! them.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64};

pub(crate) use parking_lot::{Condvar, Mutex};
