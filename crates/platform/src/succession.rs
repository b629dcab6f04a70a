//! Replacing a running service by a new process of its program file, without closing its ports.
//!
//! The old process, the *predecessor*, starts the program again with its own arguments and gives
//! the *successor* its listening sockets and one end of a channel. The successor says that it has
//! read its configuration, is told to take over, and says that it serves. The predecessor then
//! accepts no more, serves its clients to their end or for a limited time, says whether it leaves
//! anything under way, and exits. The end of the channel is the end of the predecessor, however it
//! came.
#![allow(unsafe_code)]

use std::{
    env,
    io::{Read, Write},
    net::TcpListener,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram, UnixStream},
    },
    process::{Child, Command},
    time::Duration,
};

use anyhow::{Context, bail};
use rustix::io::FdFlags;

/// Parent, channel and sockets, as numbers: set for the successor only.
const VARIABLE: &str = "ENROUTE_PREDECESSOR";
/// What is said on the channel, in this order; all but the second and the last by the successor.
const PREPARED: u8 = b'p';
const TAKE_OVER: u8 = b't';
const SERVES: u8 = b's';
const CLEAN: u8 = b'c';

/// Time that a successor may take to prepare, and to serve.
pub const STEP_MAX: Duration = Duration::from_secs(30);

/// The new process, as the old one sees it.
pub struct Successor {
    process: Child,
    channel: UnixStream,
}

impl Successor {
    /// Starts the program file again, with the arguments of this process and its sockets, and waits
    /// until it is prepared: nothing has changed for clients yet.
    ///
    /// # Errors
    /// It cannot be started, ends, or is not prepared within [`STEP_MAX`], and is then ended.
    pub fn start(sockets: &[TcpListener]) -> anyhow::Result<Self> {
        let mut arguments = env::args_os();
        let program = arguments.next().context("the program file is not known")?;
        let (channel, theirs) = UnixStream::pair().context("cannot make a channel")?;
        // Duplicates are inherited; they are closed here once the process has started.
        let inherited = std::iter::once(rustix::io::dup(&theirs))
            .chain(sockets.iter().map(rustix::io::dup))
            .collect::<Result<Vec<OwnedFd>, _>>()
            .context("cannot duplicate the sockets")?;
        let numbers: Vec<_> = inherited.iter().map(|each| each.as_raw_fd().to_string()).collect();
        let process = Command::new(&program)
            .args(arguments)
            .env(VARIABLE, format!("{} {}", std::process::id(), numbers.join(" ")))
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        drop((inherited, theirs));
        let mut successor = Self { process, channel };
        successor.hear(PREPARED)?;
        Ok(successor)
    }

    /// Has it serve, from the first moment on beside this process.
    ///
    /// # Errors
    /// It ends, or does not serve within [`STEP_MAX`], and is then ended. It may have served.
    pub fn take_over(&mut self) -> anyhow::Result<()> {
        let told = self.channel.write_all(&[TAKE_OVER]);
        told.context("the new process has ended").and_then(|()| self.hear(SERVES))?;
        tell_systemd(&format!("MAINPID={}", self.process.id()));
        Ok(())
    }

    fn hear(&mut self, expected: u8) -> anyhow::Result<()> {
        self.channel.set_read_timeout(Some(STEP_MAX))?;
        let mut said = [0];
        match self.channel.read(&mut said) {
            Ok(1) if said[0] == expected => Ok(()),
            Ok(0) => {
                let status = self.process.wait()?;
                bail!("the new process ended ({status}); its error is above")
            }
            Ok(_) => {
                self.process.kill()?;
                self.process.wait()?;
                bail!("the new process speaks another version of the hand-over and was ended")
            }
            Err(error) => {
                self.process.kill()?;
                self.process.wait()?;
                bail!("the new process did not start within {STEP_MAX:?} and was ended: {error}")
            }
        }
    }

    /// The number of the new process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Says that this process ends with nothing under way.
    pub fn end_clean(mut self) {
        // If the successor has ended, it does not wait.
        let _ = self.channel.write_all(&[CLEAN]);
    }
}

/// The old process, as the new one sees it.
pub struct Predecessor {
    channel: UnixStream,
}

impl Predecessor {
    /// The predecessor of this process, if it has one. To be called once.
    pub fn of_this_process() -> Option<Self> {
        let number = *inherited()?.first()?;
        // SAFETY: the predecessor made the descriptor for this process, which takes it here only.
        let channel = unsafe { OwnedFd::from_raw_fd(number) };
        rustix::io::fcntl_setfd(&channel, FdFlags::CLOEXEC).ok()?;
        Some(Self { channel: UnixStream::from(channel) })
    }

    /// Says that this process is prepared, and waits until it may serve.
    ///
    /// # Errors
    /// The predecessor has ended: it serves no more, and this process is not to start by itself.
    pub fn await_turn(&mut self) -> anyhow::Result<()> {
        let mut said = [0];
        let asked = self.channel.write_all(&[PREPARED]);
        asked
            .and_then(|()| self.channel.read_exact(&mut said))
            .context("the process that is to be replaced has ended")
    }

    /// Says that this process serves.
    ///
    /// # Errors
    /// The predecessor has ended.
    pub fn tell_serves(&mut self) -> std::io::Result<()> {
        self.channel.write_all(&[SERVES])
    }

    /// Waits for its end. True if it left nothing under way.
    pub fn await_end(mut self) -> bool {
        let mut said = Vec::new();
        self.channel.read_to_end(&mut said).is_ok() && said == [CLEAN]
    }
}

/// The listening sockets of the predecessor; none without one.
pub(crate) fn sockets() -> Option<Vec<i32>> {
    Some(inherited()?.split_off(1))
}

/// The descriptors that the predecessor made for this process: the channel, then the sockets.
fn inherited() -> Option<Vec<i32>> {
    let stated = env::var(VARIABLE).ok()?;
    let mut numbers = stated.split(' ').map(str::parse::<i32>);
    let parent = rustix::process::getppid()?.as_raw_nonzero().get();
    // A program that a service runs inherits the variable, but no descriptors.
    if numbers.next()?.ok()? != parent {
        return None;
    }
    let numbers = numbers.collect::<Result<Vec<_>, _>>().ok()?;
    (!numbers.is_empty()).then_some(numbers)
}

/// Tells systemd, if it has started this process and listens (`NotifyAccess=`, sd_notify(3)).
fn tell_systemd(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else { return };
    let bytes = path.as_encoded_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let told =
        UnixDatagram::unbound().and_then(|socket| socket.send_to_addr(state.as_bytes(), &address?));
    if let Err(error) = told {
        tracing::warn!("cannot tell systemd \"{state}\" ({error}); it may end the new process");
    }
}
