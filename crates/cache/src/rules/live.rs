//! Rules that are replaced while sessions use them.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::RwLock;

use super::Rules;

/// The rules of a listener, which can be replaced at any time.
///
/// A session keeps what it has [`Seen`] and asks with each request only whether the version is
/// still the same, which no other thread writes: a lock would pass between the processors with
/// every read.
#[derive(Debug, Default)]
pub struct LiveRules {
    /// Changes with the rules, while they are locked.
    version: AtomicU64,
    rules: RwLock<Arc<Rules>>,
}

impl From<Rules> for LiveRules {
    fn from(rules: Rules) -> Self {
        Self { version: AtomicU64::new(0), rules: RwLock::new(Arc::new(rules)) }
    }
}

impl LiveRules {
    /// The rules now in force.
    #[must_use]
    pub fn current(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read())
    }

    /// Replaces the rules: the next request of every session is judged by `rules`. Returns whether
    /// entries may be held for longer than they allow. These must then be dropped, after this call:
    /// a lifetime is determined after its lease was taken.
    pub fn replace(&self, rules: Rules) -> bool {
        self.change(|before| {
            let shortened = rules.may_shorten(before);
            *before = Rules { followed: before.followed.take(), ..rules };
            shortened
        })
    }

    /// Notes that from now on a feed reports writes to keys that begin with one of `prefixes`; all
    /// writes if there are none.
    pub(crate) fn follow(&self, prefixes: Option<Vec<Vec<u8>>>) {
        self.change(|rules| rules.followed = prefixes);
    }

    fn change<T>(&self, change: impl FnOnce(&mut Rules) -> T) -> T {
        let mut rules = self.rules.write();
        let result = change(Arc::make_mut(&mut rules));
        self.version.fetch_add(1, Ordering::Release);
        result
    }
}

/// The rules as one session has seen them last.
#[derive(Debug)]
pub(crate) struct Seen {
    version: u64,
    rules: Arc<Rules>,
}

impl Seen {
    pub(crate) fn of(live: &LiveRules) -> Self {
        let rules = live.rules.read();
        Self { version: live.version.load(Ordering::Acquire), rules: Arc::clone(&rules) }
    }

    /// Takes over the rules of `live` if they were replaced. Call it with each request.
    #[inline]
    pub(crate) fn refresh(&mut self, live: &LiveRules) {
        if self.version != live.version.load(Ordering::Acquire) {
            *self = Self::of(live);
        }
    }
}

impl Deref for Seen {
    type Target = Rules;

    fn deref(&self) -> &Rules {
        &self.rules
    }
}

#[cfg(test)]
mod tests {
    use super::{LiveRules, Rules, Seen};

    #[test]
    fn a_session_sees_new_rules_with_its_next_request() {
        let live = LiveRules::default();
        let mut seen = Seen::of(&live);
        assert!(seen.allow(b"a") && !seen.restrict());
        assert!(!live.replace(Rules { exclude: vec!["a*".into()], ..Rules::default() }));
        seen.refresh(&live);
        assert!(!seen.allow(b"a") && seen.allow(b"b"));
    }

    #[test]
    fn keys_that_a_feed_does_not_follow_are_not_stored() {
        let live = LiveRules::default();
        let only = |pattern: &str| Rules { include: vec![pattern.into()], ..Rules::default() };
        live.replace(only("a*"));
        live.follow(live.current().prefixes());
        live.replace(only("*"));
        assert!(live.current().allow(b"a1") && !live.current().allow(b"b1"));
        live.follow(live.current().prefixes());
        assert!(live.current().allow(b"b1"));
    }
}
