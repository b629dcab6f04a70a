//! Random bytes of the system, for secrets and seeds.

use anyhow::Context;
use rustix::rand::{GetRandomFlags, getrandom};

/// Fills `bytes`.
///
/// # Errors
/// The system has none.
pub(crate) fn fill(bytes: &mut [u8]) -> anyhow::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            got => filled += got.context("cannot get random bytes from the system")?,
        }
    }
    Ok(())
}
