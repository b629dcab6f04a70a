//! Starts each server: ours, its peers, and their origins.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use anyhow::{Context, ensure};

use crate::{
    dynamodb,
    process::{Child, Cores, Server, free_address},
};

/// A running `enroute db`. Dropping it kills it and removes what it kept.
pub(crate) struct Database {
    pub(crate) server: Server,
    pub(crate) directory: PathBuf,
}

impl Drop for Database {
    fn drop(&mut self) {
        // Also while the server runs: its open files last until it ends, right after this.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The directories in which servers are found and write their logs.
pub(crate) struct Servers {
    directory: PathBuf,
    enroute: PathBuf,
    count: AtomicUsize,
}

impl Servers {
    /// Servers whose logs go to `directory`; `enroute` is the binary beside this one.
    pub(crate) fn new(directory: PathBuf) -> anyhow::Result<Self> {
        Self::of(std::env::current_exe()?.with_file_name("enroute"), directory)
    }

    /// The same with another binary `enroute`.
    pub(crate) fn of(enroute: PathBuf, directory: PathBuf) -> anyhow::Result<Self> {
        fs::create_dir_all(&directory)?;
        let enroute = std::path::absolute(enroute)?;
        ensure!(
            enroute.is_file(),
            "{} is not there: cargo build --release -p enroute",
            enroute.display()
        );
        Ok(Self { directory, enroute, count: AtomicUsize::new(0) })
    }

    /// `enroute` itself.
    pub(crate) fn enroute(&self) -> Command {
        Command::new(&self.enroute)
    }

    /// An example program that was built with `enroute`, a part of the crate `package`.
    pub(crate) fn example(&self, package: &str, name: &str) -> anyhow::Result<Command> {
        let program = self.enroute.with_file_name("examples").join(name);
        ensure!(
            program.is_file(),
            "{} is not there: cargo build --release -p {package} --example {name}",
            program.display()
        );
        Ok(Command::new(program))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}-{}", self.count.fetch_add(1, Relaxed)))
    }

    /// redis-server, without persistence.
    pub(crate) fn redis(&self, cores: Cores) -> anyhow::Result<Server> {
        let address = free_address()?;
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--maxclients", "19000"]);
        command.arg("--dir").arg(&self.directory);
        Server::start(&mut command, address, cores, &self.file("redis"))
    }

    /// memcached with one thread.
    pub(crate) fn memcached(&self, cores: Cores) -> anyhow::Result<Server> {
        let address = free_address()?;
        let mut command = Command::new("memcached");
        command.args(["-t", "1", "-m", "1024", "-c", "4096", "-U", "0", "-u", "nobody"]);
        command.args(["-l", "127.0.0.1", "-p", &address.port().to_string()]);
        Server::start(&mut command, address, cores, &self.file("memcached"))
    }

    /// `enroute cache` for `scheme` before `origin`.
    pub(crate) fn cache(
        &self,
        scheme: &str,
        origin: SocketAddr,
        options: &[&str],
        cores: Cores,
    ) -> anyhow::Result<Server> {
        let address = free_address()?;
        let mut command = self.enroute();
        command.args(["--log", "warn", "cache"]);
        command.args(["--listen", &format!("{scheme}://{address}")]);
        command.args(["--origin", &format!("{scheme}://{origin}")]).args(options);
        Server::start(&mut command, address, cores, &self.file("enroute"))
    }

    /// `enroute cache` for DynamoDB before `origin`. What it has stored does not expire: otherwise
    /// a hit would be a miss every ten seconds.
    pub(crate) fn dynamodb_cache(
        &self,
        origin: SocketAddr,
        options: &[&str],
        cores: Cores,
    ) -> anyhow::Result<Server> {
        let (address, configuration) = (free_address()?, self.file("cache.toml"));
        let text = format!(
            "[storage]\nttl = \"1440min\"\nauthorization_lease = \"1440min\"\n\
             [[listener]]\nlisten = \"dynamodb://{address}\"\norigin = \"dynamodb://{origin}\"\n"
        );
        fs::write(&configuration, text)?;
        let mut command = self.enroute();
        command.args(["--log", "warn", "cache", "--config"]).arg(&configuration).args(options);
        command.env("AWS_ACCESS_KEY_ID", dynamodb::ACCESS_KEY);
        command.env("AWS_SECRET_ACCESS_KEY", dynamodb::SECRET).env_remove("AWS_SESSION_TOKEN");
        Server::start(&mut command, address, cores, &self.file("enroute"))
    }

    /// redis-server with more of its options.
    pub(crate) fn redis_with(&self, options: &[&str], cores: Cores) -> anyhow::Result<Server> {
        let address = free_address()?;
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string()]);
        // A separate directory: with `--appendonly` it reads existing files.
        command.args(["--save", ""]).args(options).arg("--dir").arg(self.directory("redis")?);
        Server::start(&mut command, address, cores, &self.file("redis"))
    }

    /// `enroute db` in a new directory, which goes with the returned handle.
    pub(crate) fn database(&self, options: &[&str], cores: Cores) -> anyhow::Result<Database> {
        let address = free_address()?;
        let directory = self.file("data");
        let mut command = Command::new(&self.enroute);
        command.args(["--log", "warn", "db", "--listen", &address.to_string()]);
        command.arg("--dir").arg(&directory).args(options);
        let server = Server::start(&mut command, address, cores, &self.file("db"))?;
        Ok(Database { server, directory })
    }

    /// A command of `enroute`, to be run in `directory`.
    pub(crate) fn enroute_in(&self, directory: &Path) -> Command {
        let mut command = Command::new(&self.enroute);
        command.args(["--log", "warn"]).current_dir(directory);
        command
    }

    /// A directory of its own.
    pub(crate) fn directory(&self, name: &str) -> anyhow::Result<PathBuf> {
        let directory = std::path::absolute(self.file(name))?;
        fs::create_dir_all(&directory)?;
        Ok(directory)
    }

    /// `enroute link` before `to`.
    pub(crate) fn link(&self, to: SocketAddr, rtt: &str) -> anyhow::Result<Server> {
        let address = free_address()?;
        let mut command = Command::new(&self.enroute);
        command.args(["link", "--listen", &address.to_string(), "--to", &to.to_string()]);
        command.args(["--rtt", rtt]);
        Server::start(&mut command, address, Cores::Any, &self.file("link"))
    }

    /// `enroute state agent` before a cluster.
    pub(crate) fn agent(
        &self,
        node: SocketAddr,
        options: &[&str],
        cores: Cores,
    ) -> anyhow::Result<Server> {
        let address = free_address()?;
        let mut command = Command::new(&self.enroute);
        command.args(["state", "agent", "--listen", &address.to_string()]);
        command.args(["--cluster", &node.to_string()]).args(options);
        Server::start(&mut command, address, cores, &self.file("agent"))
    }

    /// Anything that is not waited for.
    pub(crate) fn spawn(
        &self,
        name: &str,
        command: &mut Command,
        cores: Cores,
    ) -> anyhow::Result<Child> {
        Child::start(command, cores, &self.file(name))
    }

    /// nutcracker before one redis-server.
    pub(crate) fn nutcracker(&self, redis: SocketAddr, cores: Cores) -> anyhow::Result<Server> {
        let address = free_address()?;
        let configuration = self.file("nutcracker.yml");
        let text = format!(
            "pool:\n  listen: {address}\n  hash: fnv1a_64\n  distribution: ketama\n  redis: true\n  \
             backlog: 1024\n  servers:\n   - {redis}:1\n"
        );
        fs::write(&configuration, text)?;
        let stats = free_address()?;
        let mut command = Command::new("nutcracker");
        command.arg("-c").arg(&configuration).args(["-a", "127.0.0.1"]);
        command.args(["-s", &stats.port().to_string()]);
        Server::start(&mut command, address, cores, &self.file("nutcracker"))
    }

    /// mongo-java-server, in memory.
    pub(crate) fn mongo(&self) -> anyhow::Result<Server> {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/mongo-java");
        let home = home.canonicalize().context("mongo-java-server is missing: make deps")?;
        let mut command = Command::new("java");
        // As small as in the tests, but with a heap that lets its collector rest.
        command.args(["-XX:+UseSerialGC", "-XX:CICompilerCount=2", "-Xms512m", "-Xmx512m"]);
        command.arg("-cp").arg(format!("{}:{}/lib/*", home.display(), home.display()));
        command.args(["MongoJava", "127.0.0.1:0"]);
        Server::start_and_ask(&mut command, Cores::Any, &self.file("mongo-java"))
    }

    /// The scripted primary of a replica set: no server that can be installed has a change stream
    /// of the whole deployment.
    pub(crate) fn replica(&self) -> anyhow::Result<Server> {
        let mut command = self.example("enroute", "replica")?;
        Server::start_and_ask(&mut command, Cores::Any, &self.file("replica"))
    }

    /// DynamoDB Local, in memory.
    pub(crate) fn dynamodb(&self, cores: Cores) -> anyhow::Result<Server> {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/dynamodb-local");
        let home = home.canonicalize().context("DynamoDB Local is missing: make deps")?;
        let (address, home) = (free_address()?, home.display());
        let mut command = Command::new("java");
        command.args(["-XX:+UseSerialGC", "-XX:CICompilerCount=2", "-Xms512m", "-Xmx512m"]);
        // It unpacks a library there.
        command.arg(format!("-Djava.io.tmpdir={}", self.directory("dynamodb")?.display()));
        command.arg(format!("-Djava.library.path={home}"));
        command.args(["-cp", &format!("{home}/*")]);
        command.arg("com.amazonaws.services.dynamodbv2.local.main.ServerRunner");
        command.args(["-inMemory", "-sharedDb", "-disableTelemetry", "-port"]);
        command.arg(address.port().to_string());
        Server::start(&mut command, address, cores, &self.file("dynamodb"))
    }

    /// FerretDB on SQLite: an origin that looks for its documents on disk.
    pub(crate) fn ferretdb(&self) -> anyhow::Result<Server> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/bin/ferretdb");
        let mut command = Command::new(program);
        let data = self.file("ferretdb-data");
        fs::create_dir_all(&data)?;
        command.arg("--dir").arg(data);
        Server::start_and_ask(&mut command, Cores::Any, &self.file("ferretdb"))
    }

    /// One of the servers in [`crate::stub`].
    pub(crate) fn stub(&self, arguments: &[&str], cores: Cores) -> anyhow::Result<Server> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("stub").args(arguments);
        Server::start_and_ask(&mut command, cores, &self.file(arguments[0]))
    }
}
