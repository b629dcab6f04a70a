//! Include and exclude rules: which keys may be stored at all.

/// One pattern list each way; an empty `include` includes everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Only what matches one of these is stored.
    pub include: Vec<Pattern>,
    /// What matches one of these is not, whatever `include` says.
    pub exclude: Vec<Pattern>,
}

impl Rules {
    /// May `subject` be stored?
    #[must_use]
    pub fn allow(&self, subject: &[u8]) -> bool {
        let matches = |patterns: &[Pattern]| patterns.iter().any(|each| each.matches(subject));
        (self.include.is_empty() || matches(&self.include)) && !matches(&self.exclude)
    }
}

/// A pattern over bytes: `*` stands for any run of bytes, `?` for one, `\\` takes the next literally.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Vec<Token>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Byte(u8),
    Any,
    Run,
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Self {
        let mut bytes = text.bytes();
        let mut tokens = Vec::new();
        while let Some(byte) = bytes.next() {
            tokens.push(match byte {
                b'*' => Token::Run,
                b'?' => Token::Any,
                b'\\' => Token::Byte(bytes.next().unwrap_or(b'\\')),
                literal => Token::Byte(literal),
            });
        }
        Self(tokens)
    }
}

impl Pattern {
    /// Does the whole of `subject` match? Linear in its length for every pattern people write: on a
    /// mismatch only the last `*` is tried again.
    #[must_use]
    pub fn matches(&self, subject: &[u8]) -> bool {
        let (mut token, mut place) = (0, 0);
        let mut retry = None;
        while let Some(&byte) = subject.get(place) {
            match self.0.get(token) {
                Some(Token::Run) => {
                    retry = Some((token, place));
                    token += 1;
                    continue;
                }
                Some(Token::Any) => {}
                Some(Token::Byte(expected)) if *expected == byte => {}
                _ => {
                    let Some((run, taken)) = retry else { return false };
                    retry = Some((run, taken + 1));
                    (token, place) = (run + 1, taken + 1);
                    continue;
                }
            }
            (token, place) = (token + 1, place + 1);
        }
        self.0.iter().skip(token).all(|token| *token == Token::Run)
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
