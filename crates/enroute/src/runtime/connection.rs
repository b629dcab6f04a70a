//! One client connection: its socket, its origin's socket, and the session between them.
//!
//! The task waits for readiness, not for bytes, and reads into its worker's one buffer: an idle
//! connection holds no buffer at all.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use cache::{Session, Side, filter::Filter, lease::Ticket, session::Afterlife};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::Sleep,
};
use tracing::{debug, info, warn};

use super::{mailbox::Mailbox, origin::Origin, worker::Worker};

/// One connection, driven by polling.
pub(super) struct Connection<F: Filter> {
    worker: Rc<Worker>,
    session: Session<F>,
    ticket: Ticket,
    mailbox: Arc<Mailbox>,
    peer: SocketAddr,
    client: TcpStream,
    /// It has said something; before that the origin is not bothered.
    client_began: bool,
    client_ended: bool,
    origin: Link,
    /// The origin was told that nothing more comes.
    origin_told: bool,
    address: Arc<Origin>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Nothing more is read; what is buffered for the client goes out, then it ends, or when this
    /// is over.
    closing: Option<Pin<Box<Sleep>>>,
    /// What was read has been acted on; what came of it is written at the next poll.
    deferred: bool,
}

/// How long a client that is being let go may take to read what is left for it.
const LINGER: Duration = Duration::from_secs(5);

/// Longest output that waits until the other connections that are ready have been read.
const DEFERRED_BYTES_MAX: usize = 2 << 10;

type Connecting = Pin<Box<dyn Future<Output = io::Result<TcpStream>>>>;

/// The way to the origin.
enum Link {
    /// Not there, and nobody needs it now.
    Down,
    /// On its way.
    Connecting(Connecting),
    /// There.
    Up(TcpStream),
}

impl<F: Filter> Connection<F> {
    /// A connection of `client`; the way to its origin begins with the first thing it says.
    pub(super) fn new(
        worker: Rc<Worker>,
        client: TcpStream,
        peer: SocketAddr,
        address: Arc<Origin>,
        session: impl FnOnce(Ticket) -> Session<F>,
    ) -> Self {
        let (ticket, mailbox) = worker.shared.post.open();
        Self {
            session: session(ticket),
            ticket,
            mailbox,
            peer,
            client,
            client_began: false,
            client_ended: false,
            origin: Link::Down,
            origin_told: false,
            address,
            timer: None,
            closing: None,
            deferred: false,
            worker,
        }
    }

    /// Moves bytes until the connection is over.
    pub(super) async fn run(mut self) {
        std::future::poll_fn(|context| self.poll(context)).await;
        let now = self.worker.now();
        self.worker.with_storage(|storage| self.session.close(storage, now));
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.mailbox.register(context);
        loop {
            let moved = match self.turn(context) {
                Ok(moved) => moved,
                Err(error) => {
                    debug!(peer = %self.peer, %error, "client connection lost");
                    return Poll::Ready(());
                }
            };
            if self.is_over(context) {
                return Poll::Ready(());
            }
            if !moved {
                self.worker.take_back(&mut self.session);
                return Poll::Pending;
            }
        }
    }

    /// Does everything that can be done now, once; says whether anything was.
    fn turn(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        let mut moved = self.wait(context);
        moved |= self.read_origin(context);
        moved |= self.read_client(context)?;
        if self.defers(moved) {
            context.waker().wake_by_ref();
            return Ok(false);
        }
        moved |= self.write_origin(context);
        moved |= self.write_client(context)?;
        moved |= self.proceed();
        Ok(moved)
    }

