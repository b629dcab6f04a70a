//! Rules that are replaced while sessions use them.

use std::sync::Arc;

use super::{Followed, Rules};
use crate::live::Live;

/// The rules of a listener, which can be replaced at any time.
pub type LiveRules = Live<Rules>;

impl LiveRules {
    /// Replaces the rules: the next request of every session is judged by `rules`. Returns whether
    /// entries may be held for longer than they allow. These must then be dropped, after this call:
    /// a lifetime is determined after its lease was taken.
    pub fn replace(&self, rules: Rules) -> bool {
        self.change(|before| {
            let before = Arc::make_mut(before);
            let shortened = rules.may_shorten(before);
            *before = Rules { followed: before.followed.take(), ..rules };
            shortened
        })
    }

    /// Notes that from now on a feed reports writes to these; all writes if there are none.
    pub(crate) fn follow(&self, followed: Option<Followed>) {
        self.change(|rules| Arc::make_mut(rules).followed = followed);
    }
}

#[cfg(test)]
mod tests {
    use super::{Followed, LiveRules, Rules};
    use crate::rules::Seen;

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
        live.follow(live.current().prefixes().map(Followed::Beginning));
        live.replace(only("*"));
        assert!(live.current().allow(b"a1") && !live.current().allow(b"b1"));
        live.follow(live.current().prefixes().map(Followed::Beginning));
        assert!(live.current().allow(b"b1"));
    }

    #[test]
    fn tables_that_a_feed_does_not_follow_are_not_stored() {
        let live = LiveRules::default();
        live.replace(Rules { exclude: vec!["b*".into()], ..Rules::default() });
        live.follow(Some(Followed::Tables(["a", "b"].map(str::to_owned).into())));
        let rules = live.current();
        assert!(rules.allow(b"a") && !rules.allow(b"a1") && !rules.allow(b"b"));
        assert!(rules.include(b"a1") && !rules.include(b"b"));
    }
}
