//! What services count while they work: events and latencies.
//!
//! **What it is.** Counters and histograms of latency in memory that is fixed at the start, cheap
//! enough for the path of every request, and what is read from them.
//!
//! **What it is not.** No clock: the caller measures. No names and no text: crate `endpoint` writes
//! metrics and `/stats`.
//!
//! **Read first:** [`Latencies`].
#![forbid(unsafe_code)]

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

mod latency;

pub use latency::{Latencies, Spread, quantile};

/// A number that only grows, with any number of readers.
pub trait Count: Default + fmt::Debug {
    /// Adds `n`.
    fn add(&self, n: u64);
    /// The value now.
    fn value(&self) -> u64;
}

/// A counter with one writer.
///
/// Because of the single writer a plain load and store are sufficient; it costs no more than `+=
/// 1`.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owner of the counter may call it.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The value now.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Count for Counter {
    fn add(&self, n: u64) {
        self.add(n);
    }

    fn value(&self) -> u64 {
        self.value()
    }
}

/// A counter with any number of writers.
#[derive(Debug, Default)]
pub struct SharedCounter(AtomicU64);

impl SharedCounter {
    /// Adds one.
    pub fn count(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// The value now.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Count for SharedCounter {
    fn add(&self, n: u64) {
        self.add(n);
    }

    fn value(&self) -> u64 {
        self.value()
    }
}
