//! Keys of stored responses (RFC 9111 §4.1).

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};

use crate::receiver::Receiver;

/// The key of a target of a site: the site, host, path and query, byte for byte. All variants of
/// the target are found through it. The scheme is always `https`.
#[must_use]
pub fn primary_key(site: &str, host: &str, uri: &Uri) -> Vec<u8> {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    // Neither a site nor a host contains a space.
    [site, " ", host, " ", target].concat().into_bytes()
}

/// The request headers by which an origin chose among its variants (`Vary`), with their values in
/// the request that was answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selecting(pub(crate) Vec<(HeaderName, Vec<u8>)>);

impl Selecting {
    /// Returns the values in `request` of the headers that `response` names in `Vary`; `None` for
    /// `Vary: *`, which matches nothing, for an invalid header name, and for more than
    /// [`VARY_NAMES_MAX`].
    pub(crate) fn of(request: &Receiver, response: &HeaderMap) -> Option<Self> {
        let mut names = Vec::new();
        for line in response.get_all(header::VARY) {
            for name in line.to_str().ok()?.split(',').map(str::trim).filter(|n| !n.is_empty()) {
                names.push(HeaderName::try_from(name).ok()?);
            }
        }
        names.sort_by(|a: &HeaderName, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        if names.len() > VARY_NAMES_MAX || names.iter().any(|name| name.as_str() == "*") {
            return None;
        }
        Some(Self::from_names(names, request))
    }

    /// The values of these headers in `request`.
    #[must_use]
    pub fn from_names(names: Vec<HeaderName>, request: &Receiver) -> Self {
        let valued = names.into_iter().map(|name| {
            let value = value_of(&request.headers, &name);
            (name, value)
        });
        Self(valued.collect())
    }

    /// Whether `request` selects the same variant.
    pub(crate) fn matches(&self, request: &Receiver) -> bool {
        self.0.iter().all(|(name, value)| value_of(&request.headers, name) == *value)
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &HeaderName> {
        self.0.iter().map(|(name, _)| name)
    }
}

/// The key of the variant that answers a request whose origin varies by `selecting`, in this
/// `generation` of the target's variants.
#[must_use]
pub fn secondary_key(primary: &[u8], generation: u64, selecting: &Selecting) -> Vec<u8> {
    let mut key = [primary, format!("\n{generation}").as_bytes()].concat();
    for (name, value) in &selecting.0 {
        // Neither a target nor a header value contains a line feed, so no two requests share a key.
        key.extend([b"\n", name.as_str().as_bytes(), b":", value.as_slice()].concat());
    }
    key
}

/// Names in `Vary`; a response that varies by more is not stored.
const VARY_NAMES_MAX: usize = 64;

/// Headers that are lists, in which white space around commas has no meaning.
const LISTS: [HeaderName; 4] =
    [header::ACCEPT, header::ACCEPT_CHARSET, header::ACCEPT_ENCODING, header::ACCEPT_LANGUAGE];

/// Value of an absent header, to distinguish it from an empty one; no header value contains this
/// byte.
const ABSENT: &[u8] = b"\0";

/// A header as the origin received it, byte for byte; the lines of one of [`LISTS`] are joined. For
/// other headers no two spellings are known to mean the same.
fn value_of(request: &HeaderMap, name: &HeaderName) -> Vec<u8> {
    let lines = request.get_all(name).into_iter().map(HeaderValue::as_bytes);
    let parts: Vec<&[u8]> = if LISTS.contains(name) {
        lines.flat_map(|line| line.split(|&byte| byte == b',')).map(<[u8]>::trim_ascii).collect()
    } else {
        lines.collect()
    };
    // No value contains a carriage return, so lines stay separate.
    let between: &[u8] = if LISTS.contains(name) { b"," } else { b"\r" };
    if parts.is_empty() { ABSENT.to_vec() } else { parts.join(between) }
}
