//! State that is kept of each request until its reply.

use smallvec::SmallVec;
use wire::memcache::{Request, reply::Shape};

/// State of a request that is kept until its reply.
#[derive(Debug, Clone)]
pub enum Tag {
    /// The reply is one line.
    Line,
    /// The reply contains items that are not stored.
    Items,
    /// The reply is one of a meta command.
    Meta,
    /// The reply lists keys; the origin discards requests that arrive before it.
    Keys,
    /// The reply may be empty, or any number of lines: a fence follows the request.
    Fenced {
        /// The client does not want errors either.
        silent: bool,
    },
    /// `get` or `gets` whose answers are stored.
    Get {
        /// With the item's unique number.
        unique: bool,
        /// Of several keys.
        many: bool,
    },
    /// `mg` whose answer is stored.
    MetaGet(MetaGet),
    /// `mg` of an item that the client may get the right to replace.
    Claims {
        /// The key.
        key: Box<[u8]>,
        /// The reply for an absent item is empty.
        quiet: bool,
    },
    /// `set` on a connection that is not logged in: the login.
    Login,
    /// The cache's own request that shows whether the connection is logged in.
    Check,
    /// The cache's own request for the remaining lifetime of an item.
    Probe,
    /// The cache's own request after a fenced one.
    Fence,
}

impl Tag {
    /// Returns how its reply ends.
    pub(super) fn shape(&self) -> Shape {
        match self {
            Self::Line | Self::Login | Self::Check | Self::Probe | Self::Fence => Shape::Line,
            Self::Items | Self::Get { .. } => Shape::Values,
            Self::Meta => Shape::Meta,
            Self::Keys => Shape::Keys,
            Self::Fenced { .. } => Shape::Fenced,
            Self::Claims { quiet: true, .. } => Shape::Fenced,
            Self::MetaGet(asked) if asked.quiet => Shape::Fenced,
            Self::MetaGet(_) | Self::Claims { .. } => Shape::Meta,
        }
    }
}

/// The parts of an item that an answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts(u8);

impl Parts {
    pub(super) const FLAGS: Self = Self(1);
    pub(super) const UNIQUE: Self = Self(2);
    pub(super) const LENGTH: Self = Self(4);
    pub(super) const VALUE: Self = Self(8);
    /// Whether the key is in base64, which depends on the write that stored the item.
    pub(super) const SPELLING: Self = Self(16);
    /// The parts that are stored as words, in their order.
    pub(super) const WORDS: [Self; 4] = [Self::FLAGS, Self::UNIQUE, Self::LENGTH, Self::SPELLING];
    /// The parts of a reply to `get`.
    pub(super) const GET: Self = Self(1 | 8);
    /// The parts of a reply to `gets`.
    pub(super) const GETS: Self = Self(1 | 2 | 8);

    #[inline]
    pub(super) fn has(self, part: Self) -> bool {
        self.0 & part.0 != 0
    }

    /// Distinguishes answers with these parts from others. That of `get` is empty, because it is
    /// stored with every key.
    #[inline]
    pub(super) fn variant(self) -> &'static [u8] {
        const VARIANTS: &[u8; 32] = &[
            0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
            24, 25, 26, 27, 28, 29, 30, 31,
        ];
        match self {
            Self::GET => b"",
            Self(parts) => {
                VARIANTS.get(usize::from(parts)..=usize::from(parts)).unwrap_or(VARIANTS)
            }
        }
    }
}

/// A `mg` that only reads, and whose answer stays the same until the item is written.
#[derive(Debug, Clone)]
pub struct MetaGet {
    pub(super) parts: Parts,
    /// Its flags as written, each after a blank.
    flags: SmallVec<[u8; 32]>,
    /// The key is in base64.
    pub(super) coded: bool,
    /// The reply for an absent item is empty.
    pub(super) quiet: bool,
}

/// Effect of the flags of a `mg`.
pub(super) enum Flags {
    /// A read whose answer can be stored.
    Reads(MetaGet),
    /// A read whose answer changes without a write.
    Changes,
    /// It may write its key.
    Writes,
    /// A flag that no version has.
    Unknown,
}

impl MetaGet {
    pub(super) fn of(request: &Request<'_>) -> Flags {
        let mut asked =
            Self { parts: Parts(0), flags: SmallVec::new(), coded: false, quiet: false };
        let (mut writes, mut changes) = (false, false);
        for (letter, token) in request.flags() {
            match letter {
                b'v' => asked.parts.0 |= Parts::VALUE.0,
                b'f' => asked.parts.0 |= Parts::FLAGS.0,
                b'c' => asked.parts.0 |= Parts::UNIQUE.0,
                b's' => asked.parts.0 |= Parts::LENGTH.0,
                b'k' => asked.parts.0 |= Parts::SPELLING.0,
                b'O' => {}
                b'b' => asked.coded = true,
                b'q' => asked.quiet = true,
                b'h' | b'l' | b't' | b'u' => changes = true,
                b'N' | b'R' | b'T' | b'E' => writes = true,
                _ => return Flags::Unknown,
            }
            // The origin refuses a flag that occurs twice or has an unexpected token.
            let again = || request.flags().filter(|(other, _)| *other == letter).count() > 1;
            changes |= (letter != b'O' && !token.is_empty()) || again();
            changes |= letter == b'O' && token.len() > OPAQUE_BYTES_MAX;
            asked.flags.push(b' ');
            asked.flags.push(letter);
            asked.flags.extend_from_slice(token);
        }
        if asked.parts.has(Parts::VALUE) {
            // The length is that of the value.
            asked.parts.0 &= !Parts::LENGTH.0;
        }
        match (writes, changes) {
            (true, _) => Flags::Writes,
            (_, true) => Flags::Changes,
            _ => Flags::Reads(asked),
        }
    }

    /// Returns the flags in their order: letter; letter and token.
    pub(super) fn flags(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let words = self.flags.split(|&byte| byte == b' ');
        words.filter_map(|word| word.first().map(|&letter| (letter, word)))
    }
}

/// The longest opaque token that memcached takes.
const OPAQUE_BYTES_MAX: usize = 31;
