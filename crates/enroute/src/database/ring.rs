//! Reads that the kernel carries out by itself (io_uring), for one worker.
//!
//! A worker hands over all reads of a round in one call and finds their ends in its event loop, so
//! no other thread has to be woken for a lookup. Where the kernel does not let it (containers often
//! forbid it), and for long reads, there are the threads in `disk.rs`.
//!
//! It has calls that the compiler cannot check: the kernel writes into a buffer while the read is
//! under way, so each is kept until then.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    time::Instant,
};

use io_uring::{IoUring, opcode, types};
use slab::Slab;
use store::{
    AlignedRead, FileDevice,
    device::{CommandId, Completion, DeviceCommand, FileName, Operation},
};

use super::disk::Ended;

/// Reads of one worker under way at once.
const READS_MAX: usize = 128;
/// A longer read may keep its worker from others; it is for a thread.
const READ_BYTES_MAX: usize = 64 << 10;

/// One worker's ring.
pub(super) struct Ring {
    ring: IoUring,
    under_way: Slab<Read>,
    /// Buffers to be used again.
    buffers: Vec<Vec<u8>>,
    /// Some are not handed over yet.
    pushed: bool,
}

struct Read {
    shard: usize,
    id: CommandId,
    file: FileName,
    read: AlignedRead,
    began: Instant,
}

impl Ring {
    /// A ring, if the kernel allows one.
    pub(super) fn new() -> io::Result<Self> {
        let ring = IoUring::new(READS_MAX as u32)?;
        Ok(Self { ring, under_way: Slab::new(), buffers: Vec::new(), pushed: false })
    }

    /// Takes a read of that shard's device; gives the command back if it is not for a ring.
    pub(super) fn push(
        &mut self,
        shard: usize,
        device: &FileDevice,
        command: DeviceCommand,
    ) -> Result<(), DeviceCommand> {
        let Operation::Read { offset, bytes } = command.operation else { return Err(command) };
        if bytes > READ_BYTES_MAX || self.under_way.len() == READS_MAX {
            return Err(command);
        }
        let buffer = self.buffers.pop().unwrap_or_default();
        // If its file cannot be opened, a thread will say so.
        let Ok(read) = device.begin_read(command.file, offset, bytes, buffer) else {
            return Err(command);
        };
        let entry = self.under_way.vacant_entry();
        let place = entry.key() as u64;
        let (id, file, began) = (command.id, command.file, Instant::now());
        let Read { read, .. } = entry.insert(Read { shard, id, file, read, began });
        let (file, offset) = (types::Fd(read.file().as_raw_fd()), read.offset());
        let target = read.target();
        let length = u32::try_from(target.len()).unwrap_or(u32::MAX);
        let operation = opcode::Read::new(file, target.as_mut_ptr(), length).offset(offset);
        let operation = operation.build().user_data(place);
        // SAFETY: file and buffer are kept in `under_way` until the kernel says that the read has
        // ended, also when the ring is dropped; the buffer's memory is on the heap and is not
        // touched meanwhile.
        let pushed = unsafe { self.ring.submission().push(&operation) };
        if pushed.is_err() {
            // Never, as there is room for all that may be under way.
            self.under_way.remove(place as usize);
            return Err(command);
        }
        self.pushed = true;
        Ok(())
    }

    /// Hands over what was pushed.
    pub(super) fn submit(&mut self) {
        if !std::mem::take(&mut self.pushed) {
            return;
        }
        if let Err(error) = self.ring.submit() {
            // What was not taken stays in the ring for the next time.
            self.pushed = true;
            tracing::debug!("the kernel takes no reads now: {error}");
        }
    }

    /// Are reads under way?
    pub(super) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Must [`Ring::submit`] be tried again?
    pub(super) fn must_submit(&self) -> bool {
        self.pushed
    }

    /// Takes the reads that have ended.
    pub(super) fn take(&mut self, ended: &mut Vec<Ended>) {
        for entry in self.ring.completion() {
            let Some(Read { shard, id, file, read, began }) =
                self.under_way.try_remove(entry.user_data() as usize)
            else {
                continue;
            };
            let got = match entry.result() {
                got if got < 0 => Err(io::Error::from_raw_os_error(-got)),
                got => Ok(got as usize),
            };
            let (result, buffer) = read.finish(got);
            if self.buffers.len() < READS_MAX {
                self.buffers.push(buffer);
            }
            let completion = Completion { id, result };
            ended.push(Ended { shard, file, completion, began: Some(began) });
        }
    }

    /// Waits for the end of at least one read.
    pub(super) fn wait(&self) {
        if let Err(error) = self.ring.submit_and_wait(1) {
            tracing::debug!("waiting for a read: {error}");
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut ended = Vec::new();
        while self.is_busy() {
            self.wait();
            self.take(&mut ended);
        }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is the ring's, which lives as long as `self`.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}
