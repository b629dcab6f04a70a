//! An agent's connections to the nodes.

use std::{
    collections::HashSet,
    io,
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use reactor::{Possible, Reactor, Socket};
use socket2::{Domain, Protocol, TcpKeepalive, Type};
use state::agent::{Agent, Output};
use tracing::{debug, warn};

/// Timeout of connecting.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// Time without acknowledgement of sent data, or without a reply, after which a node is considered
/// down: a hung process acknowledges but does not reply. Longer than the 10 s for which a Valkey
/// node pauses writes if the target of its slot dies during the handover: the node then replies.
const SILENCE_LIMIT: Duration = Duration::from_secs(12);
/// Idle time before, and between, probes of a connection on which the client is blocked or waits
/// for messages, and their number before the host of the node is considered gone.
const PROBE_PERIOD: Duration = Duration::from_secs(4);
const PROBES_MAX: u32 = 3;
/// Interval of checks for silent nodes.
const SILENCE_PERIOD: Duration = Duration::from_secs(1);
/// Number of reads of one connection before the others are served.
const READS_MAX: usize = 4;

struct Link {
    socket: Socket,
    address: SocketAddr,
    connected: bool,
    /// Start time of connecting; once connected, the time at which the node last answered.
    since: Duration,
}

/// Connections to nodes, by their index in [`Agent`].
#[derive(Default)]
pub(super) struct Links {
    links: Vec<Option<Link>>,
    /// Links being made.
    young: Vec<usize>,
    spoken: Vec<usize>,
    /// Nodes known to be unreachable; connecting is retried.
    gone: HashSet<SocketAddr>,
    /// Time of the next check for silent nodes.
    silence_due: Duration,
}

impl Links {
    /// Closes the connections that the agent does not need any more, and starts those that it
    /// requests.
    pub(super) fn connect(&mut self, agent: &mut Agent, reactor: &Reactor, now: Duration) {
        for closed in agent.take_closed() {
            if let Some(link) = self.links.get_mut(closed) {
                *link = None;
            }
        }
        for (link, address) in agent.wishes() {
            let socket =
                begin(address).and_then(|stream| Socket::new(stream, reactor, link as u64 * 2 + 1));
            match socket {
                Ok(socket) => {
                    if self.links.len() <= link {
                        self.links.resize_with(link + 1, || None);
                    }
                    self.links[link] = Some(Link { socket, address, connected: false, since: now });
                    self.young.push(link);
                }
                Err(error) => agent.lost(link, &error.to_string(), now),
            }
        }
    }

    /// Takes an event; whether there may be something to read.
    pub(super) fn notice(
        &mut self,
        at: usize,
        possible: Possible,
        agent: &mut Agent,
        now: Duration,
    ) -> bool {
        let Some(Some(link)) = self.links.get_mut(at) else { return false };
        link.socket.notice(possible);
        if !link.connected && possible.is_write() {
            match link.socket.take_error() {
                Ok(None) => {
                    (link.connected, link.since) = (true, now);
                    debug!(node = %link.address, "connected");
                    self.gone.remove(&link.address);
                    agent.connected(at);
                }
                Ok(Some(error)) | Err(error) => {
                    self.lose(at, &error.to_string(), agent, now);
                    return false;
                }
            }
        } else if possible.is_write() {
            self.spoken.push(at);
        }
        true
    }

    /// Reads from a node; returns whether there may be more.
    pub(super) fn read(
        &mut self,
        at: usize,
        buffer: &mut [u8],
        agent: &mut Agent,
        now: Duration,
    ) -> bool {
        for _ in 0..READS_MAX {
            let Some(Some(link)) = self.links.get_mut(at) else { return false };
            let why = match link.socket.read(buffer) {
                Ok(None) => return false,
                Ok(Some(0)) => "the node closed the connection".to_owned(),
                Ok(Some(count)) => {
                    link.since = now;
                    match agent.node_receive(at, buffer.get(..count).unwrap_or_default(), now) {
                        Ok(()) => continue,
                        Err(error) => error.to_string(),
                    }
                }
                Err(error) => error.to_string(),
            };
            self.lose(at, &why, agent, now);
            return false;
        }
        true
    }

    /// Writes pending requests to nodes; returns whether there were any.
    pub(super) fn write(&mut self, agent: &mut Agent, now: Duration) -> bool {
        let mut spoken = std::mem::take(&mut self.spoken);
        agent.links_spoken(&mut spoken);
        let mut wrote = false;
        for at in spoken.drain(..) {
            let Some(Some(link)) = self.links.get_mut(at) else { continue };
            let Some(output) = agent.link_output(at) else { continue };
            wrote |= !output.is_empty();
            if let Err(error) = write(output, |bytes| link.socket.write(bytes)) {
                // Unread replies are not awaited: the outcome of its requests is unknown.
                self.lose(at, &error.to_string(), agent, now);
            }
        }
        self.spoken = spoken;
        wrote
    }

    /// Whether something can be written at once.
    pub(super) fn is_called(&self) -> bool {
        !self.spoken.is_empty()
    }

    /// Closes connections that time out, and those to nodes that do not answer.
    pub(super) fn give_up_late(&mut self, agent: &mut Agent, now: Duration) {
        let mut late = Vec::new();
        self.young.retain(|&at| match self.links.get(at) {
            Some(Some(link)) if !link.connected => {
                let over = now > link.since + CONNECT_LIMIT;
                late.extend(over.then_some(at));
                !over
            }
            _ => false,
        });
        for at in late {
            self.lose(at, "no reply to the login", agent, now);
        }
        if now >= self.silence_due {
            self.silence_due = now + SILENCE_PERIOD;
            self.give_up_silent(agent, now);
        }
    }

    fn give_up_silent(&mut self, agent: &mut Agent, now: Duration) {
        let mut silent = HashSet::new();
        for at in 0..self.links.len() {
            let Some(Some(link)) = self.links.get_mut(at) else { continue };
            if !agent.is_waiting(at) {
                link.since = now;
            } else if link.connected && now > link.since + SILENCE_LIMIT {
                silent.insert(link.address);
            }
        }
        // Connections on which clients are blocked, or wait for messages, are silent anyway.
        for at in 0..self.links.len() {
            let link = self.links.get(at).and_then(Option::as_ref);
            if link.is_some_and(|link| silent.contains(&link.address)) {
                self.lose(at, &format!("no answer for {SILENCE_LIMIT:?}"), agent, now);
            }
        }
    }

    fn lose(&mut self, at: usize, why: &str, agent: &mut Agent, now: Duration) {
        if let Some(link) = self.links.get_mut(at).and_then(Option::take) {
            if link.connected {
                warn!(node = %link.address, "connection to the node lost: {why}");
            } else if self.gone.insert(link.address) {
                warn!(node = %link.address, "cannot connect to the node, retrying: {why}");
            }
            agent.lost(at, why, now);
        }
    }
}

/// Writes as much as is accepted.
pub(super) fn write(
    output: &mut Output,
    mut write: impl FnMut(&[u8]) -> io::Result<usize>,
) -> io::Result<()> {
    while !output.is_empty() {
        match write(output.bytes())? {
            0 => break,
            count => output.advance(count),
        }
    }
    Ok(())
}

fn begin(address: SocketAddr) -> io::Result<TcpStream> {
    let socket =
        socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_user_timeout(Some(SILENCE_LIMIT))?;
    let probes = TcpKeepalive::new().with_time(PROBE_PERIOD).with_interval(PROBE_PERIOD);
    socket.set_tcp_keepalive(&probes.with_retries(PROBES_MAX))?;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}
