//! Rules by key: which keys may be stored at all, and for how long.
//!
//! The rules of a listener can be replaced while its sessions serve ([`LiveRules`]). A key that is
//! excluded from then on is no hit with the next request; [`Rules::may_shorten`] says when entries
//! must be dropped because they were stored for longer than they may be served now.

use std::{collections::BTreeSet, fmt, time::Duration};

use notation::glob;

mod live;

pub use live::LiveRules;

/// Rules as one session has seen them last.
pub(crate) type Seen = crate::live::Seen<Rules>;

/// Patterns of included and excluded keys, and lifetimes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Only keys that match one of these are stored; if empty, every key is.
    pub include: Vec<Pattern>,
    /// Keys that match one of these are not stored, whatever `include` says.
    pub exclude: Vec<Pattern>,
    /// Longest time for which an entry is served without asking the origin again.
    pub ttl: Duration,
    /// The same for keys that match a pattern. If several match, the shortest counts.
    pub ttls: Vec<(Pattern, Duration)>,
    /// A feed reports only writes to these: other keys are not stored. [`LiveRules`] keeps it.
    pub followed: Option<Followed>,
}

/// What a feed reports writes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followed {
    /// Keys that begin with one of these.
    Beginning(Vec<Vec<u8>>),
    /// These tables.
    Tables(BTreeSet<String>),
}

impl Followed {
    fn has(&self, subject: &[u8]) -> bool {
        match self {
            Self::Beginning(prefixes) => prefixes.iter().any(|prefix| subject.starts_with(prefix)),
            Self::Tables(names) => {
                str::from_utf8(subject).is_ok_and(|subject| names.contains(subject))
            }
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        let (include, exclude) = (Vec::new(), Vec::new());
        Self { include, exclude, ttl: Duration::from_secs(300), ttls: Vec::new(), followed: None }
    }
}

impl Rules {
    /// Whether `subject` may be stored.
    #[must_use]
    pub fn allow(&self, subject: &[u8]) -> bool {
        self.include(subject) && self.followed.as_ref().is_none_or(|followed| followed.has(subject))
    }

    /// Whether `subject` may be stored if a feed reports writes to it.
    pub(crate) fn include(&self, subject: &[u8]) -> bool {
        let matches = |patterns: &[Pattern]| patterns.iter().any(|each| each.matches(subject));
        (self.include.is_empty() || matches(&self.include)) && !matches(&self.exclude)
    }

    /// The subjects that `include` names without wildcards.
    pub(crate) fn named(&self) -> impl Iterator<Item = &str> {
        let texts = self.include.iter().map(|pattern| pattern.text.as_str());
        texts.filter(|text| !text.contains(['*', '?', '\\']))
    }

    /// Whether `include` leaves out some subjects.
    pub(crate) fn selects(&self) -> bool {
        let is_all = |pattern: &Pattern| pattern.glob.iter().all(|&byte| byte == b'*');
        !self.include.is_empty() && !self.include.iter().any(is_all)
    }

    /// Whether some subject may not be stored.
    pub(crate) fn restrict(&self) -> bool {
        !self.include.is_empty() || !self.exclude.is_empty() || self.followed.is_some()
    }

    /// Longest time for which an entry of `subject` is served, and the pattern that says so, if it
    /// is none of the listener as a whole.
    #[must_use]
    pub fn ttl_of(&self, subject: &[u8]) -> (Duration, Option<&Pattern>) {
        let matching = self.ttls.iter().filter(|(pattern, _)| pattern.matches(subject));
        let shortest = matching.min_by_key(|(_, ttl)| *ttl);
        shortest.map_or((self.ttl, None), |(pattern, ttl)| (*ttl, Some(pattern)))
    }

    /// Longest time for which any entry is served.
    #[must_use]
    pub fn ttl_max(&self) -> Duration {
        self.ttls.iter().map(|(_, ttl)| *ttl).fold(self.ttl, Duration::max)
    }

    /// Whether an entry that was stored by the rules `before` may be held for longer than these
    /// allow.
    #[must_use]
    pub fn may_shorten(&self, before: &Self) -> bool {
        let patterns = |rules: &Self| -> Vec<Pattern> {
            rules.ttls.iter().map(|(pattern, _)| pattern.clone()).collect()
        };
        let ttls = |rules: &Self| -> Vec<Duration> {
            let by_pattern = rules.ttls.iter().map(|(_, ttl)| *ttl);
            [rules.ttl].into_iter().chain(by_pattern).collect()
        };
        patterns(self) != patterns(before)
            || ttls(self).iter().zip(ttls(before)).any(|(ttl, before)| *ttl < before)
    }

    /// Whether every key that may be stored begins with one of `prefixes`.
    pub(crate) fn are_within(&self, prefixes: Option<&[Vec<u8>]>) -> bool {
        let Some(prefixes) = prefixes else { return true };
        let is_within = |own: &Vec<u8>| prefixes.iter().any(|prefix| own.starts_with(prefix));
        self.prefixes().is_some_and(|own| own.iter().all(is_within))
    }

