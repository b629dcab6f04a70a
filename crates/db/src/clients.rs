//! Connected clients, as other clients see them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst},
    },
    time::Duration,
};

use parking_lot::Mutex;
use wire::resp::Version;

use crate::{
    row::{Row, Rows},
    tracking::Notice,
};

/// Maximum number of unread messages of a client; above it the client is closed, because it can no
/// longer be notified of stale keys.
pub const MESSAGES_MAX: usize = 100_000;

/// A push message to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// The client's copies of these keys are stale; `None` means all its copies.
    Stale {
        keys: Option<Vec<Box<[u8]>>>,
        /// The prefix that was asked for: keys with it are named in one message.
        prefix: Option<Box<[u8]>>,
        /// On behalf of a client that redirected its messages here.
        redirected: bool,
    },
    /// The client its messages were redirected to has disconnected.
    RedirectBroken(u64),
}

/// Details of a client that do not change with every command.
#[derive(Debug, Clone, Default)]
pub(crate) struct Details {
    pub(crate) name: String,
    pub(crate) library: String,
    pub(crate) library_version: String,
    pub(crate) database: u8,
    pub(crate) version: Version,
    pub(crate) user: String,
    /// Commands queued by MULTI.
    pub(crate) queued: Option<usize>,
    pub(crate) subscriptions: usize,
    pub(crate) broadcasts: bool,
    pub(crate) unevictable: bool,
}

/// One client.
pub struct Client {
    /// Never used twice.
    pub id: u64,
    /// The client's address.
    pub address: String,
    /// The local address of its connection.
    pub local_address: String,
    pub(crate) created_ms: u64,
    pub(crate) active_ms: AtomicU64,
    pub(crate) details: Mutex<Details>,
    pub(crate) tracking: AtomicBool,
    /// Client that receives its invalidations; 0 for itself.
    pub(crate) redirect: AtomicU64,
    pub(crate) redirect_broken: AtomicBool,
    command: AtomicUsize,
    awaited: AtomicUsize,
    killed: AtomicBool,
    has_messages: AtomicBool,
    messages: Mutex<Vec<Message>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Client {
    /// Notes that it does `command` now.
    #[inline]
    pub(crate) fn active(&self, row: &'static Row, now_ms: u64) {
        self.active_ms.store(now_ms, Relaxed);
        self.command.store(std::ptr::from_ref(row) as usize, Relaxed);
    }

    /// When it last gave a command, since the Unix epoch.
    pub fn active_at(&self) -> Duration {
        Duration::from_millis(self.active_ms.load(Relaxed))
    }

    /// Whether it must be closed.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Relaxed)
    }

    pub(crate) fn kill(&self) {
        self.killed.store(true, SeqCst);
        (self.wake)();
    }

    pub(crate) fn post(&self, posted: impl Iterator<Item = Message>) {
        let mut messages = self.messages.lock();
        for message in posted {
            add(&mut messages, message);
        }
        let full = messages.len() > MESSAGES_MAX;
        drop(messages);
        if full {
            self.kill();
        } else if !self.has_messages.swap(true, SeqCst) {
            (self.wake)();
        }
    }

    /// Takes the messages that other threads left for the client.
    pub(crate) fn take_messages(&self) -> Vec<Message> {
        if !self.has_messages.load(SeqCst) {
            return Vec::new();
        }
        self.has_messages.store(false, SeqCst);
        std::mem::take(&mut *self.messages.lock())
    }

    /// Number of disk reads that it waits for.
    pub(crate) fn wait_for(&self, count: usize) {
        self.awaited.fetch_add(count, SeqCst);
    }

    /// Notes that one of these disk reads has completed.
    pub fn arrived(&self) {
        if self.awaited.fetch_sub(1, SeqCst) == 1 {
            (self.wake)();
        }
    }

    /// Whether all disk reads that it waited for have completed.
    pub fn is_ready(&self) -> bool {
        self.awaited.load(SeqCst) == 0
    }

    /// The line of CLIENT LIST; `rows` are all there are.
    pub(crate) fn line(&self, now_ms: u64, rows: &Rows) -> String {
        let details = self.details.lock();
        let address = self.command.load(Relaxed);
        let command = rows.all().iter().find(|row| std::ptr::from_ref(*row) as usize == address);
        let tracks = self.tracking.load(Relaxed);
        let mut flags = String::new();
        for (flag, letter) in [
            (details.subscriptions > 0, 'P'),
            (details.queued.is_some(), 'x'),
            (tracks, 't'),
            (self.redirect_broken.load(Relaxed), 'R'),
            (details.broadcasts, 'B'),
            (details.unevictable, 'e'),
        ] {
            if flag {
                flags.push(letter);
            }
        }
        if flags.is_empty() {
            flags.push('N');
        }
        let redirect = match self.redirect.load(Relaxed) {
            _ if !tracks => -1,
            target => target as i64,
        };
        format!(
            "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={flags} db={} sub={} psub=0 \
             ssub=0 multi={} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 \
             omem=0 tot-mem=0 events=r cmd={} user={} redir={redirect} resp={} lib-name={} lib-ver={}",
            self.id,
            self.address,
            self.local_address,
            details.name,
            now_ms.saturating_sub(self.created_ms) / 1_000,
            now_ms.saturating_sub(self.active_ms.load(Relaxed)) / 1_000,
            details.database,
            details.subscriptions,
            details.queued.map_or(-1, |queued| queued as i64),
            command.map_or("NULL", |command| command.name()),
            details.user,
            if details.version == Version::Resp3 { 3 } else { 2 },
            details.library,
            details.library_version,
        )
    }
}

