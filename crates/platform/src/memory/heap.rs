//! The C library's heap: kept small, as its free parts are memory that the shards cannot have.
#![allow(unsafe_code)]

/// Longer allocations are mappings of their own, which leave the process when they are freed. Left
/// to itself the library raises this to the longest ever freed, and long requests stay in its
/// heaps.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES_MIN: libc::c_int = 512 << 10;
/// Free bytes at the end of a heap that are kept.
#[cfg(target_env = "gnu")]
const KEPT_BYTES: libc::c_int = 1 << 20;

/// Limits all threads to `heaps` shared heaps, which stay small and return their free memory; to be
/// called before many threads exist.
pub fn share(heaps: i32) {
    #[cfg(not(target_env = "gnu"))]
    let _ = heaps;
    #[cfg(target_env = "gnu")]
    // SAFETY: takes two numbers and changes only the allocator's own settings.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, heaps);
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
    }
}

/// Returns free heap memory to the system.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number; the allocator's own locks keep other threads out.
    unsafe {
        libc::malloc_trim(0);
    }
}
