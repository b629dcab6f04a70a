//! Real servers: started on a free loopback port, ready when returned, and ended when dropped.
//!
//! If a server is not installed its `start` returns `None` and prints the reason, and the test
//! returns early; with `CI=true` that is a failure instead. `make deps` installs them all.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use super::directory::{TemporaryDirectory, installed, on_path};
use super::process::{Process, free_address};

/// redis-server 7.0, without persistence unless an option enables it.
pub struct Redis {
    program: PathBuf,
    /// `None` while it is down.
    process: Option<Process>,
    address: SocketAddr,
    options: Vec<String>,
    directory: TemporaryDirectory,
    /// Its output until it was last brought down.
    said: String,
}

impl Redis {
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// As `start`, with options of redis-server, for example `&["--requirepass", "secret"]`.
    pub fn start_with(options: &[&str]) -> Option<Self> {
        let Some(program) = on_path("redis-server") else {
            return absent("redis-server is not on PATH");
        };
        Some(Self::run(program, options))
    }

    /// As `start_with`, with another program that accepts the same options.
    pub fn run(program: PathBuf, options: &[&str]) -> Self {
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let directory = TemporaryDirectory::create();
        let address = free_address();
        let said = String::new();
        let mut redis = Self { program, process: None, address, options, directory, said };
        // The port is chosen beforehand and may be taken by then.
        for _ in 0..5 {
            if redis.up() {
                return redis;
            }
            redis.address = free_address();
        }
        panic!("redis-server does not start");
    }

    /// Another one of the same program, with these options.
    pub fn another(&self, options: &[&str]) -> Self {
        Self::run(self.program.clone(), options)
    }

    /// Kills it. Its files and its address remain for [`Self::bring_up`].
    pub fn bring_down(&mut self) {
        self.said.extend(self.process.take().map(Process::kill));
    }

    /// Its whole log, with times in UTC.
    pub fn log(&self) -> String {
        let now = self.process.as_ref().map(Process::stdout);
        [&self.said[..], &now.unwrap_or_default()].concat()
    }

    /// Starts it again at the same address.
    pub fn bring_up(&mut self) {
        assert!(self.up(), "redis-server does not start again");
    }

    /// Sets one of its options, for now and for all later starts.
    pub fn set(&mut self, option: &str, value: &str) {
        let set = redis::cmd("CONFIG").arg("SET").arg(option).arg(value).clone();
        set.query::<()>(&mut self.connection()).expect("an option that can be set");
        self.options.extend([format!("--{option}"), value.to_owned()]);
    }

