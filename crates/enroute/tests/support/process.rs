//! A child process whose output is collected line by line, and which is killed when dropped.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use testbed::link::{Relay, RelayConfig, RelayHandle};

/// Longer than any start or end on a busy machine: only a failing test waits this long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` holds; panics after a timeout.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "{what}: never");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Serves each connection to a free port on a thread of its own, until this process ends.
pub fn serve_each<T>(serve: impl Fn(TcpStream) -> T + Send + Sync + 'static) -> SocketAddr {
    serve_each_at("127.0.0.1:0", serve)
}

/// The same at an address of the network that the caller is in.
pub fn serve_each_at<T>(
    address: &str,
    serve: impl Fn(TcpStream) -> T + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind(address).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || drop(serve(client)));
        }
    });
    address
}

/// A running program. Dropping it kills it by its process ID and waits for its end.
pub struct Process {
    name: String,
    child: Child,
    stdout: Output,
    stderr: Output,
}

/// Exit status and output of a process.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Process {
    /// Starts the command with an empty standard input.
    ///
    /// Panics if it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        Self::start_reading(command, Stdio::null())
    }

    /// The same with this standard input.
    pub fn start_reading(command: &mut Command, stdin: impl Into<Stdio>) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let stdout = Output::collect(child.stdout.take().expect("piped"));
        let stderr = Output::collect(child.stderr.take().expect("piped"));
        Self { name, child, stdout, stderr }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Present resident memory.
    pub fn resident_bytes(&self) -> usize {
        self.status_bytes("VmRSS:")
    }

    /// Peak resident memory.
    pub fn peak_bytes(&self) -> usize {
        self.status_bytes("VmHWM:")
    }

    fn status_bytes(&self, name: &str) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        let kilobytes = line.split_whitespace().next().and_then(|text| text.parse::<usize>().ok());
        kilobytes.expect("a number") << 10
    }

    /// Waits for the first line of standard output that contains `part`.
    ///
    /// `None` if standard output ended without one.
    pub fn stdout_line(&self, part: &str) -> Option<String> {
        self.stdout.line(part, 0)
    }

    /// Waits for the first line of standard error that contains `part`.
    pub fn stderr_line(&self, part: &str) -> Option<String> {
        self.stderr.line(part, 0)
    }

    /// The same after this number of earlier ones.
    pub fn stderr_line_after(&self, part: &str, earlier: usize) -> Option<String> {
        self.stderr.line(part, earlier)
    }

    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits until something accepts connections at `address`.
    ///
    /// Panics with the output if the process ends before that.
    pub fn accepting(&mut self, address: SocketAddr) {
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = self.child.try_wait().expect("a child of ours");
            assert!(
                ended.is_none() && started.elapsed() < PATIENCE,
                "{} does not listen on {address} ({ended:?}):\n{}{}",
                self.name,
                self.stdout(),
                self.stderr()
            );
            // The kernel has no event for a new listener, so poll.
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends a signal by name: `TERM`, `HUP`, `STOP`, …
    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &kill]).status().expect("a shell");
        assert!(sent.success(), "{kill}: {sent}");
    }

    /// Stops it with SIGSTOP, and returns when none of its threads runs: signal delivery takes
    /// time.
    pub fn stop(&self) {
        self.signal("STOP");
        let started = Instant::now();
        let runs = |thread: fs::DirEntry| {
            let told = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            told.rsplit(") ").next().is_some_and(|state| !state.starts_with(['T', 'Z', 'X']))
        };
        let threads = || fs::read_dir(format!("/proc/{}/task", self.id())).expect("it is there");
        while threads().flatten().any(runs) {
            assert!(started.elapsed() < PATIENCE, "{} does not stop", self.name);
        }
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.stdout.has_ended()
    }

    /// Sends SIGTERM and waits until it has ended.
    pub fn terminate(self) -> Ended {
        self.signal("TERM");
        self.wait()
    }

    /// Kills it with SIGKILL; returns its output.
    pub fn kill(mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.stdout.finish()
    }

    /// Waits until it has ended; panics after [`PATIENCE`].
    pub fn wait(mut self) -> Ended {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                break status;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "{} has not ended:\n{}",
                self.name,
                self.stderr()
            );
            thread::sleep(Duration::from_millis(2));
        };
        Ended { status, stdout: self.stdout.finish(), stderr: self.stderr.finish() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Raises the limit of open files of this process and its children to the system's maximum.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("a soft limit");
}

/// Runs `one` in `count` threads; returns the results.
pub fn at_once<T: Send>(count: usize, one: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let one = &one;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || one(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
    })
}

/// A loopback address without a listener, outside of the kernel's ephemeral ports, so that it is
/// free again after the server on it was restarted. The same applies to Redis's bus, 10,000 ports
/// above.
pub fn free_address() -> SocketAddr {
    const FIRST: u32 = 10_000;
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    loop {
        // Tests in other processes begin elsewhere.
        let number = GIVEN.fetch_add(1, Ordering::Relaxed) + process::id() * 97;
        let address = SocketAddr::from(([127, 0, 0, 1], (FIRST + number % FIRST) as u16));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// Starts a relay again at the address it had. A process that another test has just created keeps
/// the listener of before until it has executed its program.
pub fn start_again(config: &RelayConfig) -> RelayHandle {
    let mut relay = None;
    until("the address of the relay is free", || {
        relay = Relay::start(config.clone()).ok();
        relay.is_some()
    });
    relay.expect("it runs")
}

struct Output {
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<Collected>,
    changed: Condvar,
}

#[derive(Default)]
struct Collected {
    text: String,
    ended: bool,
}

impl Output {
    fn collect(pipe: impl Read + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let reader = thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            while pipe.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
                theirs.state.lock().unwrap().text.push_str(&String::from_utf8_lossy(&line));
                theirs.changed.notify_all();
                line.clear();
            }
            theirs.state.lock().unwrap().ended = true;
            theirs.changed.notify_all();
        });
        Self { shared, reader: Some(reader) }
    }

    fn line(&self, part: &str, earlier: usize) -> Option<String> {
        let find = |state: &Collected| {
            let mut lines = state.text.lines().filter(|line| line.contains(part));
            lines.nth(earlier).map(str::to_owned)
        };
        let state = self.shared.state.lock().unwrap();
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(state, PATIENCE, |state| find(state).is_none() && !state.ended)
            .unwrap();
        find(&state)
    }

    /// Whether the other end is closed.
    fn has_ended(&self) -> bool {
        self.shared.state.lock().unwrap().ended
    }

    fn text(&self) -> String {
        self.shared.state.lock().unwrap().text.clone()
    }

    /// The whole output, once the other end is closed.
    fn finish(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        self.text()
    }
}
