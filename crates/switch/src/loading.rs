//! A signal, even a stop, aborts the verification of a program by the kernel.

use std::io;

use aya::programs::ProgramError;

/// Maximum number of attempts to load a program, as in libbpf.
const LOADS_MAX: usize = 5;

/// Loads again what a signal interrupted.
pub(crate) fn uninterrupted<E>(
    is_interrupted: impl Fn(&E) -> bool,
    mut load: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    let is_final = |result: &Result<(), E>| !result.as_ref().is_err_and(&is_interrupted);
    (1..LOADS_MAX).map(|_| load()).find(is_final).unwrap_or_else(&mut load)
}

/// Whether the kernel says so.
pub(crate) fn is_interrupted(error: &ProgramError) -> bool {
    matches!(error, ProgramError::LoadError { io_error, .. } if io_error.kind() == io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_is_interrupted_is_tried_again() {
        for (interruptions, loads, loaded) in [(0, 1, true), (2, 3, true), (9, LOADS_MAX, false)] {
            let mut tried = 0;
            let load = || {
                tried += 1;
                if tried > interruptions { Ok(()) } else { Err(()) }
            };
            assert_eq!(uninterrupted(|()| true, load).is_ok(), loaded);
            assert_eq!(tried, loads);
        }
        assert!(uninterrupted(|()| false, || Err(())).is_err());
    }
}
