//! The elastic database as a service: sockets, threads, disks and the clock around `db`.
//!
//! `workers` threads serve the connections dealt to them, each with an event loop of its own
//! (`docs/decisions/0006-…`); a pool of threads executes the disk commands of the shards; one more
//! thread does their maintenance. The keys are in shards, each behind a lock that is held for one
//! command ([`Locks`]).
//!
//! **Read first:** `connection.rs`, then `worker.rs`, then `disk.rs`.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, JoinHandle, Thread},
    time::{Duration, Instant},
};

use acl::Acl;
use db::{Server, goal::Goal, latency::CommandLatencies, lookups::Lookups, parameters::Parameters};
use endpoint::Told;
use reactor::Post;
use shards::{Locks, directory};
use store::{
    FileDevice,
    elastic::{Config, Sync, Warming},
};
use zeroize::Zeroizing;

mod backup;
mod budget;
mod connection;
mod disk;
mod durable;
mod host;
mod netcache;
mod observed;
pub mod orchestrator;
mod queue;
mod upkeep;
mod worker;

use backup::Backups;
use budget::Budget;
use disk::Disk;
use host::ProcessHost;
use orchestrator::Orchestrator;
use platform::{
    lock::Lock,
    memory::{Overhead, heap},
    open_files, random, tls,
    wall_clock::now,
};
use worker::{Note, Worker};

use crate::{sync, users};

/// Parameters of [`Database::start`].
pub struct Setup {
    /// Data directory.
    pub directory: PathBuf,
    /// Memory of the whole process, in bytes.
    pub memory_bytes: u64,
    /// Start although data is missing, and serve the rest.
    pub accept_data_loss: bool,
    /// When writes are synced to disk.
    pub sync: Sync,
    /// The entries that are read ahead when memory grows.
    pub warming: Warming,
    /// Threads that serve.
    pub workers: usize,
    /// Threads that read from the disk.
    pub readers: usize,
    /// Clients served at once.
    pub clients_max: usize,
    /// Socket where clients connect.
    pub listener: TcpListener,
    /// Encryption, if connections are to have it.
    pub tls: Option<Arc<tls::Server>>,
    /// A file of users, read at the start and by ACL LOAD.
    pub users: Option<PathBuf>,
    /// The password of the default user.
    pub password: Option<Zeroizing<String>>,
    /// Percentage of the cgroup's memory limit that the process may use; `None` does not follow the
    /// limit.
    pub follow_cgroup: Option<u8>,
    /// Goal of automatic memory changes; `None` if they are off.
    pub goal: Option<Goal>,
    /// The orchestrator that is asked for memory, if any.
    pub orchestrator: Option<orchestrator::Place>,
}

/// State shared by all threads.
pub struct Shared {
    /// Users, clients, parameters, counters.
    pub server: Server,
    /// The keys.
    pub locks: Arc<Locks>,
    lookups: Lookups,
    /// Of each worker.
    latencies: Box<[CommandLatencies]>,
    overhead: Arc<Overhead>,
    /// Waiting bytes of all clients: incomplete requests, queued commands, answers.
    clients_bytes: AtomicUsize,
    disk: Disk,
    backups: Backups,
    /// The thread that does the shards' upkeep, once it runs.
    keeper: OnceLock<Thread>,
    ending: AtomicBool,
    post: Post<Note>,
    told: Told,
}

impl Shared {
    /// Time since the Unix epoch, as in expiries.
    pub fn now(&self) -> Duration {
        now()
    }

    fn is_ending(&self) -> bool {
        self.ending.load(SeqCst)
    }

    /// Sets the memory of the whole process, in bytes.
    pub fn rescale(&self, bytes: u64) {
        self.server.parameters.memory_bytes.store(bytes, SeqCst);
        self.share_out();
    }

    /// Sets every shard's share of the memory.
    fn share_out(&self) {
        let bytes = self.server.parameters.memory_bytes.load(SeqCst);
        let share = self.overhead.for_shards(bytes) as usize / self.locks.len();
        for index in 0..self.locks.len() {
            self.locks.hold(index).store.rescale(share);
        }
    }

    /// Changes when writes reach the disk.
    pub fn set_sync(&self, sync: Sync) {
        self.server.parameters.set_sync(sync);
        for index in 0..self.locks.len() {
            self.locks.hold(index).store.set_sync(sync);
        }
    }
}

/// A database that serves, until [`Database::stop`].
pub struct Database {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    address: SocketAddr,
    /// Held until every thread has ended.
    _lock: Lock,
}

/// Heaps that all threads share.
const HEAPS: i32 = 2;
/// Fixed part of what clients may keep waiting, in addition to the reserve of the budget
/// (`db::memory::clients_bytes_max`).
const CLIENTS_BYTES: u64 = 8 << 20;
/// Maximum number of open files and sockets besides those of clients and shards.
const FILES_BESIDES: usize = 128;
/// Maximum time at shutdown for written data to reach the disk.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

