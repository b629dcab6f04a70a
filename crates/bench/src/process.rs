//! The servers that are measured: started, watched from outside, ended.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use rustix::{
    process::{Signal, set_parent_process_death_signal},
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

/// Longer than any of them takes to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which cores a process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cores {
    /// The scheduler decides.
    Any,
    /// This core.
    One(usize),
}

/// Cores of the server and of the client, where they are kept apart.
pub(crate) const SERVER: Cores = Cores::One(0);
/// See [`SERVER`].
pub(crate) const CLIENT: Cores = Cores::One(1);

/// Runs `act` with this thread, and the processes it starts, kept on `cores`.
pub(crate) fn on<T>(cores: Cores, act: impl FnOnce() -> T) -> anyhow::Result<T> {
    let Cores::One(core) = cores else { return Ok(act()) };
    let before = sched_getaffinity(None)?;
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set)
        .with_context(|| format!("cannot stay on core {core}: two cores are needed"))?;
    let result = act();
    sched_setaffinity(None, &before)?;
    Ok(result)
}

/// A running server. Dropping it kills it, by its own process id.
pub(crate) struct Server {
    child: std::process::Child,
    log: PathBuf,
    /// The address it listens on.
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts `command`, which will listen on `address`, on `cores`; its output goes to `log`.
    pub(crate) fn start(
        command: &mut Command,
        address: SocketAddr,
        cores: Cores,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let mut server = Self { child: spawn(command, cores, log)?, log: log.into(), address };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            server.check()?;
            ensure!(began.elapsed() < PATIENCE, "{command:?} does not listen on {address}");
            thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// Starts `command`, which prints `listening on ADDRESS` once it does.
    pub(crate) fn start_and_ask(
        command: &mut Command,
        cores: Cores,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let child = spawn(command, cores, log)?;
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self { child, log: log.into(), address };
        let began = Instant::now();
        loop {
            let said = BufReader::new(File::open(log)?).lines().map_while(Result::ok);
            let mut found = said.filter_map(|line| {
                line.rsplit_once("listening on ").and_then(|(_, address)| address.parse().ok())
            });
            if let Some(address) = found.next() {
                server.address = address;
                return Ok(server);
            }
            server.check()?;
            ensure!(began.elapsed() < PATIENCE, "{command:?} does not report its address");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// CPU time used so far, in microseconds: to the nanosecond where no thread has ended, which
    /// only the sum over the process counts, in steps of 10 ms.
    pub(crate) fn cpu_us(&self) -> anyhow::Result<f64> {
        let process = PathBuf::from(format!("/proc/{}", self.child.id()));
        let mut nanos = 0.0;
        for thread in std::fs::read_dir(process.join("task"))? {
            // A thread may end while they are read.
            let times = std::fs::read_to_string(thread?.path().join("schedstat"));
            let first = times.as_deref().unwrap_or_default().split(' ').next().unwrap_or_default();
            nanos += first.parse::<f64>().unwrap_or(0.0);
        }
        let stat = std::fs::read_to_string(process.join("stat"))?;
        // The name before the last parenthesis may hold anything.
        let fields: Vec<&str> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |field: usize| fields.get(field).and_then(|text| text.parse::<f64>().ok());
        let (user, system) = ticks(11).zip(ticks(12)).context("the kernel reports no CPU times")?;
        Ok(((user + system) * 1e6 / TICKS_PER_SECOND).max(nanos / 1e3))
    }

    /// Memory resident now, in bytes.
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kilobytes.context("the kernel reports no VmRSS")? * 1024.0)
    }

    /// Fails if it has ended.
    fn check(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let said = std::fs::read_to_string(&self.log).unwrap_or_default();
            bail!("a server ended ({status}); its output:\n{said}");
        }
        Ok(())
    }
}

/// USER_HZ: the same on every Linux that this runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Ends the process of `command` together with this one: an interrupted measurement drops nothing,
/// and its servers must not continue without it.
pub(crate) fn end_with_us(command: &mut Command) {
    // SAFETY: between fork and exec this makes one system call and touches no memory of the
    // parent's.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
}

fn spawn(command: &mut Command, cores: Cores, log: &Path) -> anyhow::Result<std::process::Child> {
    let out = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    end_with_us(command);
    on(cores, || command.spawn())?.with_context(|| {
        format!("cannot start {:?}: `make deps` installs it", command.get_program())
    })
}

/// A process that is not waited for. Dropping it kills it.
pub(crate) struct Child(std::process::Child);

impl Child {
    /// Starts `command` on `cores`; its output goes to `log`.
    pub(crate) fn start(command: &mut Command, cores: Cores, log: &Path) -> anyhow::Result<Self> {
        Ok(Self(spawn(command, cores, log)?))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A loopback address nothing listens on.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
