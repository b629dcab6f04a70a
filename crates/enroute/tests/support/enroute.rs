//! The real binary, started as by a user.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use super::directory::TemporaryDirectory;
use super::process::{Ended, PATIENCE, Process};

/// A running `enroute`. Dropping it kills the process.
pub struct Enroute {
    process: Process,
    directory: TemporaryDirectory,
}

/// Its configuration file.
const CONFIG: &str = "enroute.toml";

/// A running `enroute cache`, and the addresses of its listeners.
pub struct Cache {
    enroute: Enroute,
    addresses: Vec<SocketAddr>,
}

/// A parsed statistics line: `hits=3` becomes `("hits", 3.0)`.
pub type Statistics = HashMap<String, f64>;

impl Cache {
    /// Starts a cache in front of `origin` (an address, or several as the cache shows them), with
    /// the further options `toml`. It listens on a free port.
    pub fn start(scheme: &str, origin: impl Display + PartialEq, toml: &str) -> Self {
        Self::start_all(&[(scheme, origin, "")], toml)
    }

    /// A listener for each scheme and origin, each with its own options.
    pub fn start_all<O: Display + PartialEq>(listeners: &[(&str, O, &str)], toml: &str) -> Self {
        Self::run(&program(), listeners, toml)
    }

    /// As `start_all`, with another build of the program.
    pub fn run<O: Display + PartialEq>(
        program: &Path,
        listeners: &[(&str, O, &str)],
        toml: &str,
    ) -> Self {
        let mut text = toml.to_owned();
        // The first read of a lease is not a hit. A test that counts hits and does not set the
        // lease must not depend on its own duration.
        if !text.contains("authorization_lease") {
            const LEASE: &str = "[storage]\nauthorization_lease = \"60min\"\n";
            match text.find("[storage]\n") {
                Some(at) => text.replace_range(at..at + "[storage]\n".len(), LEASE),
                None => text.push_str(&format!("\n{LEASE}")),
            }
        }
        for (scheme, origin, options) in listeners {
            text.push_str(&format!(
                "\n[[listener]]\nlisten = \"{scheme}://127.0.0.1:0\"\n\
                 origin = \"{scheme}://{origin}\"\n{options}\n"
            ));
        }
        let arguments = ["cache", "--statistics", "20ms"];
        let enroute = Enroute::run(program, &arguments, Some(&text));
        let addresses = listeners
            .iter()
            .enumerate()
            .map(|(number, (_, origin, _))| {
                let earlier = listeners[..number].iter().filter(|(_, other, _)| other == origin);
                let (part, earlier) = (format!("-> {origin}"), earlier.count());
                let line = enroute.process().stderr_line_after(&part, earlier);
                let line = line.unwrap_or_else(|| panic!("{}", enroute.process().stderr()));
                let (listens, _) = line.split_once(" -> ").expect("address and origin");
                let (_, address) = listens.split_once("://").expect("a scheme");
                // The address may be followed by TLS and the server names.
                let address = address.split(['/', ' ']).next().unwrap_or_default();
                address.parse().expect("an address")
            })
            .collect();
        Self { enroute, addresses }
    }

    /// Returns the address of the first listener.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Returns the addresses of all listeners.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// A connection for the `redis` crate.
    pub fn redis(&self) -> redis::Connection {
        let client = redis::Client::open(format!("redis://{}/", self.address())).expect("a URL");
        client.get_connection().expect("the cache listens")
    }

    /// The present counters: waits for statistics that are newer than the call.
    pub fn statistics(&self) -> Statistics {
        self.statistics_once(|_| true)
    }

