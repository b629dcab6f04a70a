//! Reads, and writes of table pages, of a [`FileDevice`] by io_uring, for one thread.
//!
//! An event loop submits all requests of a round in one call and receives completions as events, so
//! a lookup, or the page that is evicted for it, needs no other thread. Where the kernel does not
//! allow io_uring (containers often forbid it), and for long reads, the caller carries commands out
//! by threads.
//!
//! It contains `unsafe` calls: the kernel uses a buffer until the transfer has completed, so each
//! buffer is kept until then.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    time::Duration,
};

use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use slab::Slab;

use crate::device::{CommandId, Completion, DeviceCommand, FileName, Operation};
use crate::file_device::{AlignedTransfer, FileDevice};

/// Maximum number of concurrent reads and writes of one thread.
const TRANSFERS_MAX: usize = 128;
/// Maximum size of a read by a ring; longer ones, which could block, are for a thread.
const READ_BYTES_MAX: usize = 64 << 10;

/// One thread's ring. Each command in it has a `Label` chosen by the caller, returned with its
/// result.
pub struct Ring<Label> {
    ring: IoUring,
    under_way: Slab<UnderWay<Label>>,
    /// Some entries were not submitted yet.
    pushed: bool,
}

struct UnderWay<Label> {
    label: Label,
    id: CommandId,
    transfer: AlignedTransfer,
}

impl<Label> Ring<Label> {
    /// A ring, if the kernel allows one.
    ///
    /// # Errors
    /// It does not.
    pub fn new() -> io::Result<Self> {
        let ring = IoUring::new(TRANSFERS_MAX as u32)?;
        Ok(Self { ring, under_way: Slab::new(), pushed: false })
    }

    /// Takes a command for `device`; returns the command if it is not for a ring.
    ///
    /// # Errors
    /// The command.
    pub fn push(
        &mut self,
        label: impl FnOnce() -> Label,
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
            // A page of the table: it is short and need not be synced.
            Operation::Write { offset, ref bytes } if file == FileName::Spill => {
                (device.begin_write(file, offset, bytes), false)
            }
            _ => return Err(command),
        };
        // If its file cannot be opened, a thread reports the error.
        let Ok(transfer) = transfer else { return Err(command) };
        let entry = self.under_way.vacant_entry();
        let place = entry.key() as u64;
        let UnderWay { transfer, .. } = entry.insert(UnderWay { label: label(), id, transfer });
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
            // Cannot happen: the ring has an entry for every transfer in progress.
            self.under_way.remove(place as usize);
            return Err(command);
        }
        self.pushed = true;
        Ok(())
    }

    /// Submits the entries that were pushed.
    ///
    /// # Errors
    /// The kernel takes nothing now: entries stay in the ring for the next call.
    pub fn submit(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.pushed) {
            self.ring.submit().inspect_err(|_| self.pushed = true)?;
        }
        Ok(())
    }

    /// Whether any command is in progress.
    pub fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Whether [`Ring::submit`] must be called again.
    pub fn must_submit(&self) -> bool {
        self.pushed
    }

    /// Takes the completed transfers.
    pub fn take(&mut self, ended: &mut Vec<(Label, Completion)>) {
        for entry in self.ring.completion() {
            let Some(UnderWay { label, id, transfer }) =
                self.under_way.try_remove(entry.user_data() as usize)
            else {
                continue;
            };
            let done = match entry.result() {
                done if done < 0 => Err(io::Error::from_raw_os_error(-done)),
                done => Ok(done as usize),
            };
            let completion = Completion { id, result: transfer.finish(done) };
            ended.push((label, completion));
        }
    }

    /// Waits until one ends, or until the timeout.
    ///
    /// # Errors
    /// It cannot wait, and has not.
    pub fn wait_for(&self, timeout: Duration) -> io::Result<()> {
        let timespec = types::Timespec::from(timeout);
        let arguments = types::SubmitArgs::new().timespec(&timespec);
        match self.ring.submitter().submit_with_args(1, &arguments) {
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::TIME | Errno::INTR) => Ok(()),
                _ => Err(error),
            },
            Ok(_) => Ok(()),
        }
    }

    /// Waits for the end of at least one.
    ///
    /// # Errors
    /// It cannot wait, and has not.
    pub fn wait(&self) -> io::Result<()> {
        self.ring.submit_and_wait(1).map(drop)
    }
}

impl<Label> Drop for Ring<Label> {
    fn drop(&mut self) {
        let mut ended = Vec::new();
        while self.is_busy() {
            // The kernel may still use the memory: there is nothing but to try again.
            let _ = self.wait();
            self.take(&mut ended);
        }
    }
}

impl<Label> AsFd for Ring<Label> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is the ring's, which lives as long as `self`.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::device::Device;

    use super::*;

    fn carry_out(ring: &mut Ring<()>, device: &FileDevice, operation: Operation) -> Vec<u8> {
        let command = DeviceCommand { id: CommandId(1), file: FileName::Spill, operation };
        ring.push(|| (), device, command).expect("the ring takes it");
        ring.submit().expect("taken");
        let mut ended = Vec::new();
        while ended.is_empty() {
            ring.wait().expect("waits");
            ring.take(&mut ended);
        }
        ended.remove(0).1.result.expect("carried out")
    }

    #[test]
    fn a_page_leaves_and_comes_back_by_the_ring() {
        let Ok(mut ring) = Ring::<()>::new() else {
            eprintln!("SKIPPED: io_uring is unavailable");
            return;
        };
        let directory = std::env::temp_dir().join(format!("ring-{}", std::process::id()));
        let device = FileDevice::open(&directory).expect("opens");
        device.create(FileName::Spill, 0).expect("made");
        let page: Vec<u8> = (0..4096u32).map(|at| (at / 3) as u8).collect();
        // In any order, and a page that is written twice.
        for offset in [3 * 4096, 0, 3 * 4096] {
            let bytes = Arc::new(page.as_slice().into());
            assert!(carry_out(&mut ring, &device, Operation::Write { offset, bytes }).is_empty());
            assert_eq!(device.read(FileName::Spill, offset, 4096).expect("read"), page);
            let read = Operation::Read { offset, bytes: 4096 };
            assert_eq!(carry_out(&mut ring, &device, read), page);
        }
        // Writes of the log use the threads: they are long and are synced there.
        let bytes = Arc::new(page.as_slice().into());
        let operation = Operation::Write { offset: 0, bytes };
        let command = DeviceCommand { id: CommandId(2), file: FileName::Segment(1), operation };
        assert!(ring.push(|| (), &device, command).is_err());
        drop(ring);
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
