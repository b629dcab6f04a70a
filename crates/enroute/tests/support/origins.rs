//! Real servers, one of each test: started on a free loopback port, ready when returned, gone when
//! dropped.
//!
//! Where a server is not installed its `start` returns None after saying why, and the test returns
//! early; with `CI=true` that is a failure instead. `make deps` installs them all.

use std::env;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::directory::{TemporaryDirectory, installed, on_path};
use super::process::{Process, free_address};

/// redis-server 7.0, without persistence.
pub struct Redis {
    process: Process,
    address: SocketAddr,
    _directory: TemporaryDirectory,
}

impl Redis {
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// With more of redis-server's options, for example `&["--requirepass", "secret"]`.
    pub fn start_with(options: &[&str]) -> Option<Self> {
        let Some(program) = on_path("redis-server") else {
            return absent("redis-server is not on PATH");
        };
        let directory = TemporaryDirectory::create();
        // It cannot choose its port, and the one chosen for it may be taken meanwhile.
        for _ in 0..5 {
            let address = free_address();
            let process = Process::start(
                Command::new(&program)
                    .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
                    .args(["--save", "", "--appendonly", "no", "--dir"])
                    .arg(directory.path())
                    .args(options),
            );
            if process.stdout_line("Ready to accept connections").is_some() {
                return Some(Self { process, address, _directory: directory });
            }
            eprintln!("redis-server did not start on {address}:\n{}", process.stdout());
        }
        panic!("redis-server does not start");
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// For the `redis` crate.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// For its process id, its output, and signals such as STOP and CONT.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

/// A server that speaks MongoDB's protocol.
pub struct Mongo {
    process: Process,
    address: SocketAddr,
    _directory: TemporaryDirectory,
}

impl Mongo {
    /// FerretDB 1.24 on SQLite, announcing wire version 21: the faithful one. It knows no SCRAM,
    /// compression, transactions, change streams or `$lookup`, and it scans: use string keys and
    /// at most 5,000 documents a collection.
    pub fn start_ferretdb() -> Option<Self> {
        let program = installed("bin/ferretdb");
        if !program.is_file() {
            return absent("FerretDB is not installed under .deps/");
        }
        let directory = TemporaryDirectory::create();
        let mut command = Command::new(program);
        command.arg("--dir").arg(directory.path());
        Some(Self::started(&mut command, directory))
    }

    /// mongo-java-server 1.47 in memory, announcing wire version 21: the fast one. It answers only
    /// the legacy `isMaster`, not `hello`.
    pub fn start_java() -> Option<Self> {
        let home = installed("mongo-java");
        if !home.join("MongoJava.class").is_file() {
            return absent("mongo-java-server is not installed under .deps/");
        }
        let Some(java) = on_path("java") else {
            return absent("java is not on PATH");
        };
        Some(Self::started(&mut java_command(&java, &home), TemporaryDirectory::create()))
    }

    fn started(command: &mut Command, directory: TemporaryDirectory) -> Self {
        let process = Process::start(command);
        let Some(line) = process.stdout_line("listening on ") else {
            panic!("{command:?} does not start:\n{}", process.stderr());
        };
        let address = line.trim_start_matches("listening on ").parse().expect("an address");
        Self { process, address, _directory: directory }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// For the `mongodb` crate; `directConnection` because there is no replica set to discover.
    pub fn url(&self) -> String {
        format!("mongodb://{}/?directConnection=true", self.address)
    }

    /// For its process id, its output, and signals such as STOP and CONT.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

fn java_command(java: &Path, home: &Path) -> Command {
    let classes = format!("{}:{}/lib/*", home.display(), home.display());
    let mut command = Command::new(java);
    // Many small servers on few cores: one collector thread and one compiler thread each.
    command.args(["-XX:+UseSerialGC", "-XX:CICompilerCount=2", "-Xmx256m"]);
    command.args(["-cp", &classes, "MongoJava", "127.0.0.1:0"]);
    command
}

/// Says why the test that asked is skipped, or fails it where everything must be present.
pub fn absent<T>(why: &str) -> Option<T> {
    assert!(env::var("CI").as_deref() != Ok("true"), "{why}, and CI=true skips nothing");
    eprintln!("SKIPPED: {why}; `make deps` installs it");
    None
}
