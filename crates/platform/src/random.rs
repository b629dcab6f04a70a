//! Random bytes of the system, for secrets and seeds.

use rustix::{
    io::Errno,
    rand::{GetRandomFlags, getrandom},
};

/// Fills `bytes`.
///
/// # Panics
/// The system has none: nothing secret may be made then.
pub fn fill(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(got) => filled += got,
            Err(Errno::INTR) => {}
            Err(error) => panic!("the system provides no random bytes: {error}"),
        }
    }
}

/// This many random bytes, for a number.
///
/// # Panics
/// As [`fill`].
#[must_use]
pub fn bytes<const COUNT: usize>() -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    fill(&mut bytes);
    bytes
}
