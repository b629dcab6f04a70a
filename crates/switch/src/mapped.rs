//! Arrays of the kernel's, mapped: read and written without a system call.
#![allow(unsafe_code, reason = "memory shared with the kernel")]

use std::{
    ops::Deref,
    os::fd::AsFd,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::{
    error::Error,
    layout::{Entry, Flow, Line, Shared, Slot, Unit},
};

/// Types that may lie in memory that others write: atomics only, valid whatever the bytes.
///
/// # Safety
/// Every field is an atomic integer, and the size is a multiple of 8.
pub unsafe trait Plain {}

// SAFETY: atomics only.
unsafe impl Plain for Entry {}
// SAFETY: as above.
unsafe impl Plain for Shared {}
// SAFETY: as above.
unsafe impl Plain for Line {}
// SAFETY: as above.
unsafe impl Plain for Slot {}
// SAFETY: as above.
unsafe impl Plain for Unit {}
// SAFETY: as above.
unsafe impl Plain for Flow {}
// SAFETY: as above.
unsafe impl Plain for AtomicU64 {}

/// All elements of an array map.
#[derive(Debug)]
pub struct Mapped<T: Plain> {
    first: *const T,
    len: usize,
}

// SAFETY: only atomics are reached through it.
unsafe impl<T: Plain> Send for Mapped<T> {}
// SAFETY: as above.
unsafe impl<T: Plain> Sync for Mapped<T> {}

impl<T: Plain> Mapped<T> {
    /// The first `len` elements of the array behind `fd`.
    ///
    /// # Errors
    /// The kernel refuses, above all if the array is smaller.
    pub fn new(fd: impl AsFd, len: usize) -> Result<Self, Error> {
        const { assert!(size_of::<T>().is_multiple_of(8)) };
        let bytes = len * size_of::<T>();
        // SAFETY: a new mapping, at an address the kernel chooses.
        let first = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, fd, 0)
        }
        .map_err(Error::kernel(format!("cannot map {bytes} bytes of an array")))?;
        Ok(Self { first: first.cast(), len })
    }
}

impl<T: Plain> Deref for Mapped<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: mapped in `new`, page-aligned, `len` elements long until `drop`.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }
}

impl Mapped<Line> {
    /// All bytes, as the kernel has them.
    pub fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        self.iter().flatten().flat_map(|word| word.load(Relaxed).to_le_bytes())
    }

    /// The counter of 16 bits at `number`; 0 if there is none.
    pub fn counter(&self, number: u32) -> u16 {
        let line = self.get(number as usize / 32);
        let word = line.map_or(0, |line| line[number as usize % 32 / 4].load(Relaxed));
        (word >> (number % 4 * 16)) as u16
    }
}

impl<const WORDS: usize> Mapped<[AtomicU64; WORDS]>
where
    [AtomicU64; WORDS]: Plain,
{
    /// Forgets everything.
    pub fn clear(&self) {
        // Unwritten memory is not made dirty.
        for word in self.iter().flatten().filter(|word| word.load(Relaxed) != 0) {
            word.store(0, Relaxed);
        }
    }
}

impl<T: Plain> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and no reference outlives `self`.
        let unmapped = unsafe { munmap(self.first.cast_mut().cast(), self.len * size_of::<T>()) };
        debug_assert!(unmapped.is_ok());
    }
}
