//! A worker: one thread, one single-threaded tokio runtime, the connections given to it.

use std::{
    cell::{Cell, RefCell},
    mem::MaybeUninit,
    net::{SocketAddr, TcpStream as StdStream},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use cache::{
    Session, Side,
    filter::{Filter, mongo::Mongo, resp::Resp},
    lease::Ticket,
    stats::Stats,
};
use tokio::{
    net::TcpStream,
    sync::mpsc,
    task::{LocalSet, spawn_local},
};
use tracing::warn;

use super::{Handle, Listener, Shared, behind::Behind, connection::Connection, listener::Protocol};

/// Bytes read from a socket at once.
const READ_BYTES: usize = 64 << 10;
/// Buffers kept for connections to come; more are in use only while clients are slow to read.
const SPARE_BUFFERS_MAX: usize = 32;
/// Connections on their way to a worker; beyond, the acceptor waits.
pub(super) const ACCEPTED_MAX: usize = 1_024;

/// A client that was accepted.
pub(super) struct Accepted {
    pub(super) stream: StdStream,
    pub(super) peer: SocketAddr,
    pub(super) listener: Arc<Listener>,
    pub(super) behind: Behind,
}

/// What the connections of one thread share.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) buffer: RefCell<Box<[MaybeUninit<u8>]>>,
    /// The connection that read last.
    pub(super) last_served: Cell<Ticket>,
    storage: RefCell<Handle>,
    /// Buffers that sessions write into while they are served.
    spare: RefCell<Vec<Vec<u8>>>,
}

impl Worker {
    fn new(shared: Arc<Shared>, stats: Arc<Stats>) -> Self {
        let storage = RefCell::new(Handle::new(Arc::clone(&shared.shards), stats));
        let buffer = RefCell::new(vec![MaybeUninit::uninit(); READ_BYTES].into_boxed_slice());
        let last_served = Cell::new(Ticket(u64::MAX));
        Self { shared, buffer, last_served, storage, spare: RefCell::default() }
    }

    /// Lends the session buffers for what it has to say.
    pub(super) fn lend<F: Filter>(&self, session: &mut Session<F>) {
        let mut spare = self.spare.borrow_mut();
        for side in [Side::Client, Side::Server] {
            session.output(side).borrow_from(&mut spare);
        }
    }

    /// Takes back what has been written out.
    pub(super) fn take_back<F: Filter>(&self, session: &mut Session<F>) {
        let mut spare = self.spare.borrow_mut();
        for side in [Side::Client, Side::Server] {
            if let Some(buffer) = session.output(side).give_back()
                && spare.len() < SPARE_BUFFERS_MAX
            {
                spare.push(buffer);
            }
        }
    }

    /// Time since the runtime started.
    pub(super) fn now(&self) -> Duration {
        self.shared.start.elapsed()
    }

    /// Acts on storage, then tells everybody whose wait it ended.
    pub(super) fn with_storage<T>(&self, act: impl FnOnce(&mut Handle) -> T) -> T {
        let mut storage = self.storage.borrow_mut();
        let result = act(&mut storage);
        self.shared.post.deliver(storage.woken());
        result
    }
}

/// Runs a worker until no more connections come and the last is over, or `shared` gives up on it.
pub(super) fn run(shared: Arc<Shared>, stats: Arc<Stats>, accepted: mpsc::Receiver<Accepted>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("a worker cannot start: {error}");
            return;
        }
    };
    let worker = Rc::new(Worker::new(shared, stats));
    // A task of its own: the future handed to `block_on` is polled again with every wake of any.
    let served =
        LocalSet::new().block_on(&runtime, async { spawn_local(serve(worker, accepted)).await });
    if let Err(error) = served {
        tracing::error!("a worker ended: {error}");
    }
}

async fn serve(worker: Rc<Worker>, mut accepted: mpsc::Receiver<Accepted>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            next = accepted.recv() => match next {
                Some(next) => begin(&worker, next, &mut connections),
                None => break,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    let limit = worker.shared.limits.drain_timeout;
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limit, drained).await.is_err() {
        warn!("closing connections that were still busy after {limit:?}");
    }
}

fn begin(worker: &Rc<Worker>, next: Accepted, connections: &mut tokio::task::JoinSet<()>) {
    let Accepted { stream, peer, listener, behind: Behind { protocol, origin } } = next;
    let client = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
    let client = match client.and_then(|client| client.set_nodelay(true).map(|()| client)) {
        Ok(client) => client,
        Err(error) => {
            warn!(%peer, "cannot serve the connection: {error}");
            listener.left();
            return;
        }
    };
    let limits = Arc::clone(&listener.session);
    let worker = Rc::clone(worker);
    let counted = listener;
    match protocol {
        Protocol::Mongo(settings) => {
            let filter = Mongo::new(settings);
            let connection = Connection::new(worker, client, peer, origin, |ticket| {
                Session::new(filter, limits, ticket)
            });
            connections.spawn_local(async move {
                connection.run().await;
                counted.left();
            });
        }
        Protocol::Resp(settings) => {
            let filter = Resp::new(settings);
            let connection = Connection::new(worker, client, peer, origin, |ticket| {
                Session::new(filter, limits, ticket)
            });
            connections.spawn_local(async move {
                connection.run().await;
                counted.left();
            });
        }
    }
}
