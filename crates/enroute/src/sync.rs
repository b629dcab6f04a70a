//! What threads keep each other apart with. Code that is run by a model of threads, too
//! (`tests/no_thread_sleeps_over_what_it_was_told.rs`), takes it from here, and the model puts its own in this place.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64};

pub(crate) use parking_lot::{Condvar, Mutex};
