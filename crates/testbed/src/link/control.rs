//! Commands from a handle to the thread that moves its bytes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::EventfdFlags;
use rustix::time::Timespec;

/// A command of a handle to its thread.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    Cut,
    Restore,
    SetDelay { up: Duration, down: Duration },
    Stop,
}

/// A command, and the channel that reports its completion.
type Order = (Command, SyncSender<()>);

/// The handle's end. Dropping it stops the thread and waits for its end.
pub(super) struct Control {
    orders: Sender<Order>,
    wake: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

/// The thread's end. Its descriptor becomes readable when commands wait.
pub(super) struct Commands {
    orders: Receiver<Order>,
    wake: OwnedFd,
}

impl Control {
    /// Starts a thread that moves bytes. `prepare` runs on the calling thread, which gets its
    /// errors; the closure that it returns runs on the new thread.
    pub(super) fn start<Run: FnOnce() + Send + 'static>(
        name: &str,
        prepare: impl FnOnce(Commands) -> io::Result<Run>,
    ) -> io::Result<Self> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (orders, receiver) = channel();
        let run = prepare(Commands { orders: receiver, wake: wake.try_clone()? })?;
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(Self { orders, wake, thread: Some(thread) })
    }

    /// Returns after the thread has carried out the command, or has ended.
    pub(super) fn command(&self, command: Command) {
        let (obeyed, wait) = sync_channel(1);
        if self.orders.send((command, obeyed)).is_ok() {
            // Fails only if the counter would overflow, and then the thread is awake anyway.
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
            let _ = wait.recv();
        }
    }

    /// Stops the thread and waits for its end.
    pub(super) fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.command(Command::Stop);
            if thread.join().is_err() {
                tracing::error!("a thread of the link panicked; please report this as a bug");
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Commands {
    /// Carries out waiting commands. False when the thread must end.
    pub(super) fn carry_out(&self, mut obey: impl FnMut(Command)) -> bool {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        while let Ok((command, obeyed)) = self.orders.try_recv() {
            if matches!(command, Command::Stop) {
                return false;
            }
            obey(command);
            let _ = obeyed.send(());
        }
        true
    }
}

impl AsFd for Commands {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// A duration as the `timespec` of the kernel.
pub(super) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
