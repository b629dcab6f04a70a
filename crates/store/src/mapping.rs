//! Memory directly from the system: reserved once, resident from the first touch, released page by
//! page.
//!
//! A [`Mapping`] reserves many more addresses than it fills. Addresses cost nothing; a page costs
//! memory from its first touch until [`Mapping::release`]. Tables built on it therefore grow in
//! place without copying, and return memory when they shrink, which no general allocator guarantees
//! (docs/decisions/0001). It reads as zeroes until written, and is an ordinary slice: this file,
//! `checksum.rs` and `elastic/lanes.rs` are the files of the crate with `unsafe`.
//!
//! A page becomes resident by itself, so that a budget in bytes stays exact. Where all pages of a
//! huge page are resident, they can be collapsed into one ([`Mapping::next_full`]): a lookup in a
//! gigabyte then needs fewer steps of address translation. What is released from a huge page is no
//! longer resident; the system may keep it until other memory is short.

use std::mem::{self, ManuallyDrop};
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

use bytemuck::Pod;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Page size of the system. A larger page size only rounds releases down.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Length of a huge page.
pub(crate) const HUGE_BYTES: usize = 2 << 20;
/// Linux's number of the advice, the same for all processors; crate `libc` lacks it for musl.
const MADV_COLLAPSE: libc::c_int = 25;

/// Places for huge pages that one call of [`Mapping::next_full`] looks at.
const LOOKED_AT_MAX: usize = 64;

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
    /// Huge pages, by their number from the first aligned address on, whose collapse was asked for.
    collapsed: Vec<bool>,
    /// The huge page that [`Mapping::next_full`] looks at next.
    cursor: usize,
}

/// A request to collapse the pages of one huge page, which changes no content. It may be run after
/// the mapping has changed or ended: the system then refuses it, or collapses what is there.
#[derive(Debug)]
pub struct Collapse {
    address: usize,
}