/// All connected clients.
#[derive(Default)]
pub struct Clients {
    last: AtomicU64,
    all: Mutex<BTreeMap<u64, Arc<Client>>>,
}

impl Clients {
    /// Admits a client; `wake` wakes the thread that serves it.
    pub fn enter(
        &self,
        address: String,
        local_address: String,
        now_ms: u64,
        wake: impl FnOnce(u64) -> Box<dyn Fn() + Send + Sync>,
    ) -> Arc<Client> {
        let id = self.last.fetch_add(1, Relaxed) + 1;
        let client = Arc::new(Client {
            id,
            address,
            local_address,
            created_ms: now_ms,
            active_ms: AtomicU64::new(now_ms),
            details: Mutex::new(Details { user: "default".into(), ..Details::default() }),
            tracking: AtomicBool::default(),
            redirect: AtomicU64::default(),
            redirect_broken: AtomicBool::default(),
            command: AtomicUsize::default(),
            awaited: AtomicUsize::default(),
            killed: AtomicBool::default(),
            has_messages: AtomicBool::default(),
            messages: Mutex::default(),
            wake: wake(id),
        });
        self.all.lock().insert(id, Arc::clone(&client));
        client
    }

    /// Removes a client that has disconnected.
    pub fn leave(&self, id: u64) {
        self.all.lock().remove(&id);
    }

    /// The client of this id.
    pub fn find(&self, id: u64) -> Option<Arc<Client>> {
        self.all.lock().get(&id).cloned()
    }

    /// Returns all clients except those that are being closed, the oldest first.
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.all.lock().values().filter(|client| !client.is_killed()).cloned().collect()
    }

    /// Number of clients.
    pub fn len(&self) -> usize {
        self.all.lock().len()
    }

    /// Whether no client is connected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends an invalidation to a tracking client, or to its redirection target.
    pub(crate) fn invalidate(&self, id: u64, notices: &[Notice]) {
        let Some(client) = self.find(id) else { return };
        // Keys that it read before it requested broadcasts are no longer tracked.
        let broadcasts = client.details.lock().broadcasts;
        let wanted = notices.iter().filter(|notice| notice.prefix.is_some() == broadcasts);
        self.tell(id, wanted.map(|notice| (Some(vec![notice.key.clone()]), notice.prefix.clone())));
    }

    /// Sends all tracking clients an invalidation of everything.
    pub(crate) fn invalidate_all(&self) {
        for client in self.all() {
            self.tell(client.id, std::iter::once((None, None)));
        }
    }

    fn tell(&self, id: u64, stale: impl Iterator<Item = Stale>) {
        let Some(client) = self.find(id).filter(|client| client.tracking.load(Relaxed)) else {
            return;
        };
        let message =
            |redirected| move |(keys, prefix)| Message::Stale { keys, prefix, redirected };
        match client.redirect.load(Relaxed) {
            0 => client.post(stale.map(message(false))),
            target => match self.find(target) {
                Some(target) => target.post(stale.map(message(true))),
                None => {
                    client.redirect_broken.store(true, Relaxed);
                    client.post(std::iter::once(Message::RedirectBroken(target)));
                }
            },
        }
    }
}

/// Keys, and the prefix they were asked for by.
type Stale = (Option<Vec<Box<[u8]>>>, Option<Box<[u8]>>);

/// Adds a message; keys with a prefix are merged into a pending message with the same one.
fn add(messages: &mut Vec<Message>, message: Message) {
    if let Message::Stale { keys: Some(new), prefix: Some(prefix), redirected } = &message {
        for before in messages.iter_mut().rev().take(JOINED_LOOKED_AT) {
            if let Message::Stale { keys: Some(keys), prefix: Some(same), redirected: way } = before
                && (&*same, &*way) == (prefix, redirected)
                && keys.len() < JOINED_KEYS_MAX
            {
                keys.extend_from_slice(new);
                return;
            }
        }
    }
    messages.push(message);
}

/// Messages looked at for one with the same prefix.
const JOINED_LOOKED_AT: usize = 16;
/// Keys in one message.
const JOINED_KEYS_MAX: usize = 1_024;
