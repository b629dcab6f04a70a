//! The C library's heap: kept small, as its free parts are memory that the shards cannot have.
#![allow(unsafe_code)]

/// Heaps that threads share; each has free parts of its own.
const HEAPS_MAX: libc::c_int = 2;

/// Longer allocations are mappings of their own, which leave the process when they are freed. Left to
/// itself the library raises this to the longest ever freed, and long requests stay in its heaps.
const MAPPED_BYTES_MIN: libc::c_int = 512 << 10;
/// Free bytes at the end of a heap that are kept.
const KEPT_BYTES: libc::c_int = 1 << 20;

/// Lets all threads share few heaps that stay small; to be called before there are many.
pub(super) fn share() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes two numbers and changes only the allocator's own settings.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS_MAX);
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
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
