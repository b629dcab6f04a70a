//! A program that is loaded into the kernel; a test is skipped without one.
#![allow(clippy::print_stdout, reason = "a test says what it skips")]

use std::fmt::{Debug, Display};

/// `None`, with the reason printed, without a compiler or without the right to load programs. CI
/// has both.
pub(crate) fn loaded<T, E: Debug + Display>(
    object: Option<&[u8]>,
    load: impl FnOnce() -> Result<T, E>,
) -> Option<T> {
    let reason = match object.map(|_| load()) {
        None => "built without clang".to_owned(),
        Some(Ok(loaded)) => return Some(loaded),
        Some(Err(error)) if is_root() => panic!("{error:?}"),
        Some(Err(error)) => error.to_string(),
    };
    println!("SKIPPED: {reason}");
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{reason}");
    None
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.lines().any(|line| line.starts_with("Uid:\t0\t")))
}