    /// Waits until `expected` is true of the statistics; panics with the last ones after a timeout.
    pub fn statistics_once(&self, expected: impl Fn(&Statistics) -> bool) -> Statistics {
        let stdout = || self.enroute.process().stdout();
        let seen = stdout().lines().count();
        let started = Instant::now();
        loop {
            let text = stdout();
            // A line that was being written during the call may have older values.
            let fresh = text.lines().skip(seen + 1).last().map(parse_statistics);
            match fresh {
                Some(statistics) if expected(&statistics) => return statistics,
                _ => assert!(
                    started.elapsed() < PATIENCE,
                    "the statistics are {fresh:?}\n{}",
                    self.enroute.process().stderr()
                ),
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Hits so far.
    pub fn hits(&self) -> f64 {
        self.statistics()["hits"]
    }

    /// The process, for its output and for signals.
    pub fn process(&self) -> &Process {
        self.enroute.process()
    }

    /// Waits for the first log line that contains `part`.
    pub fn log_line(&self, part: &str) -> String {
        self.enroute.stderr_line(part)
    }

    /// Sends SIGTERM; returns the exit status and the output.
    pub fn terminate(self) -> Ended {
        self.enroute.terminate()
    }

    /// Waits until it has ended.
    pub fn wait(self) -> Ended {
        self.enroute.wait()
    }
}

fn parse_statistics(line: &str) -> Statistics {
    line.split(' ')
        .filter_map(|pair| pair.split_once('='))
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect()
}

/// The program under test.
pub fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_enroute"))
}

/// The same program, broken on purpose: a test must be able to see that.
pub fn broken_program() -> PathBuf {
    env::var_os("ENROUTE_BROKEN").expect("ENROUTE_BROKEN names the broken build").into()
}

/// An answer of the admin endpoint.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Enroute {
    /// Starts `enroute ARGUMENTS…` in its own directory.
    pub fn start(arguments: &[&str]) -> Self {
        Self::run(&program(), arguments, None)
    }

    /// Starts `enroute ARGUMENTS… --config FILE`, with a file that contains `toml`.
    pub fn start_with_config(arguments: &[&str], toml: &str) -> Self {
        Self::run(&program(), arguments, Some(toml))
    }

    /// As `start_with_config`, in its own mount namespace, with `resolver` as `/etc/resolv.conf`.
    pub fn start_resolving(resolver: &Path, arguments: &[&str], toml: &str) -> Self {
        let enter = "mount --bind \"$1\" /etc/resolv.conf; shift; exec \"$@\"";
        let (resolver, program) = (resolver.display().to_string(), program());
        let program = program.display().to_string();
        let first = ["--mount", "sh", "-ec", enter, "sh", &resolver, &program];
        Self::run(Path::new("unshare"), &[&first[..], arguments].concat(), Some(toml))
    }

    /// Replaces its configuration file.
    pub fn write_config(&self, toml: &str) {
        fs::write(self.directory.path().join(CONFIG), toml).expect("a writable directory");
    }

    fn run(program: &Path, arguments: &[&str], toml: Option<&str>) -> Self {
        let directory = TemporaryDirectory::create();
        let mut command = Command::new(program);
        command.args(arguments).current_dir(directory.path());
        if let Some(toml) = toml {
            let file = directory.path().join(CONFIG);
            fs::write(&file, toml).expect("a writable temporary directory");
            command.arg("--config").arg(file);
        }
        Self { process: Process::start(&mut command), directory }
    }

    /// Waits until every address accepts connections. Each gets one connection, which the binary
    /// counts.
    ///
    /// Panics with the output if the process ends before that.
    pub fn accepting(&mut self, addresses: &[SocketAddr]) {
        for &address in addresses {
            self.process.accepting(address);
        }
    }

    /// Waits for the first line of standard error that contains `part`.
    ///
    /// Panics with the output if the process ends without such a line.
    pub fn stderr_line(&self, part: &str) -> String {
        self.process.stderr_line(part).unwrap_or_else(|| {
            panic!("enroute said nothing of {part:?}, but:\n{}", self.process.stderr())
        })
    }

    /// Waits for the first line of standard output that contains `part`; panics likewise.
    pub fn stdout_line(&self, part: &str) -> String {
        self.process.stdout_line(part).unwrap_or_else(|| {
            panic!("enroute printed nothing of {part:?}; it said:\n{}", self.process.stderr())
        })
    }

    /// The address of its admin endpoint; waits until it is logged.
    pub fn admin_address(&self) -> SocketAddr {
        let line = self.stderr_line("admin: http://");
        let address = line.trim_start_matches("admin: http://").trim_end_matches('/');
        address.parse().unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// The address of its first listener of this protocol; waits until it is logged.
    pub fn listen_address(&self, protocol: &str) -> SocketAddr {
        let scheme = format!("{protocol}://");
        // An error of an origin may come first, and name a URL of the same scheme as a remedy.
        let mut lines = (0..).map_while(|earlier| self.process.stderr_line_after(&scheme, earlier));
        let line = lines.find(|line| line.starts_with(&scheme));
        let line = line.unwrap_or_else(|| panic!("no {scheme}:\n{}", self.process.stderr()));
        let address = line.trim_start_matches(&scheme).split(' ').next().unwrap_or_default();
        address.parse().unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// The process, for its output so far and for signals.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Sends SIGTERM; returns the exit status and the output.
    pub fn terminate(self) -> Ended {
        self.process.terminate()
    }

    /// Waits for a command that ends by itself.
    pub fn wait(self) -> Ended {
        self.process.wait()
    }
}

/// GET `path` from the admin endpoint at `address`.
///
/// Panics without a valid response.
pub fn admin(address: SocketAddr, path: &str) -> Answer {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"))
}

/// POST `body` to `path` of the admin endpoint at `address`. Panics likewise.
pub fn admin_post(address: SocketAddr, path: &str, body: &str) -> Answer {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}");
    ask(address, &format!("{head}\r\n\r\n{body}"))
}

/// Sends one whole request unchanged. Panics likewise.
pub fn ask(address: SocketAddr, request: &str) -> Answer {
    let mut connection = TcpStream::connect(address).expect("the admin side accepts");
    connection.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    connection.write_all(request.as_bytes()).expect("the admin side reads");
    let mut reply = String::new();
    connection.read_to_string(&mut reply).expect("the admin side answers and closes");
    let (head, body) = reply.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    assert!(
        !head.to_ascii_lowercase().contains("transfer-encoding: chunked"),
        "the admin side answered in chunks, which this reader does not join: {head}"
    );
    Answer { status: status.expect("a status line"), body: body.to_owned() }
}
