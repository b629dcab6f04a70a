//! Name of each command, and how its reply ends.

/// A command by its first word; case matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// `get`
    Get,
    /// `gets`
    Gets,
    /// `gat`: reads, and sets the expiry.
    Gat,
    /// `gats`
    Gats,
    /// `set`
    Set,
    /// `add`, `replace`, `append`, `prepend`
    Store,
    /// `cas`
    Cas,
    /// `incr`, `decr`, `touch`, `delete`
    Change,
    /// `flush_all`
    FlushAll,
    /// `mg`
    MetaGet,
    /// `ms`
    MetaSet,
    /// `md`, `ma`
    MetaChange,
    /// `me`
    MetaDebug,
    /// `mn`, `version`, and an empty line, which is answered by an error.
    Line,
    /// `lru_crawler`: while it lists keys, the server discards further requests.
    Crawler,
    /// Commands that show or change settings of the server: they change no item.
    Manage,
    /// `watch`: streams the server's log.
    Watch,
    /// `quit`
    Quit,
    /// Any other.
    Unknown,
}

/// Every command of memcached 1.6.
const VERBS: [(&[u8], Verb); 34] = [
    (b"get", Verb::Get),
    (b"gets", Verb::Gets),
    (b"gat", Verb::Gat),
    (b"gats", Verb::Gats),
    (b"set", Verb::Set),
    (b"add", Verb::Store),
    (b"replace", Verb::Store),
    (b"append", Verb::Store),
    (b"prepend", Verb::Store),
    (b"cas", Verb::Cas),
    (b"incr", Verb::Change),
    (b"decr", Verb::Change),
    (b"touch", Verb::Change),
    (b"delete", Verb::Change),
    (b"flush_all", Verb::FlushAll),
    (b"mg", Verb::MetaGet),
    (b"ms", Verb::MetaSet),
    (b"md", Verb::MetaChange),
    (b"ma", Verb::MetaChange),
    (b"me", Verb::MetaDebug),
    (b"mn", Verb::Line),
    (b"version", Verb::Line),
    (b"", Verb::Line),
    (b"lru_crawler", Verb::Crawler),
    (b"stats", Verb::Manage),
    (b"verbosity", Verb::Manage),
    (b"cache_memlimit", Verb::Manage),
    (b"slabs", Verb::Manage),
    (b"lru", Verb::Manage),
    (b"refresh_certs", Verb::Manage),
    (b"extstore", Verb::Manage),
    (b"reload_auth", Verb::Manage),
    (b"watch", Verb::Watch),
    (b"quit", Verb::Quit),
];

impl Verb {
    /// The command of this name.
    #[inline]
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        let found = VERBS.iter().find(|(known, _)| *known == name);
        found.map_or(Self::Unknown, |(_, verb)| *verb)
    }

    /// The name of `verb`'s first word, where it is known.
    #[must_use]
    pub fn name_of(name: &[u8]) -> &'static str {
        let found = VERBS.iter().find(|(known, _)| *known == name);
        found.and_then(|(known, _)| std::str::from_utf8(known).ok()).unwrap_or_default()
    }

    /// Whether it is a meta command, whose options are flags.
    #[must_use]
    pub fn is_meta(self) -> bool {
        matches!(self, Self::MetaGet | Self::MetaSet | Self::MetaChange | Self::MetaDebug)
    }

    /// Whether a value follows its line.
    #[must_use]
    pub fn has_value(self) -> bool {
        matches!(self, Self::Set | Self::Store | Self::Cas | Self::MetaSet)
    }
}
