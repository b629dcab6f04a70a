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
}

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
    fn exclude_beats_include() {
        let rules = Rules { include: vec!["a*".into()], exclude: vec!["ab*".into()] };
        assert!(rules.allow(b"ac"));
        assert!(!rules.allow(b"ab"));
        assert!(!rules.allow(b"b"));
        assert!(Rules::default().allow(b"anything"));
    }
}
