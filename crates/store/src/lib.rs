//! Key-value storage.
