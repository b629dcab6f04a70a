//! Client Filter: the flow of each memcached command.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use smallvec::smallvec;
use wire::memcache::{KEY_BYTES_MAX, Request as Message, Verb, base64};

use super::{
    Memcache,
    flush::lives,
    server::pack,
    tag::{Flags, MetaGet, Parts, Tag},
};
use crate::{
    filter::{Answers, Flow, Read, ReadMany, Reply, Request, Scratch, States, Write},
    key::{Key, Scope},
    principal::{Login, Standing},
    stats::WhyNot,
};

/// Maximum number of keys of a request that is answered in parts.
const KEYS_MAX: usize = 1_024;

impl Memcache {
    /// Determines the flow of `message`, whose value may be incomplete.
    pub(super) fn name_flow<'m>(
        &mut self,
        message: &Message<'m>,
        scratch: &'m mut Scratch,
        standing: &mut Standing,
        now: Duration,
    ) -> Request<'m, Tag> {
        if std::mem::take(&mut self.logs_in) {
            standing.begin_again(Login::Unknown);
        }
        if standing.login() != Login::Accepted
            && let Some(held) = self.held(message, standing)
        {
            return held;
        }
        let fenced = message.is_quiet();
        let tag = |usual| match fenced {
            true => Tag::Fenced { silent: !message.verb().is_meta() },
            false => usual,
        };
        match message.verb() {
            Verb::Get | Verb::Gets => self.get(message),
            Verb::MetaGet => self.meta_get(message, scratch),
            Verb::MetaDebug => Request::new(Flow::Bypass(WhyNot::Command), tag(Tag::Meta)),
            Verb::Set | Verb::Store | Verb::Cas | Verb::Change => {
                Request::new(self.write_key(message, scratch, now), tag(Tag::Line))
            }
            Verb::MetaSet | Verb::MetaChange => {
                Request::new(self.meta_write(message, scratch), tag(Tag::Meta))
            }
            Verb::Gat | Verb::Gats => Request::new(self.write_keys(message), Tag::Items),
            Verb::FlushAll => {
                let delay = message.words().nth(1).and_then(|word| std::str::from_utf8(word).ok());
                // Anything else is "noreply", or refused by the origin.
                let delay_s = delay.and_then(|word| word.parse().ok()).unwrap_or_default();
                self.settings.flushes.sent(delay_s, self.settings.clock, now);
                Request::new(self.write_everything(message), tag(Tag::Line))
            }
            Verb::Line => Request::new(Flow::Coordination, Tag::Line),
            Verb::Crawler => Request::new(Flow::Coordination, Tag::Keys),
            Verb::Manage => Request::new(Flow::Coordination, Tag::Fenced { silent: fenced }),
            Verb::Watch => {
                Request { reply: Reply::Stream, ..Request::new(Flow::Coordination, Tag::Line) }
            }
            Verb::Quit => {
                Request { reply: Reply::Last, ..Request::new(Flow::Coordination, Tag::Line) }
            }
            Verb::Unknown => {
                Request::new(self.write_everything(message), Tag::Fenced { silent: false })
            }
        }
    }

    /// Holds back a request that only a logged-in connection may send. `set` logs a connection in.
    /// So is a read, unless the origin requires no login: of several requests in one packet, from a
    /// client that is not logged in, memcached answers only the last.
    #[cold]
    fn held<'m>(&mut self, message: &Message<'_>, standing: &Standing) -> Option<Request<'m, Tag>> {
        let reply = match message.verb() {
            Verb::Line | Verb::Quit => return None,
            Verb::Get | Verb::Gets | Verb::MetaGet | Verb::MetaDebug
                if self.settings.open.load(Relaxed) =>
            {
                return None;
            }
            Verb::Watch => Reply::Stream,
            _ => Reply::Plain,
        };
        let logs_in = standing.login() == Login::Refused && message.verb() == Verb::Set;
        self.logs_in |= logs_in;
        self.logged_in |= logs_in;
        let tag = if logs_in { Tag::Login } else { Tag::Fenced { silent: false } };
        Some(Request { reply, ..Request::new(Flow::NeedsLogin, tag) })
    }

    #[inline]
    fn get<'m>(&self, message: &Message<'m>) -> Request<'m, Tag> {
        let unique = message.verb() == Verb::Gets;
        let parts = if unique { Parts::GETS } else { Parts::GET };
        let mut keys = message.keys();
        let (first, more) = (keys.next().unwrap_or_default(), keys.next().is_some());
        let tag = Tag::Get { unique, many: more };
        if !more {
            return match self.why_not(first) {
                Some(reason) => Request::new(Flow::Bypass(reason), Tag::Items),
                None => self.read(first, parts, tag),
            };
        }
        let keys: Vec<_> =
            message.keys().map(|key| Key::new(self.namespace, key)).take(KEYS_MAX + 1).collect();
        if keys.len() > KEYS_MAX {
            return Request::new(Flow::Bypass(WhyNot::Option), Tag::Items);
        }
        if let Some(reason) = keys.iter().find_map(|key| self.why_not(key.bytes)) {
            return Request::new(Flow::Bypass(reason), Tag::Items);
        }
        let variant = parts.variant();
        let answers = Answers::Same { variant, restricted: variant };
        Request::new(Flow::ReadMany(ReadMany { keys, answers }), tag)
    }

    #[inline]
    fn read<'m>(&self, key: &'m [u8], parts: Parts, tag: Tag) -> Request<'m, Tag> {
        let key = Key::new(self.namespace, key);
        Request::new(Flow::Read(Read { key, variant: parts.variant(), place: ("", "") }), tag)
    }

    /// Returns why a read of this key is not answered from storage, if it is not.
    #[inline]
    fn why_not(&self, key: &[u8]) -> Option<WhyNot> {
        if !(1..=KEY_BYTES_MAX).contains(&key.len()) {
            // The origin refuses such a key.
            return Some(WhyNot::Command);
        }
        (!self.rules.allow(key)).then_some(WhyNot::Excluded)
    }

    fn meta_get<'m>(&self, message: &Message<'m>, scratch: &'m mut Scratch) -> Request<'m, Tag> {
        let passed = if message.is_quiet() { Tag::Fenced { silent: false } } else { Tag::Meta };
        let asked = match MetaGet::of(message) {
            Flags::Reads(asked) => asked,
            Flags::Changes => return Request::new(Flow::Bypass(WhyNot::Option), passed),
            Flags::Writes => return Request::new(self.meta_write(message, scratch), passed),
            Flags::Unknown => return Request::new(self.write_everything(message), passed),
        };
        let Some(key) = meta_key(message, scratch) else {
            return Request::new(Flow::Bypass(WhyNot::Command), passed);
        };
        if self.settings.wins.has(key) {
            let tag = Tag::Claims { key: key.into(), quiet: asked.quiet };
            let flow = Flow::Bypass(WhyNot::Option);
            return Request { reply: Reply::Rewritten, ..Request::new(flow, tag) };
        }
        match self.why_not(key) {
            Some(reason) => Request::new(Flow::Bypass(reason), passed),
            None => {
                let parts = asked.parts;
                self.read(key, parts, Tag::MetaGet(asked))
            }
        }
    }

    /// Returns a write to the key after the command.
    fn write_key<'m>(
        &self,
        message: &Message<'m>,
        scratch: &'m mut Scratch,
        now: Duration,
    ) -> Flow<'m> {
        // The key is used after the bytes of a long request have been passed on.
        scratch.extend_from_slice(message.key().unwrap_or_default());
        let key = Key::new(self.namespace, scratch);
        let states = (message.verb() == Verb::Set && self.settings.on_write)
            .then(|| self.stated(message, key, now))
            .flatten();
        Flow::Write(Write {
            name: message.name(),
            states: states.map(|states| Box::from([states])),
            ..Write::to(Scope::Key(key))
        })
    }

    /// Returns the item that `set` stores.
    fn stated<'m>(&self, message: &Message<'_>, key: Key<'m>, now: Duration) -> Option<States<'m>> {
        if !self.rules.allow(key.bytes) || message.is_quiet() {
            return None;
        }
        let mut words = message.words().skip(2);
        let flags: u32 = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
        let expiry: i64 = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
        let left = match expiry {
            0 => None,
            1..=MONTH_S => Some(lives(expiry.unsigned_abs())),
            // An absolute time, or an item that expires at once.
            _ => return None,
        };
        let flushed = self.settings.flushes.bound(now).map(|at| at.saturating_sub(now));
        let left = left.into_iter().chain(flushed).min();
        let mut answer = Vec::new();
        let flags = flags.to_string();
        pack(Parts::GET, [Some(flags.as_bytes()), None, None, None], message.value(), &mut answer)?;
        let variants = smallvec![Parts::GET.variant()];
        Some(States { key, place: ("", ""), variants, answer, lives: left })
    }

    /// Returns a write to the key of a meta command.
    fn meta_write<'m>(&self, message: &Message<'m>, scratch: &'m mut Scratch) -> Flow<'m> {
        const KNOWN: &[u8] = b"bcfhkloqstuvxCDEFIJMNORST";
        let known = message.flags().all(|(letter, _)| KNOWN.contains(&letter));
        match meta_key(message, scratch) {
            Some(key) if known => {
                let scope = Scope::Key(Key::new(self.namespace, key));
                Flow::Write(Write { name: message.name(), ..Write::to(scope) })
            }
            _ => self.write_everything(message),
        }
    }

    fn write_keys<'m>(&self, message: &Message<'m>) -> Flow<'m> {
        let keys = message.keys().map(|key| Scope::Key(Key::new(self.namespace, key)));
        if keys.clone().count() > KEYS_MAX {
            return self.write_everything(message);
        }
        Flow::Write(Write { name: message.name(), ..Write::to_all(keys.collect()) })
    }

    fn write_everything<'m>(&self, message: &Message<'_>) -> Flow<'m> {
        let everything = self.namespace.whole_origin();
        Flow::Write(Write { name: message.name(), ..Write::to(everything) })
    }
}

/// Larger expiries are absolute times.
const MONTH_S: i64 = 30 * 24 * 3_600;

/// Returns the key of a meta command, decoded if it is in base64; `None` if servers may decode it
/// differently.
fn meta_key<'m>(message: &Message<'m>, scratch: &'m mut Scratch) -> Option<&'m [u8]> {
    let key = message.key()?;
    if message.flags().any(|(letter, _)| letter == b'b') {
        scratch.extend_from_slice(&base64::decode(key)?);
    } else {
        scratch.extend_from_slice(key);
    }
    Some(scratch)
}