    /// Prefixes, none of which begins with another, such that every key that may be stored begins
    /// with one of them. None if there is no such list, or a longer one than [`PREFIXES_MAX`].
    #[must_use]
    pub fn prefixes(&self) -> Option<Vec<Vec<u8>>> {
        let mut all: Vec<_> = self.include.iter().map(Pattern::literal_prefix).collect();
        all.sort();
        let mut kept: Vec<Vec<u8>> = Vec::new();
        for prefix in all {
            if kept.last().is_none_or(|shorter| !prefix.starts_with(shorter)) {
                kept.push(prefix);
            }
        }
        let is_useful = kept.first().is_some_and(|first| !first.is_empty());
        (is_useful && kept.len() <= PREFIXES_MAX).then_some(kept)
    }
}

/// Longest list of prefixes: an origin compares each key that is written with all of them.
pub const PREFIXES_MAX: usize = 64;

/// A pattern over bytes: `*` matches any bytes, `?` matches one, and `\\` makes the next byte
/// literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    glob: Vec<u8>,
}

impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Self {
        // Names of collections and keys contain brackets; here they are no sets.
        let mut glob = Vec::with_capacity(text.len());
        let mut is_escaped = false;
        for byte in text.bytes() {
            if byte == b'[' && !is_escaped {
                glob.push(b'\\');
            }
            is_escaped = byte == b'\\' && !is_escaped;
            glob.push(byte);
        }
        Self { text: text.to_owned(), glob }
    }
}

impl Pattern {
    /// Whether the whole of `subject` matches.
    #[must_use]
    pub fn matches(&self, subject: &[u8]) -> bool {
        glob::matches(&self.glob, subject)
    }

    /// The prefix of everything that matches.
    fn literal_prefix(&self) -> Vec<u8> {
        let (mut prefix, mut bytes) = (Vec::new(), self.glob.iter().copied());
        while let Some(byte) = bytes.next() {
            match byte {
                b'*' | b'?' => break,
                b'\\' => prefix.push(bytes.next().unwrap_or(b'\\')),
                literal => prefix.push(literal),
            }
        }
        prefix
    }
}

#[cfg(test)]
mod tests {
    use super::{Pattern, Rules};

    #[test]
    fn patterns_match_as_a_shell_does() {
        for (pattern, subject, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("user:*", "user:1", true),
            ("user:*", "users:1", false),
            ("*:?:end", "a:b:c:end", true),
            ("*:?:end", "a:bb:end", false),
            ("a*b*c", "axxbyybzc", true),
            ("a*b*c", "axxbyybz", false),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("a[bc]", "a[bc]", true),
            ("a[bc]", "ab", false),
            ("a\\[bc]", "a[bc]", true),
            ("a\\\\[", "a\\[", true),
            ("a\\", "a\\", true),
        ] {
            assert_eq!(
                Pattern::from(pattern).matches(subject.as_bytes()),
                expected,
                "{pattern} {subject}"
            );
        }
    }

    #[test]
    fn prefixes_cover_what_is_included_and_none_begins_with_another() {
        let prefixes = |patterns: &[&str]| {
            let include = patterns.iter().map(|&pattern| pattern.into()).collect();
            let prefixes = Rules { include, ..Rules::default() }.prefixes()?;
            Some(prefixes.into_iter().map(|prefix| String::from_utf8(prefix).unwrap()).collect())
        };
        let expected = |list: &[&str]| Some(list.iter().map(|&one| one.to_owned()).collect());
        assert_eq!(prefixes(&["b:?", "a:*:z", "a:", "ab"]), expected(&["a:", "ab", "b:"]));
        assert_eq!(prefixes(&["x\\*y*", "x[1]"]), expected(&["x*y", "x[1]"]));
        for none in [&[][..], &["*"], &["a*", "?b"]] {
            assert_eq!(prefixes(none), None::<Vec<String>>, "{none:?}");
        }
        let many: Vec<String> =
            (0..=super::PREFIXES_MAX).map(|each| format!("{each:03}*")).collect();
        let include = many.iter().map(|pattern| pattern.as_str().into()).collect();
        assert_eq!(Rules { include, ..Rules::default() }.prefixes(), None);
    }

    #[test]
    fn exclude_beats_include() {
        let rules =
            Rules { include: vec!["a*".into()], exclude: vec!["ab*".into()], ..Rules::default() };
        assert!(rules.allow(b"ac"));
        assert!(!rules.allow(b"ab"));
        assert!(!rules.allow(b"b"));
        assert!(Rules::default().allow(b"anything"));
    }

    #[test]
    fn the_shortest_ttl_that_matches_counts() {
        let second = std::time::Duration::from_secs(1);
        let ttls = vec![("s*".into(), 9 * second), ("*:long".into(), 900 * second)];
        let rules = Rules { ttl: 60 * second, ttls, ..Rules::default() };
        let (ttl, by) = rules.ttl_of(b"s:long");
        assert_eq!((ttl, by.unwrap().to_string()), (9 * second, "s*".to_owned()));
        assert_eq!(rules.ttl_of(b"a:long").0, 900 * second);
        assert_eq!(rules.ttl_of(b"a"), (60 * second, None));
        assert_eq!(rules.ttl_max(), 900 * second);
    }

    #[test]
    fn rules_may_shorten_a_ttl_unless_each_is_at_least_as_long() {
        let second = std::time::Duration::from_secs(1);
        let rules = |ttl: u32, of_s: u32| {
            let ttls = vec![("s*".into(), of_s * second)];
            Rules { ttl: ttl * second, ttls, ..Rules::default() }
        };
        let before = rules(60, 9);
        assert!(!rules(60, 9).may_shorten(&before) && !rules(61, 10).may_shorten(&before));
        assert!(rules(59, 9).may_shorten(&before) && rules(60, 8).may_shorten(&before));
        assert!(Rules { ttl: 60 * second, ..Rules::default() }.may_shorten(&before));
    }
}
