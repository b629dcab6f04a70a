//! A primary and its replica, with three Sentinels that monitor them, on loopback.

use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::cluster::connection;
use super::directory::{TemporaryDirectory, on_path};
use super::origins::Redis;
use super::process::{PATIENCE, Process, free_address};

/// The primary's name in the Sentinels.
pub const NAME: &str = "main";
const SENTINELS: usize = 3;
/// Polling interval.
const PAUSE: Duration = Duration::from_millis(20);

/// A Sentinel.
pub struct Sentinel {
    process: Process,
    address: SocketAddr,
    password: Option<String>,
    _directory: TemporaryDirectory,
}

impl Sentinel {
    /// Monitors `primary`; `quorum` Sentinels must consider it down.
    pub fn start(primary: SocketAddr, quorum: usize, password: Option<&str>) -> Option<Self> {
        let program = on_path("redis-server")?;
        let (directory, address) = (TemporaryDirectory::create(), free_address());
        let (host, port) = (primary.ip(), primary.port());
        let mut text = format!(
            "bind 127.0.0.1\nport {}\ndir {}\nsentinel monitor {NAME} {host} {port} {quorum}\n\
             sentinel down-after-milliseconds {NAME} 2000\nsentinel failover-timeout {NAME} 6000\n",
            address.port(),
            directory.path().display()
        );
        if let Some(password) = password {
            text.push_str(&format!("requirepass {password}\n"));
        }
        let file = directory.path().join("sentinel.conf");
        std::fs::write(&file, text).expect("a writable directory");
        let process = Process::start(Command::new(program).arg(&file).arg("--sentinel"));
        assert!(process.stdout_line("+monitor").is_some(), "{}", process.stdout());
        let password = password.map(str::to_owned);
        let sentinel = Self { process, address, password, _directory: directory };
        // Prevents TILT mode, which stops a Sentinel for 30 s, on a busy machine; finds replicas
        // sooner.
        let debug = ["DEBUG", "TILT-TRIGGER", "60000", "INFO-PERIOD", "500"];
        let _: redis::Value = sentinel.ask(&debug);
        Some(sentinel)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process, for signals.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Executes `SENTINEL` with these words.
    pub fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_ask(words).expect("a reply")
    }

    fn try_ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let mut connection = connection(self.address);
        if let Some(password) = &self.password {
            let _: () = redis::cmd("AUTH").arg(password).query(&mut connection)?;
        }
        redis::cmd("SENTINEL").arg(words).query(&mut connection)
    }
}

/// All servers.
pub struct Watched {
    pub nodes: Vec<Redis>,
    pub sentinels: Vec<Sentinel>,
}

impl Watched {
    /// Starts three Sentinels that know each other, the primary and the replica; they require
    /// `password`.
    pub fn start(password: Option<&str>) -> Option<Self> {
        let primary = Redis::start()?;
        let port = primary.address().port().to_string();
        let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &port])?;
        let sentinels: Vec<Sentinel> = (0..SENTINELS)
            .map(|_| Sentinel::start(primary.address(), 2, password))
            .collect::<Option<_>>()?;
        let watched = Self { nodes: vec![primary, replica], sentinels };
        watched.settle();
        Some(watched)
    }

    /// Waits until all Sentinels know a primary, a replica that is connected to it, and each other.
    pub fn settle(&self) {
        let started = Instant::now();
        for sentinel in &self.sentinels {
            loop {
                let told: Vec<String> = sentinel.ask(&["MASTER", NAME]);
                let is = |name: &str, value: &str| told.chunks(2).any(|pair| pair == [name, value]);
                let replicas: Vec<Vec<String>> = sentinel.ask(&["REPLICAS", NAME]);
                let follows = replicas.iter().any(|replica| {
                    replica.chunks(2).any(|pair| pair == ["master-link-status", "ok"])
                });
                if is("num-other-sentinels", "2") && is("flags", "master") && follows {
                    break;
                }
                assert!(started.elapsed() < PATIENCE, "{told:?} {replicas:?}");
                thread::sleep(PAUSE);
            }
        }
    }

    /// The address of the origin for the cache.
    pub fn origin(&self) -> String {
        origin(&self.sentinels.iter().map(Sentinel::address).collect::<Vec<_>>())
    }

    /// Makes the Sentinels promote the replica.
    pub fn fail_over(&self) {
        let started = Instant::now();
        let mut sentinels = self.sentinels.iter().cycle();
        let first = sentinels.next().expect("a Sentinel");
        while let Err(error) = first.try_ask::<()>(&["FAILOVER", NAME]) {
            // Refused while an earlier failover is in progress, or while the replica has not
            // reported for a while.
            assert!(started.elapsed() < PATIENCE, "{error}");
            thread::sleep(PAUSE);
        }
    }
}

/// An origin that these Sentinels name.
pub fn origin(sentinels: &[SocketAddr]) -> String {
    let hosts: Vec<String> = sentinels.iter().map(ToString::to_string).collect();
    format!("redis+sentinel://{}/{NAME}", hosts.join(","))
}