    /// Should writing wait until the other connections that are ready have been read?
    ///
    /// Then their clients are woken one after another and find their answers together, instead of
    /// waking up for each: a tenth of what a hit costs, measured with 50 connections. A connection
    /// that is alone does not wait, as that would cost it another poll.
    /// Neither do long answers, which would leave the core's cache before they are written.
    fn defers(&mut self, moved: bool) -> bool {
        let alone = || self.worker.last_served.replace(self.ticket) == self.ticket;
        let short = self.session.output(Side::Client).len() <= DEFERRED_BYTES_MAX;
        self.deferred = moved && !self.deferred && !alone() && short;
        self.deferred
    }

    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        if let Some(linger) = &mut self.closing {
            return self.session.is_written(Side::Client)
                || linger.as_mut().poll(context).is_ready();
        }
        (self.client_ended && self.session.is_quiet())
            || (self.worker.shared.is_draining() && self.session.is_drained())
    }

    fn close(&mut self) {
        self.closing.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
    }

    /// Looks at the mailbox and the clock.
    fn wait(&mut self, context: &mut Context<'_>) -> bool {
        if self.mailbox.take_filled() {
            let (ticket, now) = (self.ticket, self.worker.now());
            self.act(|session, storage| session.complete(ticket, storage, now));
            return true;
        }
        let Some(until) = self.session.poll_timeout() else {
            self.timer = None;
            return false;
        };
        let deadline = self.worker.shared.start + until;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        if timer.as_mut().poll(context).is_pending() {
            return false;
        }
        self.timer = None;
        let now = self.worker.now().max(until);
        self.act(|session, storage| session.handle_timeout(storage, now));
        true
    }

    fn read_client(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        if self.closing.is_some() || self.client_ended || !self.session.wants(Side::Client) {
            return Ok(false);
        }
        let Poll::Ready(read) = self.receive(Side::Client, context) else { return Ok(false) };
        match read? {
            0 => self.client_ended = true,
            _ if !self.client_began => {
                self.client_began = true;
                self.origin = Link::Connecting(self.address.connect());
            }
            _ => {}
        }
        Ok(true)
    }

    /// Takes up requests that had come before there was room for them.
    fn proceed(&mut self) -> bool {
        if self.closing.is_some() || !self.session.can_proceed() {
            return false;
        }
        let now = self.worker.now();
        self.act(|session, storage| session.proceed(storage, now));
        true
    }

    fn read_origin(&mut self, context: &mut Context<'_>) -> bool {
        if self.closing.is_some() || !self.session.wants(Side::Server) {
            return false;
        }
        if let Link::Connecting(connecting) = &mut self.origin {
            let Poll::Ready(connected) = connecting.as_mut().poll(context) else { return false };
            self.connected(connected);
            return true;
        }
        if !matches!(self.origin, Link::Up(_)) {
            return false;
        }
        match self.receive(Side::Server, context) {
            Poll::Pending => false,
            Poll::Ready(Ok(0)) => self.lost("the origin closed the connection"),
            Poll::Ready(Ok(_)) => true,
            Poll::Ready(Err(error)) => self.lost(&error.to_string()),
        }
    }

    /// Reads what `side` has sent into the worker's buffer and hands it to the session.
    fn receive(&mut self, side: Side, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let worker = Rc::clone(&self.worker);
        let mut buffer = worker.buffer.borrow_mut();
        let mut read = ReadBuf::uninit(&mut buffer);
        let stream = match (side, &mut self.origin) {
            (Side::Client, _) => &mut self.client,
            (Side::Server, Link::Up(stream)) => stream,
            (Side::Server, _) => return Poll::Pending,
        };
        if let Err(error) = ready!(Pin::new(stream).poll_read(context, &mut read)) {
            return Poll::Ready(Err(error));
        }
        let bytes = read.filled();
        if !bytes.is_empty() {
            let now = worker.now();
            worker.lend(&mut self.session);
            self.act(|session, storage| session.receive(side, bytes, storage, now));
        }
        Poll::Ready(Ok(bytes.len()))
    }

    /// Lets the session act on storage; a protocol error closes this connection and no other.
    fn act(
        &mut self,
        act: impl FnOnce(&mut Session<F>, &mut super::Handle) -> Result<(), cache::Error>,
    ) {
        let session = &mut self.session;
        if let Err(error) = self.worker.with_storage(|storage| act(session, storage)) {
            warn!(peer = %self.peer, origin = %self.address, "closing: {error}");
            self.close();
        }
    }

    fn write_client(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        write(&mut self.client, &mut self.session, Side::Client, context)
    }

    fn write_origin(&mut self, context: &mut Context<'_>) -> bool {
        match &mut self.origin {
            Link::Up(stream) => {
                match write(stream, &mut self.session, Side::Server, context) {
                    Ok(moved) => moved | self.tell_origin(context),
                    // What the origin said before it hung up is still to be read.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => false,
                    Err(error) => self.lost(&error.to_string()),
                }
            }
            Link::Down if !self.session.is_written(Side::Server) && self.closing.is_none() => {
                self.origin = Link::Connecting(self.address.connect());
                true
            }
            Link::Down | Link::Connecting(_) => false,
        }
    }

    /// Passes the client's end on to an origin that would otherwise speak to nobody: to a
    /// subscriber, or to one who waits for what others do and would be given what is meant for them.
    fn tell_origin(&mut self, context: &mut Context<'_>) -> bool {
        let due = self.client_ended && !self.origin_told && self.session.is_written(Side::Server);
        if !due || !self.session.waits() {
            return false;
        }
        let Link::Up(stream) = &mut self.origin else { return false };
        self.origin_told = Pin::new(stream).poll_shutdown(context).is_ready();
        self.origin_told
    }

    fn connected(&mut self, connected: io::Result<TcpStream>) {
        match connected {
            Ok(stream) => {
                self.origin = Link::Up(stream);
                self.session.origin_connected();
            }
            Err(error) => {
                self.origin = Link::Down;
                self.address.report(&error);
                let now = self.worker.now();
                let session = &mut self.session;
                let afterlife =
                    self.worker.with_storage(|storage| session.origin_unreachable(storage, now));
                if afterlife == Afterlife::Close {
                    self.close();
                }
            }
        }
    }

    fn lost(&mut self, why: &str) -> bool {
        self.origin = Link::Down;
        let now = self.worker.now();
        let session = &mut self.session;
        let afterlife = self.worker.with_storage(|storage| session.origin_lost(storage, now));
        if afterlife == Afterlife::Close {
            info!(peer = %self.peer, origin = %self.address, why, "closing: the origin connection was lost");
            self.close();
        }
        true
    }
}

fn write<F: Filter>(
    stream: &mut TcpStream,
    session: &mut Session<F>,
    side: Side,
    context: &mut Context<'_>,
) -> io::Result<bool> {
    let output = session.output(side);
    let mut moved = false;
    while !output.is_empty() {
        match Pin::new(&mut *stream).poll_write(context, output.bytes()) {
            Poll::Pending => break,
            Poll::Ready(written) => output.advance(written?),
        }
        moved = true;
    }
    Ok(moved)
}

impl<F: Filter> Drop for Connection<F> {
    fn drop(&mut self) {
        self.worker.shared.post.close(self.ticket);
    }
}

/// Longest time between two looks at what time asks of storage.
pub(super) const TICK: Duration = Duration::from_millis(50);
