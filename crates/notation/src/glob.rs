//! Patterns over keys and names, as in Redis: `*`, `?`, `[a-c]`, `[^a]`, `\`.

/// Returns whether `pattern` matches all of `text`. Takes time at most proportional to the product
/// of their lengths, whatever the pattern.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut position) = (0, 0);
    // Position at which to continue after the last star if what follows it does not match: only the
    // last star matters.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at + 1, position));
                at += 1;
                continue;
            }
            Some(_) if position < text.len() => {
                if let Some(taken) = one(&pattern[at..], text[position]) {
                    at += taken;
                    position += 1;
                    continue;
                }
            }
            None if position == text.len() => return true,
            _ => {}
        }
        let Some((after, from)) = retry.filter(|&(_, from)| from < text.len()) else {
            return false;
        };
        retry = Some((after, from + 1));
        (at, position) = (after, from + 1);
    }
}

/// Returns the length of the first element of `pattern`, in bytes, if it matches `byte`.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern[0] {
        b'?' => Some(1),
        b'\\' if pattern.len() > 1 => (pattern[1] == byte).then_some(2),
        b'[' => set(&pattern[1..], byte).map(|taken| taken + 1),
        literal => (literal == byte).then_some(1),
    }
}

fn set(pattern: &[u8], byte: u8) -> Option<usize> {
    let negated = pattern.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match pattern.get(at) {
            // An open set ends with the pattern.
            None => break,
            Some(b']') => {
                at += 1;
                break;
            }
            Some(b'\\') if at + 1 < pattern.len() => {
                found |= pattern[at + 1] == byte;
                at += 2;
            }
            Some(&first) if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() => {
                let last = pattern[at + 2];
                found |= (first.min(last)..=first.max(last)).contains(&byte);
                at += 3;
            }
            Some(&literal) => {
                found |= literal == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "abc", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[^a]x", "bx", true),
            ("[^a]x", "ax", false),
            (r"\*", "*", true),
            (r"\*", "a", false),
            ("a*b*c", "a1b2c", true),
            ("foo*", "foo", true),
            ("*o", "foo", true),
            ("[c-a]", "b", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let text = vec![b'a'; 10_000];
        assert!(!matches(b"a*a*a*a*a*a*a*a*a*a*a*a*b", &text));
    }
}
