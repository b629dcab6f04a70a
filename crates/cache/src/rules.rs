//! Include and exclude rules: which keys may be stored at all.

use notation::glob;

/// Patterns of included and excluded keys; an empty `include` includes everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Only keys that match one of these are stored.
    pub include: Vec<Pattern>,
    /// Keys that match one of these are not stored, whatever `include` says.
    pub exclude: Vec<Pattern>,
}

impl Rules {
    /// Whether `subject` may be stored.
    #[must_use]
    pub fn allow(&self, subject: &[u8]) -> bool {
        let matches = |patterns: &[Pattern]| patterns.iter().any(|each| each.matches(subject));
        (self.include.is_empty() || matches(&self.include)) && !matches(&self.exclude)
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
pub struct Pattern(Vec<u8>);

impl From<&str> for Pattern {
    fn from(text: &str) -> Self {
        // Names of collections and keys contain brackets; here they are no sets.
        let mut pattern = Vec::with_capacity(text.len());
        let mut is_escaped = false;
        for byte in text.bytes() {
            if byte == b'[' && !is_escaped {
                pattern.push(b'\\');
            }
            is_escaped = byte == b'\\' && !is_escaped;
            pattern.push(byte);
        }
        Self(pattern)
    }
}

impl Pattern {
    /// Whether the whole of `subject` matches.
    #[must_use]
    pub fn matches(&self, subject: &[u8]) -> bool {
        glob::matches(&self.0, subject)
    }

    /// The prefix of everything that matches.
    fn literal_prefix(&self) -> Vec<u8> {
        let (mut prefix, mut bytes) = (Vec::new(), self.0.iter().copied());
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
            let prefixes = Rules { include, exclude: Vec::new() }.prefixes()?;
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
        assert_eq!(Rules { include, exclude: Vec::new() }.prefixes(), None);
    }

    #[test]
    fn exclude_beats_include() {
        let rules = Rules { include: vec!["a*".into()], exclude: vec!["ab*".into()] };
        assert!(rules.allow(b"ac"));
        assert!(!rules.allow(b"ab"));
        assert!(!rules.allow(b"b"));
        assert!(Rules::default().allow(b"anything"));
    }
}
