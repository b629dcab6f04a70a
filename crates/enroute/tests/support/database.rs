//! A running `enroute db`, and certificates for it and its clients.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::directory::{TemporaryDirectory, on_path};
use super::enroute::program;
use super::origins::absent;
use super::process::Process;

/// A running `enroute db` with its own directory. Dropping it kills the process.
pub struct Database {
    process: Option<Process>,
    address: SocketAddr,
    options: Vec<String>,
    /// Shell commands to run in the process before the database starts.
    before: Option<String>,
    directory: TemporaryDirectory,
}

impl Database {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// As `start`, with further options, for example `&["--password", "secret"]`.
    pub fn start_with(options: &[&str]) -> Self {
        Self::launch(options, None)
    }

    /// As `start_with`, after the process has run `script` in its own mount namespace; `$1` is the
    /// database's directory. Needs root.
    pub fn start_after(script: &str, options: &[&str]) -> Self {
        Self::launch(options, Some(script.to_owned()))
    }

    fn launch(options: &[&str], before: Option<String>) -> Self {
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let directory = TemporaryDirectory::create();
        let address = "127.0.0.1:0".parse().expect("an address");
        let mut database = Self { process: None, address, options, before, directory };
        database.bring_up();
        database
    }

    /// Kills it as `kill -9` does. Its files remain for [`Self::bring_up`].
    pub fn bring_down(&mut self) {
        self.process = None;
    }

    /// Starts it again with its files, at the same address.
    pub fn bring_up(&mut self) {
        self.bring_up_with(&[]);
    }

    /// As `bring_up`, with further options.
    pub fn bring_up_with(&mut self, more: &[&str]) {
        let process = Process::start(self.command(self.address).args(more));
        let Some(line) = process.stderr_line(" stores its data in ") else {
            panic!("enroute db does not start:\n{}", process.stderr());
        };
        let address = line.split("://").nth(1).and_then(|rest| rest.split(' ').next());
        self.address = address.and_then(|address| address.parse().ok()).expect("an address");
        self.process = Some(process);
    }

    /// Starts another process on its files, which has to fail; returns its standard error.
    pub fn refusal(&self, more: &[&str]) -> String {
        let anywhere = "127.0.0.1:0".parse().expect("an address");
        let process = Process::start(self.command(anywhere).args(more));
        if let Some(line) = process.stderr_line(" stores its data in ") {
            panic!("it starts: {line}");
        }
        let ended = process.wait();
        assert!(!ended.status.success(), "{}", ended.stderr);
        ended.stderr
    }

    /// The command that starts it.
    fn command(&self, address: SocketAddr) -> Command {
        let mut command = match &self.before {
            None => Command::new(program()),
            Some(script) => {
                // Each step replaces the process (`exec`): the process that is started becomes the
                // database.
                let script = format!("set -e; {script}; shift; exec \"$@\"");
                let mut command = Command::new("unshare");
                command.args(["--mount", "sh", "-c", &script, "sh"]);
                command.arg(self.directory.path()).arg(program());
                command
            }
        };
        command.arg("db").arg("--dir").arg(self.data());
        command.args(["--listen", &address.to_string()]).args(&self.options);
        command
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The directory of its data and of the test's files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Its data directory.
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Flips a bit of the record of `key` on disk, `behind` bytes after the start of its name;
    /// returns file and offset of the record as errors state them.
    pub fn flip(&self, key: &str, behind: u64) -> String {
        let name = [b"\0", key.as_bytes()].concat();
        for shard in 0..4 {
            let shard = format!("shard-{shard:03}");
            let files = fs::read_dir(self.directory.path().join("data").join(&shard));
            for file in files.expect("a shard").flatten() {
                let bytes = fs::read(file.path()).expect("its data");
                // Records are aligned to sixteen bytes, and the name is at offset 24.
                let begins = |&at: &usize| bytes[at + 24..].starts_with(&name);
                let end = bytes.len().saturating_sub(24 + name.len());
                let Some(at) = (0..end).step_by(16).find(begins) else { continue };
                let hit = at as u64 + 24 + behind;
                let writable = File::options().write(true).open(file.path()).expect("its data");
                let flipped = [bytes[hit as usize] ^ 4];
                writable.write_all_at(&flipped, hit).expect("a writable file");
                let file = file.file_name().into_string().expect("a plain name");
                return format!("{shard}/{file} is damaged at offset {at}");
            }
        }
        panic!("{key} is not on disk");
    }

    /// Returns `field` of INFO.
    pub fn info(&self, field: &str) -> u64 {
        let text: String = redis::cmd("INFO").query(&mut self.connection()).expect("a text");
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{field}: {text}"))
    }

    /// A connection for the `redis` crate.
    pub fn connection(&self) -> redis::Connection {
        let client = redis::Client::open(format!("redis://{}/", self.address)).expect("a URL");
        client.get_connection().expect("the database listens")
    }

    /// The address of its admin endpoint, if it was started with one.
    pub fn admin(&self) -> SocketAddr {
        let line = self.process().stderr_line("admin: http://").expect("started with --admin");
        let address = line.trim_start_matches("admin: http://").trim_end_matches('/');
        address.parse().expect("an address")
    }

    /// The process, for its ID, its output and signals.
    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("it is up")
    }

    /// Sends SIGTERM and waits until it has ended.
    pub fn terminate(&mut self) {
        let ended = self.process.take().expect("it is up").terminate();
        assert!(ended.status.success(), "{}", ended.stderr);
    }
}

/// An authority, and a certificate signed by it for both sides: `localhost` and 127.0.0.1.
pub struct Certificates(TemporaryDirectory);

impl Certificates {
    /// `None`, with the reason printed, without openssl.
    pub fn create() -> Option<Self> {
        if on_path("openssl").is_none() {
            return absent("openssl is not on PATH");
        }
        let directory = TemporaryDirectory::create();
        let make = |name: &str, options: &[&str]| {
            let (key, certificate) = (format!("{name}.key"), format!("{name}.pem"));
            let made = Command::new("openssl")
                .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
                .args(["-nodes", "-keyout", &key, "-out", &certificate, "-days", "2"])
                .args(options)
                .current_dir(directory.path())
                .output()
                .expect("openssl runs");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        };
        make("ca", &["-subj", "/CN=authority"]);
        let names = "subjectAltName=DNS:localhost,IP:127.0.0.1";
        let signed =
            ["-CA", "ca.pem", "-CAkey", "ca.key", "-subj", "/CN=localhost", "-addext", names];
        make("end", &[&signed[..], &["-addext", "basicConstraints=critical,CA:FALSE"]].concat());
        Some(Self(directory))
    }

    /// The files of the authority, the certificate and its key.
    pub fn paths(&self) -> [String; 3] {
        ["ca.pem", "end.pem", "end.key"]
            .map(|name| self.0.path().join(name).to_str().expect("a plain path").to_owned())
    }
}
