//! Under which key a response lies (RFC 9111 §4.1).

use http::{HeaderMap, HeaderName, Uri, header::VARY};

/// The key of a target: host, path and query. All its variants are found from here.
#[must_use]
pub fn primary_key(host: &str, uri: &Uri) -> Vec<u8> {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    [host.to_ascii_lowercase().as_bytes(), b" ", target.as_bytes()].concat()
}

/// The request headers by which an origin chose among its variants (`Vary`), with their values in
/// the request that was answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selecting(pub(crate) Vec<(HeaderName, String)>);

impl Selecting {
    /// What `response` names, as it stands in `request`; `None` for `Vary: *`, which matches nothing,
    /// or for a name that is no header's.
    pub(crate) fn of(request: &HeaderMap, response: &HeaderMap) -> Option<Self> {
        let mut names = Vec::new();
        for line in response.get_all(VARY) {
            for name in line.to_str().ok()?.split(',').map(str::trim).filter(|n| !n.is_empty()) {
                names.push(HeaderName::try_from(name).ok()?);
            }
        }
        names.sort_by(|a: &HeaderName, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        if names.iter().any(|name| name.as_str() == "*") {
            return None;
        }
        Some(Self::from_names(names, request))
    }

    /// These headers as they stand in `request`.
    #[must_use]
    pub fn from_names(names: Vec<HeaderName>, request: &HeaderMap) -> Self {
        let valued = names.into_iter().map(|name| {
            let value = value_of(request, &name);
            (name, value)
        });
        Self(valued.collect())
    }

    /// Would `request` have been given the same variant?
    #[must_use]
    pub fn matches(&self, request: &HeaderMap) -> bool {
        self.0.iter().all(|(name, value)| value_of(request, name) == *value)
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
        // Neither a target nor a header value holds a line feed, so no two requests share a key.
        key.extend([b"\n", name.as_str().as_bytes(), b":", value.as_bytes()].concat());
    }
    key
}

/// All lines of a header as one, white space around commas gone; a header that is absent is not one
/// that is empty.
fn value_of(request: &HeaderMap, name: &HeaderName) -> String {
    let lines = request.get_all(name).into_iter();
    let parts = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
    let parts: Vec<String> =
        parts.map(|part| String::from_utf8_lossy(part).trim().to_owned()).collect();
    if parts.is_empty() { "\u{0}".to_owned() } else { parts.join(",") }
}
