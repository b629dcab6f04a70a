//! A rack in network namespaces: a client, a router with the data plane, a server.
#![allow(dead_code, reason = "not every test uses all of it")]

pub(crate) mod asking;
pub(crate) mod paths;

use std::{
    fs,
    io::{BufRead, BufReader},
    net::UdpSocket,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use testbed::link::LinkHandle;
use wire::netcache::{self, Flags, Message, Op};

pub(crate) struct Rack {
    id: String,
    pub(crate) pins: PathBuf,
    children: Vec<Child>,
    /// Standard error of controllers, which would block if it were not read.
    said: Vec<BufReader<ChildStderr>>,
    paths: Vec<LinkHandle>,
}

pub(crate) const SWITCH: &str = "10.2.0.254";
pub(crate) const SERVER: &str = "10.2.0.2";
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_enroute");

impl Rack {
    /// `None`, with the reason printed, without the right to create one.
    pub(crate) fn build() -> Option<Self> {
        let skip = |reason: &str| {
            println!("SKIPPED: {reason}");
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{reason}");
        };
        if switch::object::SWITCH.is_none() {
            skip("built without clang");
            return None;
        }
        static RACKS: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), RACKS.fetch_add(1, Relaxed));
        if !run(&["netns", "add", &format!("er{id}c")]) {
            skip("network namespaces need root and iproute2");
            return None;
        }
        let pins = format!("/tmp/er{id}-bpf/pins").into();
        let rack = Self { id, pins, children: Vec::new(), said: Vec::new(), paths: Vec::new() };
        let root = rack.pins.parent().expect("a parent");
        fs::create_dir_all(root).expect("a directory");
        rustix::mount::mount("bpf", root, "bpf", rustix::mount::MountFlags::empty(), None)
            .expect("a BPF file system");
        for end in ["s", "d"] {
            assert!(run(&["netns", "add", &rack.namespace(end)]));
        }
        for (end, here, there, net) in [("c", "client0", "eth0", 1), ("d", "server0", "eth0", 2)] {
            let (switch, far) = (rack.namespace("s"), rack.namespace(end));
            assert!(run(&[
                "-n", &switch, "link", "add", here, "type", "veth", "peer", "name", there, "netns",
                &far
            ]));
            let router = format!("10.{net}.0.254");
            assert!(run(&["-n", &switch, "addr", "add", &format!("{router}/24"), "dev", here]));
            assert!(run(&["-n", &switch, "link", "set", here, "up"]));
            assert!(run(&["-n", &far, "addr", "add", &format!("10.{net}.0.2/24"), "dev", there]));
            assert!(run(&["-n", &far, "link", "set", there, "up"]));
            assert!(run(&["-n", &far, "link", "set", "lo", "up"]));
            assert!(run(&["-n", &far, "route", "add", "default", "via", &router]));
        }
        assert!(
            rack.command("s", "sysctl", &["-qw", "net.ipv4.ip_forward=1"])
                .status()
                .is_ok_and(|s| s.success())
        );
        for end in ["c", "d"] {
            let pins = rack.pins.with_file_name(end);
            rack.enroute_at(end, &pins, &["accept", "--interface", "eth0"]);
        }
        Some(rack)
    }

    pub(crate) fn namespace(&self, end: &str) -> String {
        format!("er{}{end}", self.id)
    }

    fn command(&self, end: &str, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(end), program]).args(arguments);
        command.stdout(Stdio::piped());
        command
    }

    /// Runs `enroute switch` at one end to its end; returns its output.
    pub(crate) fn enroute(&self, end: &str, arguments: &[&str]) -> String {
        self.enroute_at(end, &self.pins, arguments)
    }

    fn enroute_at(&self, end: &str, pins: &Path, arguments: &[&str]) -> String {
        let pins = pins.to_str().expect("a path");
        let arguments: Vec<&str> =
            ["switch", "--pins", pins].iter().chain(arguments).copied().collect();
        let output = self.command(end, PROGRAM, &arguments).output().expect("it runs");
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs `enroute switch` at the switch, which must fail; returns its standard error.
    pub(crate) fn refusal(&self, arguments: &[&str]) -> String {
        let pins = self.pins.to_str().expect("a path");
        let arguments = [&["switch", "--pins", pins], arguments].concat();
        let output = self.command("s", PROGRAM, &arguments).output().expect("it runs");
        assert!(!output.status.success(), "{arguments:?} is done");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// The first line on standard error of `enroute switch`, which continues to run.
    pub(crate) fn said_by(&self, end: &str, arguments: &[&str]) -> String {
        let pins = self.pins.with_file_name(format!("said-{end}"));
        let pins = pins.to_str().expect("a path");
        let arguments: Vec<&str> =
            ["switch", "--pins", pins].iter().chain(arguments).copied().collect();
        let mut command = self.command(end, PROGRAM, &arguments);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let said = child.stderr.take().expect("piped");
        BufReader::new(said).read_line(&mut line).expect("a line");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        line
    }

    /// Starts a program at one end; it runs until it is killed or the rack is dropped.
    pub(crate) fn start(&mut self, end: &str, program: &str, arguments: &[&str]) -> u32 {
        let child = self.command(end, program, arguments).spawn().expect("it starts");
        let id = child.id();
        self.children.push(child);
        id
    }

    /// Starts the data plane and its controller, and waits until the controller is ready.
    pub(crate) fn attach(&mut self, more: &[&str]) -> u32 {
        let id = self.begin_to_attach(more);
        let child = self.children.last_mut().expect("just started");
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        while !line.starts_with("controlling") {
            line.clear();
            assert_ne!(said.read_line(&mut line).expect("a line"), 0, "it ended");
            print!("{line}");
        }
        self.said.push(said);
        id
    }

    /// As [`Rack::attach`], without waiting: verification of the program in the kernel takes a
    /// second or more.
    pub(crate) fn begin_to_attach(&mut self, more: &[&str]) -> u32 {
        let pins = self.pins.to_str().expect("a path");
        let interfaces = ["--interface", "client0", "--server-interface", "server0"];
        let arguments = [&["switch", "--pins", pins, "attach"][..], &interfaces, more].concat();
        let mut command = self.command("s", PROGRAM, &arguments);
        let child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let id = child.id();
        self.children.push(child);
        id
    }

    pub(crate) fn kill(&mut self, id: u32) {
        let at = self.children.iter().position(|child| child.id() == id).expect("ours");
        let mut child = self.children.swap_remove(at);
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }

    /// One line of `status`.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let status = self.enroute("s", &["status"]);
        let line = status.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).expect("a counter")
    }

    /// Runs `act` in the client's namespace.
    pub(crate) fn as_client<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        self.within("c", act)
    }

    /// Runs `act` at one end.
    pub(crate) fn within<T: Send>(&self, end: &str, act: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                enter(&self.file(end));
                act()
            });
            inside.join().expect("it ends")
        })
    }

    /// The namespace at one end.
    pub(crate) fn file(&self, end: &str) -> PathBuf {
        format!("/run/netns/{}", self.namespace(end)).into()
    }
}

