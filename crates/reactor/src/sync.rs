//! What threads keep each other apart with. Code that is run by a model of threads, too
//! (`tests/a_worker_reads_every_note.rs`), takes it from here, and the model puts its own in this
//! place.

pub(crate) use std::sync::atomic::AtomicBool;

pub(crate) use parking_lot::Mutex;
