//! Memory directly from the system: reserved once, resident from the first touch, released page by
//! page.
//!
//! A [`Mapping`] reserves many more addresses than it fills. Addresses cost nothing; a page costs
//! memory from its first touch until [`Mapping::release`]. Tables built on it therefore grow in
//! place without copying, and return memory when they shrink, which no general allocator guarantees
//! (docs/decisions/0001). It reads as zeroes until written, and is an ordinary slice: this file,
//! `checksum.rs` and `elastic/lanes.rs` are the files of the crate with `unsafe`.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

use bytemuck::Pod;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Page size of the system. A larger page size only rounds releases down.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Rounds up to whole pages.
pub(crate) const fn pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE_BYTES)
}

/// Prefetches the cache line where `value` begins. Several prefetches overlap, whereas reads one
/// after another wait for each other.
#[inline]
pub(crate) fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it reads nothing and faults on nothing, and a reference points into memory anyway.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// A reserved, zeroed array of `T` that is resident only where it was written.
pub(crate) struct Mapping<T: Pod> {
    base: NonNull<T>,
    len: usize,
}

// SAFETY: a mapping owns its pages alone, exactly as a `Box<[T]>` would, and `T: Pod` holds no
// pointer and no thread-bound state.
unsafe impl<T: Pod + Send> Send for Mapping<T> {}

impl<T: Pod> Mapping<T> {
    /// Reserves room for `len` values of `T`, all zero.
    ///
    /// # Panics
    /// The system refuses the address space (`ulimit -v`, or `vm.overcommit_memory` = 2).
    pub(crate) fn reserve(len: usize) -> Self {
        assert!(align_of::<T>() <= PAGE_BYTES && size_of::<T>() > 0 && len > 0);
        #[cfg(test)]
        RESERVED.set(RESERVED.get() + 1);
        let bytes = len.checked_mul(size_of::<T>()).expect("a reservation fits the address space");
        // SAFETY: a fresh anonymous mapping at an address the system chooses aliases nothing.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let base = base.unwrap_or_else(|error| {
            panic!("cannot reserve {bytes} bytes of addresses ({error}); lift ulimit -v, or set vm.overcommit_memory to 0 or 1")
        });
        // Huge pages would make two megabytes resident for one touched byte and undo every
        // release; a kernel without them refuses the advice, which is just as well.
        // SAFETY: the range is the mapping just made; the advice changes no content.
        let _ = unsafe { madvise(base, bytes, Advice::LinuxNoHugepage) };
        Self { base: NonNull::new(base.cast()).expect("a mapping is never at address 0"), len }
    }

    /// Requests huge pages, for memory that is used as a whole and never released; without huge
    /// pages in the system nothing changes.
    pub(crate) fn ask_for_huge_pages(&mut self) {
        let bytes = self.len * size_of::<T>();
        // SAFETY: the range is this mapping; the advice changes no content.
        let _ = unsafe { madvise(self.base.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
    }

    /// The same memory as bytes.
    pub(crate) fn into_bytes(self) -> Mapping<u8> {
        let mapping = ManuallyDrop::new(self);
        Mapping { base: mapping.base.cast(), len: mapping.len * size_of::<T>() }
    }

    /// Returns the whole pages inside `range` (in values) to the system; they read as zero
    /// afterwards. Pages only partly inside stay.
    pub(crate) fn release(&mut self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.len);
        let start = pages(range.start * size_of::<T>());
        let end = range.end * size_of::<T>() / PAGE_BYTES * PAGE_BYTES;
        if start >= end {
            return;
        }
        // SAFETY: `start..end` lies inside the mapping and no reference to it exists (`&mut self`);
        // private anonymous pages read as zero after this advice, and zero is a valid `T: Pod`.
        let advised = unsafe {
            madvise(self.base.as_ptr().byte_add(start).cast(), end - start, Advice::LinuxDontNeed)
        };
        advised.expect("the range is mapped and aligned, so the system takes it back");
    }
}

impl<T: Pod> Deref for Mapping<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `base` is valid for `len` values for as long as `self` lives, is page-aligned,
        // and every bit pattern, the initial zeroes included, is a valid `T: Pod`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl<T: Pod> DerefMut for Mapping<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl<T: Pod> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, which has this length, and nothing refers to it any
        // more.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len * size_of::<T>()) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

#[cfg(test)]
thread_local! {
    /// Mappings that this thread has reserved.
    pub(crate) static RESERVED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_pages_read_as_zero_and_the_rest_stays() {
        let mut mapping = Mapping::<u32>::reserve(1 << 20);
        mapping[..4096].fill(7);
        mapping.release(1..2049);
        assert_eq!((mapping[0], mapping[1023], mapping[1024], mapping[2047]), (7, 7, 0, 0));
        assert_eq!((mapping[2048], mapping[4095]), (7, 7));
    }
}