/// Stops a program of a rack (SIGSTOP) or lets it continue.
pub(crate) fn signal(id: u32, signal: Signal) {
    let id = Pid::from_raw(id as i32).expect("a process");
    kill_process(id, signal).expect("it runs");
}

/// Moves this thread into a namespace.
pub(crate) fn enter(namespace: &Path) {
    let namespace = fs::File::open(namespace).expect("the namespace");
    let namespace = std::os::fd::AsFd::as_fd(&namespace);
    move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network)).expect("to enter it");
}

/// Returns the path of memcached; `None`, with the reason printed, where it is not installed.
pub(crate) fn memcached() -> Option<&'static str> {
    let found = ["/usr/bin/memcached", "/usr/sbin/memcached"];
    let found = found.into_iter().find(|path| Path::new(path).exists());
    if found.is_none() {
        println!("SKIPPED: no memcached; ./deps.sh installs it");
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"));
    }
    found
}

impl Drop for Rack {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.paths.clear();
        for end in ["c", "s", "d", "x", "y"] {
            run(&["netns", "del", &self.namespace(end)]);
        }
        let root: &Path = self.pins.parent().expect("a parent");
        let _ = rustix::mount::unmount(root, rustix::mount::UnmountFlags::DETACH);
        let _ = fs::remove_dir_all(root);
        // Load parameters and locks of every directory of pins that was used.
        let of_these = format!("switch-tmp-er{}-bpf-", self.id);
        for entry in fs::read_dir("/run/enroute").into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&of_these) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn run(arguments: &[&str]) -> bool {
    let output = Command::new("ip").args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

/// Waits for a condition.
pub(crate) fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within 60 s");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Repeats the request until there is a reply.
pub(crate) fn answered<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let mut answer = None;
    wait(what, || {
        answer = ask();
        answer.is_some()
    });
    answer.expect("it was waited for")
}

/// The key of [`netcache`].
pub(crate) const KEY: netcache::Key = *b"0123456789abcdef";
/// Number of the next message, unique in this process.
pub(crate) static SEQUENCE: AtomicU32 = AtomicU32::new(1);

/// Asks a NetCache server or a switch before it until there is an answer: its flags and value.
pub(crate) fn netcache(socket: &UdpSocket, op: Op, value: &[u8]) -> (Flags, Vec<u8>) {
    let answer = answered("the server answers", || {
        let sequence = SEQUENCE.fetch_add(1, Relaxed);
        let message = Message { value, ..Message::new(op, sequence, KEY) };
        let is_mine =
            |answer: &[u8]| Message::decode(answer).is_ok_and(|said| said.sequence == sequence);
        ask(socket, &message.bytes(), is_mine)
    });
    let answer = Message::decode(&answer).expect("a message");
    (answer.flags, answer.value.to_vec())
}

/// Sends a datagram; returns the reply, ignoring late replies to others, or `None` after a timeout.
pub(crate) fn ask(
    socket: &UdpSocket,
    datagram: &[u8],
    answers: impl Fn(&[u8]) -> bool,
) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 65_536];
    socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a socket");
    socket.send(datagram).ok()?;
    loop {
        let bytes = socket.recv(&mut buffer).ok()?;
        if answers(&buffer[..bytes]) {
            buffer.truncate(bytes);
            return Some(buffer);
        }
    }
}
