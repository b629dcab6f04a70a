//! The NetCache protocol for keys of the database: the server agent.
//!
//! The agent (`switch::agent`) is a client without a socket, which executes the commands of
//! [`db::netcache`]. Writes of Redis clients to such a key reach the agent by client tracking,
//! after they are done; the agent then invalidates the old value in the switch.
//!
//! Decision: `docs/decisions/0070-netcache-agent-in-db.md`.

use std::{
    cell::RefCell,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::Duration,
};

use anyhow::{Context, anyhow, ensure};
use db::{Session, Step, netcache};
use store::elastic::Sync;
use switch::agent::Store;
use wire::{netcache::Key, resp::Frame};

use super::{Database, Shared};
use crate::switch::agent;

/// Maximum interval of checks for awaited events.
const REST: Duration = Duration::from_millis(1);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

impl Database {
    /// Serves NetCache's protocol at `listen`, behind the switch at that address.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn serve_netcache(&mut self, listen: SocketAddr, switch: IpAddr) -> anyhow::Result<()> {
        let socket = UdpSocket::bind(listen).with_context(|| {
            format!("cannot listen on UDP {listen}; check that no other process uses the address")
        })?;
        let shared = Arc::clone(&self.shared);
        self.spawn(THREAD, move || serve(&socket, switch, &shared))?;
        Ok(())
    }
}

/// The thread ends before the disk threads.
pub(super) const THREAD: &str = "netcache";

fn serve(socket: &UdpSocket, switch: IpAddr, shared: &Arc<Shared>) {
    while !shared.is_ending() {
        // After a failure the agent restarts, and the switch drops its cached keys.
        let served = Records::open(shared).and_then(|mut records| {
            let receive = agent::receive(socket);
            agent::serve(socket, switch, &mut records, receive, &shared.ending).map(drop)
        });
        if let Err(error) = served {
            tracing::error!("the NetCache agent failed and restarts in {PAUSE:?}: {error:#}");
            thread::sleep(PAUSE);
        }
    }
}

/// The database's keys, through a client without a socket.
struct Records {
    client: RefCell<Client>,
    failure: RefCell<Option<anyhow::Error>>,
}

struct Client {
    shared: Arc<Shared>,
    session: Session,
}

impl Client {
    fn enter(shared: &Arc<Shared>) -> Self {
        let server = &shared.server;
        let now_ms = shared.now().as_millis() as u64;
        let this = thread::current();
        let client = server
            .clients
            .enter(THREAD.into(), String::new(), now_ms, |_| Box::new(move || this.unpark()));
        Self { shared: Arc::clone(shared), session: Session::new(client, server) }
    }

    /// Executes a command, and waits until its writes are as durable as those of a client.
    fn ask(&mut self, args: &[&[u8]]) -> anyhow::Result<Vec<u8>> {
        let mut out = Vec::new();
        loop {
            let (shared, session) = (&*self.shared, &mut self.session);
            match session.execute(args, &shared.server, &*shared.locks, &mut out, shared.now()) {
                Step::Done | Step::Sleep(_) => break,
                Step::Again => {}
                Step::Busy => thread::park_timeout(REST),
                Step::Wait => {
                    session.waiting_on(|shard| pump(shared, shard));
                    while !session.client().is_ready() {
                        thread::park_timeout(REST);
                    }
                }
            }
            ensure!(!shared.is_ending(), "the database is stopping");
        }
        self.shared.server.stats.commands.fetch_add(1, Relaxed);
        for (shard, position) in self.session.take_unsynced() {
            pump(&self.shared, shard);
            let waits = self.shared.server.parameters.sync() == Sync::Always;
            while waits && !self.shared.disk.durable.is_durable(shard, position) {
                ensure!(
                    !self.shared.disk.durable.has_failed(shard),
                    "a write failed to reach the disk"
                );
                thread::park_timeout(REST);
            }
        }
        Ok(out)
    }

    /// The same for a command whose answer is needed.
    fn answer<T>(
        &mut self,
        args: &[&[u8]],
        read: impl FnOnce(Frame<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let out = self.ask(args)?;
        let named = |why| anyhow!("{}: {why}", String::from_utf8_lossy(args[0]));
        read(netcache::reply(&out).map_err(named)?)
    }

    /// Writes both atomically: a number without its value would acknowledge a lost write; a value
    /// without its number would be applied again.
    fn put(
        &mut self,
        key: &Key,
        value: Option<&[u8]>,
        writer: SocketAddr,
        sequence: u32,
    ) -> anyhow::Result<()> {
        let last = self.last_write(key, writer);
        let out = netcache::write(key, value, &last, sequence, |args| self.ask(args))?;
        netcache::reply(&out).map(drop).map_err(|why| anyhow!("exec: {why}"))
    }

    fn last_write(&self, key: &Key, writer: SocketAddr) -> Vec<u8> {
        netcache::last_write(key, writer, self.shared.locks.len())
    }

    /// Keys of the agent that other clients changed.
    fn changed(&mut self) -> anyhow::Result<Vec<Key>> {
        let mut said = Vec::new();
        self.session.hear(&mut said);
        netcache::changed(&said).map_err(anyhow::Error::msg)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.session.close(&self.shared.server, &*self.shared.locks);
        self.shared.server.clients.leave(self.session.client().id);
    }
}

impl Records {
    fn open(shared: &Arc<Shared>) -> anyhow::Result<Self> {
        let mut client = Client::enter(shared);
        client.answer(&[b"hello", b"3"], |_| Ok(()))?;
        client.answer(&netcache::TRACK, |_| Ok(()))?;
        Ok(Self { client: RefCell::new(client), failure: RefCell::default() })
    }

    /// The reply of the client; errors are kept.
    fn kept<T>(&self, said: anyhow::Result<T>) -> Option<T> {
        said.map_err(|error| *self.failure.borrow_mut() = Some(error)).ok()
    }
}

impl Store for Records {
    fn read(&self, key: &Key) -> Option<Vec<u8>> {
        let said = self.client.borrow_mut().answer(&[b"get", &netcache::value(key)], |answer| {
            Ok(answer.payload().map(<[u8]>::to_vec))
        });
        self.kept(said).flatten()
    }

    fn write(&mut self, key: Key, value: Option<&[u8]>, writer: SocketAddr, sequence: u32) {
        let said = self.client.borrow_mut().put(&key, value, writer, sequence);
        self.kept(said);
    }

    fn last_write(&self, key: &Key, writer: SocketAddr) -> Option<u32> {
        let mut client = self.client.borrow_mut();
        let ask: [&[u8]; 2] = [b"get", &client.last_write(key, writer)];
        let said = client.answer(&ask, |answer| {
            let text = answer.payload().map(std::str::from_utf8).transpose()?;
            Ok(text.map(str::parse).transpose()?)
        });
        self.kept(said).flatten()
    }

    fn changed(&self) -> Vec<Key> {
        let said = self.client.borrow_mut().changed();
        self.kept(said).unwrap_or_default()
    }

    fn failure(&self) -> Option<String> {
        self.failure.borrow().as_ref().map(|error| format!("{error:#}"))
    }
}

fn pump(shared: &Shared, shard: usize) {
    shared.disk.pump(shard, &mut shared.locks.hold(shard), shared.now());
}