    fn up(&mut self) -> bool {
        let port = self.address.port().to_string();
        let process = Process::start(
            Command::new(&self.program)
                .args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--dir"])
                .arg(self.directory.path())
                .args(&self.options)
                .env("TZ", "UTC"),
        );
        if process.stdout_line("Ready to accept connections").is_none() {
            eprintln!("redis-server did not start on {}:\n{}", self.address, process.stdout());
            return false;
        }
        self.process = Some(process);
        true
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL for the `redis` crate.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// A direct connection to it.
    pub fn connection(&self) -> redis::Connection {
        let client = redis::Client::open(self.url()).expect("a URL");
        client.get_connection().expect("redis-server listens")
    }

    /// The process, for its ID, its output, and signals such as STOP and CONT.
    pub fn process(&self) -> &Process {
        self.running().expect("it is up")
    }

    /// The process; `None` while it is down.
    pub fn running(&self) -> Option<&Process> {
        self.process.as_ref()
    }
}

/// nutcracker 0.5 (twemproxy) in front of memcacheds.
pub struct Nutcracker {
    _process: Process,
    _directory: TemporaryDirectory,
    address: SocketAddr,
}

impl Nutcracker {
    /// `servers`: each `host:port:weight`, and perhaps a name after a space.
    pub fn start(hash: &str, servers: &[String]) -> Option<Self> {
        let Some(program) = on_path("nutcracker") else {
            return absent("nutcracker is not on PATH");
        };
        let (directory, address) = (TemporaryDirectory::create(), free_address());
        let servers: String = servers.iter().map(|server| format!("   - {server}\n")).collect();
        let text = format!(
            "pool:\n  listen: {address}\n  hash: {hash}\n  distribution: ketama\n  servers:\n{servers}"
        );
        let file = directory.path().join("nutcracker.yml");
        fs::write(&file, text).expect("a writable temporary directory");
        let statistics = free_address().port().to_string();
        let mut command = Command::new(program);
        command.arg("-c").arg(file).args(["-a", "127.0.0.1", "-s", &statistics]);
        let mut process = Process::start(&mut command);
        process.accepting(address);
        Some(Self { _process: process, _directory: directory, address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Name of the file of users.
const USERS: &str = "users";

/// memcached 1.6, empty.
pub struct Memcached {
    program: PathBuf,
    /// The file of users and passwords, where it requires a login.
    users: Option<TemporaryDirectory>,
    process: Option<Process>,
    address: SocketAddr,
}

impl Memcached {
    pub fn start() -> Option<Self> {
        Self::start_with(free_address(), None)
    }

    /// At an address that nothing else uses.
    pub fn start_at(address: SocketAddr) -> Option<Self> {
        Self::start_with(address, None)
    }

    /// One that requires a login, as user `user` with password `password`.
    pub fn start_with_login() -> Option<Self> {
        let users = TemporaryDirectory::create();
        fs::write(users.path().join(USERS), "user:password\n").expect("a writable directory");
        Self::start_with(free_address(), Some(users))
    }

    fn start_with(address: SocketAddr, users: Option<TemporaryDirectory>) -> Option<Self> {
        let Some(program) = on_path("memcached") else {
            return absent("memcached is not on PATH");
        };
        let mut memcached = Self { program, users, process: None, address };
        memcached.bring_up();
        Some(memcached)
    }

    /// Starts it at the same address, empty.
    pub fn bring_up(&mut self) {
        let (host, port) = (self.address.ip().to_string(), self.address.port().to_string());
        let mut command = Command::new(&self.program);
        command.args(["-u", "nobody", "-l", &host, "-U", "0", "-m", "64", "-p", &port]);
        if let Some(users) = &self.users {
            command.arg("-Y").arg(users.path().join(USERS));
        }
        let mut process = Process::start(&mut command);
        process.accepting(self.address);
        self.process = Some(process);
    }

    /// Kills it and thereby its connections.
    pub fn bring_down(&mut self) {
        self.process = None;
    }

    /// The process, for signals such as STOP and CONT; `None` while it is down.
    pub fn running(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// DynamoDB Local 2.5, in memory; one set of tables for all access keys.
pub struct DynamoDb {
    command: Command,
    /// `None` while it is down.
    process: Option<Process>,
    address: SocketAddr,
    /// It unpacks a library there, and leaves it when it is killed.
    _scratch: TemporaryDirectory,
}

impl DynamoDb {
    pub fn start() -> Option<Self> {
        let home = installed("dynamodb-local");
        if !home.is_dir() {
            return absent("DynamoDB Local is not installed under .deps/");
        }
        let Some(java) = on_path("java") else {
            return absent("java is not on PATH");
        };
        let address = free_address();
        let scratch = TemporaryDirectory::create();
        let mut command = Command::new(java);
        command.args(["-XX:+UseSerialGC", "-XX:CICompilerCount=2", "-Xmx256m"]);
        command.arg(format!("-Djava.io.tmpdir={}", scratch.path().display()));
        command.arg(format!("-Djava.library.path={}", home.display()));
        command.args(["-cp", &format!("{}/*", home.display())]);
        command.arg("com.amazonaws.services.dynamodbv2.local.main.ServerRunner");
        command.args(["-inMemory", "-sharedDb", "-disableTelemetry", "-port"]);
        command.arg(address.port().to_string());
        let mut dynamodb = Self { command, process: None, address, _scratch: scratch };
        dynamodb.bring_up();
        Some(dynamodb)
    }

    /// Starts it at the same address, without tables.
    pub fn bring_up(&mut self) {
        let mut process = Process::start(&mut self.command);
        process.accepting(self.address);
        self.process = Some(process);
    }

    /// Kills it. Its tables are lost.
    pub fn bring_down(&mut self) {
        self.process = None;
    }

    /// The process, for signals such as STOP and CONT; `None` while it is down.
    pub fn running(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A server that speaks the MongoDB protocol.
pub struct Mongo {
    /// `None` while it is down.
    process: Option<Process>,
    address: SocketAddr,
    /// The command that starts it again at the same address.
    again: Option<Command>,
    _directory: TemporaryDirectory,
}

impl Mongo {
    /// FerretDB 1.24 on SQLite, with wire version 21: the more faithful one. It has no SCRAM,
    /// compression, transactions, change streams or `$lookup`, and it scans: use string keys and at
    /// most 5,000 documents per collection.
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

    /// mongo-java-server 1.47 in memory, with wire version 21: the faster one. It answers only the
    /// legacy `isMaster`, not `hello`.
    pub fn start_java() -> Option<Self> {
        let home = installed("mongo-java");
        if !home.join("MongoJava.class").is_file() {
            return absent("mongo-java-server is not installed under .deps/");
        }
        let Some(java) = on_path("java") else {
            return absent("java is not on PATH");
        };
        let mut command = java_command(&java, &home, "127.0.0.1:0");
        let mut mongo = Self::started(&mut command, TemporaryDirectory::create());
        mongo.again = Some(java_command(&java, &home, &mongo.address.to_string()));
        Some(mongo)
    }

    /// Kills it. The data of mongo-java-server are lost.
    pub fn bring_down(&mut self) {
        self.process = None;
    }

    /// Starts mongo-java-server again at the same address.
    pub fn bring_up(&mut self) {
        let again = self.again.as_mut().expect("a server that is started again");
        let process = Process::start(again);
        let line = process.stdout_line("listening on ");
        assert!(line.is_some(), "{again:?} does not start again:\n{}", process.stderr());
        self.process = Some(process);
    }

    fn started(command: &mut Command, directory: TemporaryDirectory) -> Self {
        let process = Process::start(command);
        let Some(line) = process.stdout_line("listening on ") else {
            panic!("{command:?} does not start:\n{}", process.stderr());
        };
        let address = line.trim_start_matches("listening on ").parse().expect("an address");
        Self { process: Some(process), address, again: None, _directory: directory }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL for the `mongodb` crate; `directConnection`, because there is no replica set to
    /// discover.
    pub fn url(&self) -> String {
        format!("mongodb://{}/?directConnection=true", self.address)
    }

    /// The process, for its ID, its output, and signals such as STOP and CONT; `None` while it is
    /// down.
    pub fn running(&self) -> Option<&Process> {
        self.process.as_ref()
    }
}

fn java_command(java: &Path, home: &Path, listen: &str) -> Command {
    let classes = format!("{}:{}/lib/*", home.display(), home.display());
    let mut command = Command::new(java);
    // Many small servers on few cores: one collector thread and one compiler thread each.
    command.args(["-XX:+UseSerialGC", "-XX:CICompilerCount=2", "-Xmx256m"]);
    command.args(["-cp", &classes, "MongoJava", listen]);
    command
}

/// Whether this is root; otherwise the same as [`absent`].
pub fn is_root(why: &str) -> bool {
    rustix::process::geteuid().is_root() || absent(why).unwrap_or(false)
}

/// Prints why a test is skipped; with CI=true, fails instead.
pub fn absent<T>(why: &str) -> Option<T> {
    assert!(env::var("CI").as_deref() != Ok("true"), "{why}, and CI=true skips nothing");
    eprintln!("SKIPPED: {why}; `make deps` installs it");
    None
}
