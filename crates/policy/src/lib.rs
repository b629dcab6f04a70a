//! Pure decisions, no I/O.
#![forbid(unsafe_code)]
