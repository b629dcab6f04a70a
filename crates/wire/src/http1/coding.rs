//! Codings of bodies: which ones a client takes, and bodies without theirs (RFC 9110 §8.4 and
//! §12.5.3).

use std::{borrow::Cow, io::Read};

use flate2::bufread::{MultiGzDecoder, ZlibDecoder};

use super::{Head, Limits};

/// The content of a body: without `gzip` or `deflate`, if it has one of them. `None` if it has
/// another coding or several, is damaged, or has more content than the limit.
#[must_use]
pub fn content<'b>(head: &Head<'_>, body: &'b [u8], limits: &Limits) -> Option<Cow<'b, [u8]>> {
    if head.all("content-encoding").next().is_none() {
        return Some(Cow::Borrowed(body));
    }
    let coding = head.one("content-encoding")?;
    let is = |name: &str| coding.eq_ignore_ascii_case(name.as_bytes());
    if is("gzip") || is("x-gzip") {
        // Of any number of members.
        read(MultiGzDecoder::new(body), limits)
    } else if is("deflate") {
        let mut decoder = ZlibDecoder::new(body);
        let content = read(&mut decoder, limits)?;
        // Bytes after its end would be lost.
        (decoder.total_in() == body.len() as u64).then_some(content)
    } else {
        None
    }
}

fn read<'b>(decoder: impl Read, limits: &Limits) -> Option<Cow<'b, [u8]>> {
    let (mut content, limit) = (Vec::new(), limits.content_bytes_max);
    decoder.take(limit as u64 + 1).read_to_end(&mut content).ok()?;
    (content.len() <= limit).then_some(Cow::Owned(content))
}

impl Head<'_> {
    /// Whether the sender of this request takes a reply without a coding.
    #[must_use]
    pub fn takes_identity(&self) -> bool {
        let weight = |name| self.codings().find(|(coding, _)| coding.eq_ignore_ascii_case(name));
        let named = weight(&b"identity"[..]).or_else(|| weight(b"*"));
        named.is_none_or(|(_, weight)| !is_zero(weight))
    }

    /// Whether the sender of this request takes no codings but those of [`content`].
    #[must_use]
    pub fn takes_known_codings(&self) -> bool {
        const KNOWN: [&[u8]; 4] = [b"identity", b"gzip", b"x-gzip", b"deflate"];
        self.codings().all(|(coding, weight)| {
            is_zero(weight) || KNOWN.iter().any(|known| coding.eq_ignore_ascii_case(known))
        })
    }

    /// The codings that it lists, and the weight of each: empty if it has none.
    fn codings(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let listed = self.all("accept-encoding").flat_map(|list| list.split(|&byte| byte == b','));
        listed.map(<[u8]>::trim_ascii).filter(|one| !one.is_empty()).map(|one| {
            let end = one.iter().position(|&byte| byte == b';').unwrap_or(one.len());
            let (coding, weight) = one.split_at_checked(end).unwrap_or((one, b""));
            let weight = weight.trim_ascii_start().get(1..).unwrap_or_default().trim_ascii();
            (coding.trim_ascii_end(), weight)
        })
    }
}

/// `q=0`, `q=0.000`: such a coding is refused.
fn is_zero(weight: &[u8]) -> bool {
    let value = weight.strip_prefix(b"q=").or_else(|| weight.strip_prefix(b"Q="));
    value.is_some_and(|value| {
        value.starts_with(b"0") && value.iter().all(|&byte| matches!(byte, b'0' | b'.'))
    })
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read};

    use super::{Limits, read};

    /// Content that does not end.
    struct Endless {
        read: usize,
    }

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.read += buffer.len();
            assert!(self.read <= 101, "{} bytes were read", self.read);
            Ok(buffer.len())
        }
    }

    #[test]
    fn no_more_is_decoded_than_shows_that_there_is_too_much() {
        let limits = Limits { content_bytes_max: 100, ..Limits::default() };
        assert_eq!(read(Endless { read: 0 }, &limits), None);
    }
}
