//! Reads, and writes of table pages, by io_uring, for one thread: a worker, or the maintenance
//! thread, which reads ahead.
//!
//! A worker submits all requests of a round in one call and gets completions in its event loop, so
//! no other thread has to be woken for a lookup, or for the page that is evicted for it. Where the
//! kernel does not allow io_uring (containers often forbid it), and for long reads, the threads in
//! `disk.rs` are used.
//!
//! It contains `unsafe` calls: the kernel uses a buffer until the transfer has completed, so each
//! buffer is kept until then.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    thread,
    time::{Duration, Instant},
};

use io_uring::{IoUring, opcode, types};
use slab::Slab;
use store::{
    AlignedTransfer, FileDevice,
    device::{CommandId, Completion, DeviceCommand, FileName, Operation},
};

use super::disk::Ended;

/// Reads and writes of one thread under way at once.
const TRANSFERS_MAX: usize = 128;
/// Maximum size of a read by a ring; longer ones, which could block, are for a thread.
const READ_BYTES_MAX: usize = 64 << 10;

/// One thread's ring.
pub(super) struct Ring {
    ring: IoUring,
    under_way: Slab<UnderWay>,
    /// Some are not handed over yet.
    pushed: bool,
}

struct UnderWay {
    shard: usize,
    id: CommandId,
    file: FileName,
    transfer: AlignedTransfer,
    /// Of a read.
    began: Option<Instant>,
}

impl Ring {
    /// A ring, if the kernel allows one.
    pub(super) fn new() -> io::Result<Self> {
        let ring = IoUring::new(TRANSFERS_MAX as u32)?;
        Ok(Self { ring, under_way: Slab::new(), pushed: false })
    }

    /// Takes a device command of that shard; returns the command if it is not for a ring.
    pub(super) fn push(
        &mut self,
        shard: usize,
        device: &FileDevice,
        command: DeviceCommand,
    ) -> Result<(), DeviceCommand> {
        let DeviceCommand { id, file, ref operation } = command;
        if self.under_way.len() == TRANSFERS_MAX {
            return Err(command);
        }
        let (transfer, is_read) = match *operation {
            Operation::Read { offset, bytes } if bytes <= READ_BYTES_MAX => {
                (device.begin_read(file, offset, bytes), true)
            }
            // A page of the table: nothing has to be synced, and each is short.
            Operation::Write { offset, ref bytes } if file == FileName::Spill => {
                (device.begin_write(file, offset, bytes), false)
            }
            _ => return Err(command),
        };
        // If its file cannot be opened, a thread reports the error.
        let Ok(transfer) = transfer else { return Err(command) };
        let entry = self.under_way.vacant_entry();
        let place = entry.key() as u64;
        let began = is_read.then(Instant::now);
        let UnderWay { transfer, .. } = entry.insert(UnderWay { shard, id, file, transfer, began });
        let (descriptor, offset) = (types::Fd(transfer.file().as_raw_fd()), transfer.offset());
        let target = transfer.target();
        let length = u32::try_from(target.len()).unwrap_or(u32::MAX);
        let operation = if is_read {
            opcode::Read::new(descriptor, target.as_mut_ptr(), length).offset(offset).build()
        } else {
            opcode::Write::new(descriptor, target.as_ptr(), length).offset(offset).build()
        };
        let operation = operation.user_data(place);
        // SAFETY: file and buffer are kept in `under_way` until the kernel says that the transfer
        // has ended, also when the ring is dropped; the buffer's memory stays where it is and is
        // not touched until then.
        let pushed = unsafe { self.ring.submission().push(&operation) };
        if pushed.is_err() {
            // Cannot happen: the ring has an entry for every transfer in flight.
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
            // Entries that were not accepted stay in the ring for the next call.
            self.pushed = true;
            tracing::debug!("io_uring accepts no request, retrying: {error}");
        }
    }

    /// Is anything under way?
    pub(super) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Must [`Ring::submit`] be tried again?
    pub(super) fn must_submit(&self) -> bool {
        self.pushed
    }

    /// Takes what has ended.
    pub(super) fn take(&mut self, ended: &mut Vec<Ended>) {
        for entry in self.ring.completion() {
            let Some(UnderWay { shard, id, file, transfer, began }) =
                self.under_way.try_remove(entry.user_data() as usize)
            else {
                continue;
            };
            let done = match entry.result() {
                done if done < 0 => Err(io::Error::from_raw_os_error(-done)),
                done => Ok(done as usize),
            };
            let completion = Completion { id, result: transfer.finish(done) };
            ended.push(Ended { shard, file, completion, began });
        }
    }

    /// Waits until one ends, or until the timeout.
    pub(super) fn wait_for(&self, timeout: Duration) {
        let timespec = types::Timespec::from(timeout);
        let arguments = types::SubmitArgs::new().timespec(&timespec);
        match self.ring.submitter().submit_with_args(1, &arguments) {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => {
                tracing::debug!("io_uring: cannot wait for completions: {error}");
                thread::sleep(timeout);
            }
            _ => {}
        }
    }

    /// Waits for the end of at least one.
    pub(super) fn wait(&self) {
        if let Err(error) = self.ring.submit_and_wait(1) {
            tracing::debug!("io_uring: cannot wait for completions: {error}");
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store::device::Device;

    use super::*;

    fn carry_out(ring: &mut Ring, device: &FileDevice, operation: Operation) -> Vec<u8> {
        let command = DeviceCommand { id: CommandId(1), file: FileName::Spill, operation };
        ring.push(0, device, command).expect("the ring takes it");
        ring.submit();
        let mut ended = Vec::new();
        while ended.is_empty() {
            ring.wait();
            ring.take(&mut ended);
        }
        ended.remove(0).completion.result.expect("carried out")
    }

    #[test]
    fn a_page_leaves_and_comes_back_by_the_ring() {
        let Ok(mut ring) = Ring::new() else {
            eprintln!("SKIPPED: the kernel allows no ring");
            return;
        };
        let directory = std::env::temp_dir().join(format!("ring-{}", std::process::id()));
        let device = FileDevice::open(&directory).expect("opens");
        device.create(FileName::Spill, 0).expect("made");
        let page: Vec<u8> = (0..4096u32).map(|at| (at / 3) as u8).collect();
        // In any order, and again where there was one.
        for offset in [3 * 4096, 0, 3 * 4096] {
            let bytes = Arc::new(page.as_slice().into());
            assert!(carry_out(&mut ring, &device, Operation::Write { offset, bytes }).is_empty());
            assert_eq!(device.read(FileName::Spill, offset, 4096).expect("read"), page);
            let read = Operation::Read { offset, bytes: 4096 };
            assert_eq!(carry_out(&mut ring, &device, read), page);
        }
        // Writes of the log are for the threads: they are long and are synced there.
        let bytes = Arc::new(page.as_slice().into());
        let operation = Operation::Write { offset: 0, bytes };
        let command = DeviceCommand { id: CommandId(2), file: FileName::Segment(1), operation };
        assert!(ring.push(0, &device, command).is_err());
        drop(ring);
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
