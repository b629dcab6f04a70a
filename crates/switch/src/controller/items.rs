//! Items of memcached: requested as by any client, some time after a write (decision 0033).

use std::time::Duration;

use super::{Command, Controller};
use crate::{
    install::Value,
    layout::{Protocol, VALUE_BYTES_MAX},
};

/// The server's clock advances by whole seconds, whenever its timer runs: the present second may be
/// almost over, and on a busy machine the next too.
const SERVER_CLOCK_LATE_S: u64 = 2;

impl Controller {
    /// Requests the key in this place at a later time.
    pub fn postpone(&mut self, place: u32, at: Duration) {
        self.ask_later(place, at);
    }

    pub(super) fn ask_later(&mut self, place: u32, at: Duration) {
        if let Some(Some(cached)) = self.cached.get(place as usize)
            && cached.key.protocol == Protocol::Memcache
        {
            let at = at.max(cached.asked + self.config.ask_every);
            self.asks.insert((at, place), cached.version);
        }
    }

    /// Processes a server's answer, given at `asked`, for the key in a place, of that version and
    /// epoch; a value is dropped at `flushed`.
    pub(super) fn item(
        &mut self,
        place: u32,
        (version, epoch): (u64, u64),
        asked: Duration,
        item: &wire::memcache::item::Item,
        flushed: Option<Duration>,
    ) {
        let Some(Some(cached)) = self.cached.get(place as usize) else { return };
        if cached.key.protocol != Protocol::Memcache {
            return;
        }
        let bytes = if crate::name::is_meta(&cached.key.name) {
            item.meta_text()
        } else {
            item.get_text(&cached.key.bytes)
        };
        let lives = item.lives_s.map_or(self.config.item_lives_max, |seconds| {
            let seconds = seconds.saturating_sub(SERVER_CLOCK_LATE_S);
            Duration::from_secs(seconds).min(self.config.item_lives_max)
        });
        let expires = flushed.map_or(asked + lives, |flushed| flushed.min(asked + lives));
        let expires_ns = expires.as_nanos() as u64;
        if bytes.len() > VALUE_BYTES_MAX || expires <= asked {
            return;
        }
        self.stats.inserted += 1;
        let value = Value { bytes, absent: false, expires_ns, epoch };
        self.ready.push_back(Command::Fill(place, version, value));
    }

    pub(super) fn ask_what_is_due(&mut self, now: Duration) {
        while let Some(((at, place), version)) = self.asks.first_key_value().map(|(k, v)| (*k, *v))
            && at <= now
        {
            self.asks.remove(&(at, place));
            if let Some(Some(cached)) = self.cached.get_mut(place as usize)
                && cached.version == version
            {
                cached.asked = now;
                let (server, key) = (cached.key.server, cached.key.bytes.clone());
                self.ready.push_back(Command::Ask(place, server, key));
            }
        }
    }
}
