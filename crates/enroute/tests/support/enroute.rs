//! The real binary, as a user runs it.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use super::directory::TemporaryDirectory;
use super::process::{Ended, PATIENCE, Process};

/// A running `enroute`. Dropping it kills it.
pub struct Enroute {
    process: Process,
    _directory: TemporaryDirectory,
}

/// What the admin side answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Enroute {
    /// `enroute ARGUMENTS…`, in a directory of its own.
    pub fn start(arguments: &[&str]) -> Self {
        let directory = TemporaryDirectory::create();
        let mut command = Command::new(env!("CARGO_BIN_EXE_enroute"));
        let process = Process::start(command.args(arguments).current_dir(directory.path()));
        Self { process, _directory: directory }
    }

    /// `enroute ARGUMENTS… --config FILE`, the file holding `toml`.
    pub fn start_with_config(arguments: &[&str], toml: &str) -> Self {
        let directory = TemporaryDirectory::create();
        let file = directory.path().join("enroute.toml");
        fs::write(&file, toml).expect("a writable temporary directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_enroute"));
        command.args(arguments).arg("--config").arg(file).current_dir(directory.path());
        Self { process: Process::start(&mut command), _directory: directory }
    }

    /// Waits until every address accepts. Each is connected to once, which the binary will count.
    ///
    /// Panics, with what it said, when it ends before that.
    pub fn accepting(&mut self, addresses: &[SocketAddr]) {
        for &address in addresses {
            self.process.accepting(address);
        }
    }

    /// The first line of standard error that contains `part`, waiting for it.
    ///
    /// Panics, with what it said, when it ends without such a line.
    pub fn stderr_line(&self, part: &str) -> String {
        self.process.stderr_line(part).unwrap_or_else(|| {
            panic!("enroute said nothing of {part:?}, but:\n{}", self.process.stderr())
        })
    }

    /// The first line of standard output that contains `part`, waiting for it. Panics likewise.
    pub fn stdout_line(&self, part: &str) -> String {
        self.process.stdout_line(part).unwrap_or_else(|| {
            panic!("enroute printed nothing of {part:?}; it said:\n{}", self.process.stderr())
        })
    }

    /// Where its admin side listens, waiting until it says so.
    pub fn admin_address(&self) -> SocketAddr {
        let line = self.stderr_line("admin: http://");
        let address = line.trim_start_matches("admin: http://").trim_end_matches('/');
        address.parse().unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// Where its first listener of this protocol listens, waiting until it says so.
    pub fn listen_address(&self, protocol: &str) -> SocketAddr {
        let scheme = format!("{protocol}://");
        let line = self.stderr_line(&scheme);
        let address = line.trim_start_matches(&scheme).split(' ').next().unwrap_or_default();
        address.parse().unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// For its output so far and for signals.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Asks it to end with SIGTERM, and how it did.
    pub fn terminate(self) -> Ended {
        self.process.terminate()
    }

    /// Waits for a command that ends by itself.
    pub fn wait(self) -> Ended {
        self.process.wait()
    }
}

/// GET `path` from the admin side at `address`.
///
/// Panics when nothing sensible answers.
pub fn admin(address: SocketAddr, path: &str) -> Answer {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"))
}

/// POST `body` to `path` of the admin side at `address`. Panics likewise.
pub fn admin_post(address: SocketAddr, path: &str, body: &str) -> Answer {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}");
    ask(address, &format!("{head}\r\n\r\n{body}"))
}

/// Sends one whole request as it stands. Panics likewise.
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
