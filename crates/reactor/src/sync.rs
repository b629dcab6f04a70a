//! Synchronisation primitives. Code that also runs under a thread model
//! (`tests/a_worker_reads_every_note.rs`), imports them from here; the model replaces them.

pub(crate) use std::sync::atomic::AtomicBool;

pub(crate) use parking_lot::Mutex;