impl Database {
    /// Opens the directory and starts every thread.
    ///
    /// # Errors
    /// The directory cannot be opened, or a socket or thread not be set up.
    pub fn start(setup: Setup) -> anyhow::Result<Self> {
        let Setup { directory, memory_bytes, sync, workers, clients_max, listener, users, .. } =
            setup;
        let address = listener.local_addr()?;
        let (directory, lock) = directory::open(&directory)?;
        heap::share(HEAPS);
        let overhead = Arc::new(Overhead::new(host::resident_bytes(), CLIENTS_BYTES));
        let host = ProcessHost::new(
            users.clone(),
            address.port(),
            setup.orchestrator.is_some(),
            Arc::clone(&overhead),
        );
        let share = overhead.for_shards(memory_bytes);
        let config = Config {
            memory_bytes: share as usize,
            sync,
            warming: setup.warming,
            accept_data_loss: setup.accept_data_loss,
            ..Config::default()
        };
        let (locks, devices) = shards::open(&directory, &config, now())?;
        for index in 0..locks.len() {
            let tracked_keys = db::tracking::keys_max_for(memory_bytes) / locks.len();
            locks.hold(index).tracking.limit(tracked_keys.max(1));
        }
        let files = locks.len() * FileDevice::FILES_MAX + FILES_BESIDES;
        // The worker that opens a file, and its lookups, would wait for the room.
        open_files::make_room(clients_max + files, &listener);
        let locks = Arc::new(locks);
        let fixed = host::fixed_parameters(directory.path(), address.port());
        let parameters = Parameters::new(memory_bytes, clients_max, sync, fixed);
        let seed = u64::from_ne_bytes(random::bytes());
        let server = Server::new(&db::ROWS, Box::new(host), parameters, seed, now());
        server.parameters.set_goal(setup.goal);
        prepare_users(
            &server.acl,
            users.as_deref(),
            setup.password.as_deref().map(String::as_str),
        )?;
        let knows_clients = setup.tls.as_ref().is_some_and(|tls| tls.knows_clients());
        if !address.ip().is_loopback() && server.acl.is_open() && !knows_clients {
            tracing::warn!(
                "every client that can connect to {address} can read and write everything: the user `default` needs \
                 no password. Set --password-file, --users or --tls-ca"
            );
        }
        let post = Post::new(workers)?;
        let disk = Disk::new(devices, workers);
        let ending = AtomicBool::new(false);
        let shared = Arc::new(Shared {
            server,
            locks,
            lookups: Lookups::default(),
            latencies: (0..workers).map(|_| CommandLatencies::default()).collect(),
            overhead,
            clients_bytes: AtomicUsize::new(0),
            disk,
            backups: Backups::new(),
            keeper: OnceLock::new(),
            ending,
            post,
            told: Told::default(),
        });
        let mut database = Self { shared, threads: Vec::new(), address, _lock: lock };
        let orchestrator = setup.orchestrator.map(Orchestrator::new).transpose()?;
        database.begin_upkeep(setup.readers, setup.follow_cgroup, orchestrator)?;
        database.begin_workers(workers, listener, setup.tls.as_ref())?;
        Ok(database)
    }

    /// Starts the threads that look after shards, disks and memory.
    fn begin_upkeep(
        &mut self,
        readers: usize,
        follow_cgroup: Option<u8>,
        orchestrator: Option<Orchestrator>,
    ) -> io::Result<()> {
        for _ in 0..readers {
            let shared = Arc::clone(&self.shared);
            self.spawn("disk-reader", move || disk::read(&shared))?;
        }
        for _ in 0..disk::WRITERS {
            let shared = Arc::clone(&self.shared);
            self.spawn("disk-writer", move || disk::write(&shared))?;
        }
        let shared = Arc::clone(&self.shared);
        self.spawn("backup", move || backup::run(&shared))?;
        let shared = Arc::clone(&self.shared);
        self.spawn("upkeep", move || upkeep::run(&shared))?;
        let shared = Arc::clone(&self.shared);
        self.spawn("budget", move || Budget::new(&shared, follow_cgroup, orchestrator).run())
    }

    /// Starts the threads that serve clients; the first accepts them.
    fn begin_workers(
        &mut self,
        count: usize,
        listener: TcpListener,
        tls: Option<&Arc<tls::Server>>,
    ) -> io::Result<()> {
        let mut listener = Some(listener);
        for index in 0..count {
            let shared = Arc::clone(&self.shared);
            let worker = Worker::new(shared, index, listener.take(), tls.cloned())?;
            self.spawn("worker", move || worker.run())?;
        }
        Ok(())
    }

    /// State shared by all threads.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Address where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting commands, syncs all writes to disk, and ends.
    pub fn stop(self) {
        self.shared.ending.store(true, SeqCst);
        self.shared.post.wake_all();
        let (workers, others): (Vec<_>, Vec<_>) = self.threads.into_iter().partition(|thread| {
            matches!(thread.thread().name(), Some("worker" | netcache::THREAD))
        });
        join(workers);
        let began = Instant::now();
        if disk::close(&self.shared, CLOSE_TIMEOUT) {
            tracing::info!("closed: everything is on disk after {:?}", began.elapsed());
        } else {
            tracing::error!(
                "not all writes reached the disk within {CLOSE_TIMEOUT:?}; the next start \
                 recovers as after a crash"
            );
        }
        self.shared.disk.end();
        self.shared.backups.end();
        join(others);
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(thread::Builder::new().name(name.to_owned()).spawn(body)?);
        Ok(())
    }
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        if thread.join().is_err() {
            tracing::error!("a thread of the database panicked; please report this as a bug");
        }
    }
}

fn prepare_users(acl: &Acl, file: Option<&Path>, password: Option<&str>) -> anyhow::Result<()> {
    if let Some(file) = file {
        users::load(acl, file)?;
    }
    if let Some(password) = password {
        acl.set(acl::DEFAULT, &["resetpass", &format!(">{password}")])?;
    }
    Ok(())
}