impl Collapse {
    /// Asks the system, in some 100 microseconds, during which accesses to this memory wait. A
    /// system that cannot (Linux before 6.1, no huge page free) leaves everything as it is.
    pub fn run(self) {
        // SAFETY: this advice changes no content of any memory, whatever is mapped there.
        unsafe {
            libc::madvise(self.address as *mut libc::c_void, HUGE_BYTES, MADV_COLLAPSE);
        }
    }
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
        // Huge pages from the first touch on would make two megabytes resident for one byte and
        // undo every release; a kernel without them refuses the advice, which is just as well.
        // SAFETY: the range is the mapping just made; the advice changes no content.
        let _ = unsafe { madvise(base, bytes, Advice::LinuxNoHugepage) };
        let base = NonNull::new(base.cast()).expect("a mapping is never at address 0");
        Self { base, len, collapsed: Vec::new(), cursor: 0 }
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
        let mut mapping = ManuallyDrop::new(self);
        let (base, len) = (mapping.base.cast(), mapping.len * size_of::<T>());
        let (collapsed, cursor) = (mem::take(&mut mapping.collapsed), mapping.cursor);
        Mapping { base, len, collapsed, cursor }
    }

    /// The next huge page, among a bounded number of them within the first `end` bytes, whose pages
    /// are not collapsed although they are all resident, which `is_full` says of a range of bytes.
    pub(crate) fn next_full(
        &mut self,
        end: usize,
        is_full: impl Fn(Range<usize>) -> bool,
    ) -> Option<Collapse> {
        let count = end.saturating_sub(self.first_huge()) / HUGE_BYTES;
        if self.collapsed.len() < count {
            self.collapsed.resize(count, false);
        }
        for _ in 0..count.min(LOOKED_AT_MAX) {
            self.cursor = if self.cursor + 1 < count { self.cursor + 1 } else { 0 };
            let (number, range) = (self.cursor, self.huge(self.cursor));
            if !self.collapsed[number] && is_full(range.clone()) {
                self.collapsed[number] = true;
                let address = self.advise(&range, Advice::LinuxHugepage);
                return Some(Collapse { address });
            }
        }
        None
    }

    /// Offset of the first aligned address, in bytes.
    fn first_huge(&self) -> usize {
        self.base.as_ptr().addr().next_multiple_of(HUGE_BYTES) - self.base.as_ptr().addr()
    }

    /// The bytes of the huge page with this number.
    fn huge(&self, number: usize) -> Range<usize> {
        let start = self.first_huge() + number * HUGE_BYTES;
        start..start + HUGE_BYTES
    }

    /// Declines huge pages again wherever bytes of `range` are in one: the system would fill what
    /// is released from them.
    fn decline(&mut self, range: &Range<usize>) {
        let number = |byte: usize| byte.saturating_sub(self.first_huge()) / HUGE_BYTES;
        let numbers = number(range.start)..(number(range.end - 1) + 1).min(self.collapsed.len());
        for number in numbers {
            if self.collapsed[number] {
                self.collapsed[number] = false;
                self.advise(&self.huge(number), Advice::LinuxNoHugepage);
            }
        }
    }

    /// Gives advice about a range of bytes that changes no content; returns its address.
    fn advise(&self, range: &Range<usize>, advice: Advice) -> usize {
        debug_assert!(matches!(advice, Advice::LinuxHugepage | Advice::LinuxNoHugepage));
        let start = self.base.as_ptr().wrapping_byte_add(range.start);
        // SAFETY: the range is in this mapping; the advice changes no content.
        let _ = unsafe { madvise(start.cast(), range.len(), advice) };
        start.addr()
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
        self.decline(&(start..end));
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

    /// Resident pages of a mapping. Not by /proc/self/smaps, where neighbouring mappings of other
    /// threads are one with it.
    fn resident(mapping: &Mapping<u64>) -> usize {
        let bytes = size_of_val::<[u64]>(mapping);
        let mut pages = vec![0u8; bytes / PAGE_BYTES];
        let start = mapping.as_ptr().cast_mut().cast();
        // SAFETY: the range is this mapping, and there is a byte for each of its pages.
        let told = unsafe { libc::mincore(start, bytes, pages.as_mut_ptr().cast()) };
        assert_eq!(told, 0, "{}", std::io::Error::last_os_error());
        pages.iter().filter(|&page| page & 1 == 1).count()
    }

    #[test]
    fn full_memory_collapses_into_huge_pages_without_growing() {
        const WORDS: usize = HUGE_BYTES / size_of::<u64>();
        let mut mapping = Mapping::<u64>::reserve(64 * WORDS);
        let filled = 5 * WORDS + 77;
        (0..filled).for_each(|word| mapping[word] = word as u64);
        let full = filled * size_of::<u64>() / PAGE_BYTES * PAGE_BYTES;
        // What is full ends before what is looked at.
        let end = 16 * HUGE_BYTES;
        let before = resident(&mapping);
        assert_eq!(before, filled.div_ceil(PAGE_BYTES / size_of::<u64>()));
        let mut asked = 0;
        while let Some(collapse) = mapping.next_full(end, |range| range.end <= full) {
            collapse.run();
            asked += 1;
        }
        assert!((4..=5).contains(&asked), "{asked} huge pages in five times their length");
        assert_eq!(resident(&mapping), before, "nothing more is resident");
        assert!((0..filled).all(|word| mapping[word] == word as u64));

        // A hole is not filled again, and its huge page is asked for when it is full again.
        mapping.release(2 * WORDS..2 * WORDS + 4096);
        assert!(mapping[2 * WORDS..2 * WORDS + 4096].iter().all(|&word| word == 0));
        (2 * WORDS..2 * WORDS + 4096).for_each(|word| mapping[word] = word as u64);
        let again = mapping.next_full(end, |range| range.end <= full);
        again.expect("it is in ordinary pages").run();
        assert!(mapping.next_full(end, |range| range.end <= full).is_none());
        assert!((0..filled).all(|word| mapping[word] == word as u64));
    }
}
