//! The C library's heap: kept small, as its free parts are memory that the shards cannot have.
#![allow(unsafe_code)]

/// Heaps that threads share; each has free parts of its own.
const HEAPS_MAX: libc::c_int = 2;

/// Lets all threads share few heaps; to be called before there are many.
pub(super) fn share() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes two numbers and changes only the allocator's own settings.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS_MAX);
    }
}

/// Gives the free parts back to the system.
pub(super) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number; the allocator's own locks keep other threads out.
    unsafe {
        libc::malloc_trim(0);
    }
}
