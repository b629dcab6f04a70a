//! The target of a request: exactly one host, normalized, and a path.

use http::{HeaderMap, Method, Uri, header};

/// The target of a request (RFC 9110 §7.1), checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The host: lower case, without port and trailing dot.
    pub host: String,
    /// The port, if it is not that of `https`.
    pub port: Option<u16>,
    /// Path and query, unchanged.
    pub uri: Uri,
}

/// Why a request has no target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadTarget {
    /// RFC 9112 §3.2.
    #[error("expected one Host header, found {0}")]
    Hosts(usize),
    /// RFC 3986 §3.2.2, without user information.
    #[error("Host: expected a name with an optional port")]
    Host,
    /// `:authority` or an absolute target, and `Host`.
    #[error("expected the same host in the request target and in Host, found different ones")]
    Disagree,
    /// An absolute target of another scheme.
    #[error("expected an https target, found another scheme")]
    Scheme,
    /// Neither a path nor `OPTIONS *`.
    #[error("expected a path as the request target")]
    Path,
}

/// Limit of DNS (RFC 1035 §2.3.4).
const HOST_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;
const HTTPS: u16 = 443;
const HTTPS_SCHEME: &str = "https:";

impl Target {
    /// The target of a request with this request line and these headers.
    ///
    /// # Errors
    /// The missing, duplicate or invalid part.
    pub fn of(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<Self, BadTarget> {
        if uri.scheme_str().is_some_and(|scheme| scheme != "https") {
            return Err(BadTarget::Scheme);
        }
        let mut lines = headers.get_all(header::HOST).into_iter();
        let (line, more) = (lines.next(), lines.count());
        if more > 0 {
            return Err(BadTarget::Hosts(more + 1));
        }
        let line = line.map(|host| authority(host.as_bytes())).transpose()?;
        let named =
            uri.authority().map(|named| authority(named.as_str().as_bytes())).transpose()?;
        if let (Some(line), Some(named)) = (&line, &named)
            && line != named
        {
            return Err(BadTarget::Disagree);
        }
        let (host, port) = named.or(line).ok_or(BadTarget::Hosts(0))?;
        // There is no path in `host:443`, the form of CONNECT.
        let path = uri.path_and_query().ok_or(BadTarget::Path)?.as_str();
        if !path.starts_with('/') && (path != "*" || method != Method::OPTIONS) {
            return Err(BadTarget::Path);
        }
        let uri = path.parse().map_err(|_| BadTarget::Path)?;
        Ok(Self { host, port, uri })
    }

    /// The targets of the same origin that the response to an accepted change of this one names in
    /// `Location` and `Content-Location` (RFC 9111 §4.4). Those of another origin must stay.
    pub fn also_changed(&self, response: &HeaderMap) -> impl Iterator<Item = Uri> {
        let names = [header::LOCATION, header::CONTENT_LOCATION].into_iter();
        names.filter_map(|name| self.resolve(response.get(name)?.to_str().ok()?))
    }

    /// The target of this origin that `reference` names (RFC 3986 §5.2).
    fn resolve(&self, reference: &str) -> Option<Uri> {
        let reference = reference.trim().split('#').next()?;
        let scheme = reference.get(..HTTPS_SCHEME.len());
        let scheme = scheme.filter(|scheme| scheme.eq_ignore_ascii_case(HTTPS_SCHEME));
        let rest = &reference[scheme.map_or(0, str::len)..];
        if let Some(rest) = rest.strip_prefix("//") {
            let (named, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            let (host, port) = authority(named.as_bytes()).ok()?;
            // An origin is told the host without its port.
            let is_here = host == self.host && (port.is_none() || port == self.port);
            let slash = if rest.starts_with('/') { "" } else { "/" };
            return without_dots(&[slash, rest].concat()).parse().ok().filter(|_| is_here);
        }
        let names_scheme = reference.split(['/', '?']).next()?.contains(':');
        let own = self.uri.path();
        let path = match reference.bytes().next().filter(|_| !names_scheme)? {
            b'/' => reference.to_owned(),
            b'?' => [own, reference].concat(),
            _ => [&own[..=own.rfind('/')?], reference].concat(),
        };
        without_dots(&path).parse().ok()
    }
}

/// A path with its query, without the segments `.` and `..` (RFC 3986 §5.2.4).
fn without_dots(path: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let mut kept = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        if !matches!(segment, "." | "..") {
            kept.push(segment);
            continue;
        }
        if segment == ".." {
            kept.pop();
        }
        if segments.peek().is_none() {
            kept.push("");
        }
    }
    format!("/{}{query}", kept.join("/"))
}

/// Host and port: a name of letters, digits, hyphens and underscores, or an address in brackets.
fn authority(text: &[u8]) -> Result<(String, Option<u16>), BadTarget> {
    let text = std::str::from_utf8(text).map_err(|_| BadTarget::Host)?.to_ascii_lowercase();
    let (host, port) = match text.rfind(':').filter(|_| !text.ends_with(']')) {
        Some(colon) => (&text[..colon], &text[colon + 1..]),
        None => (&*text, ""),
    };
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = Some(port).filter(|port| !port.is_empty());
    let port = port.map(str::parse).transpose().ok().filter(|_| digits);
    let port: Option<u16> = port.ok_or(BadTarget::Host)?;
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_address =
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).is_some_and(|address| {
            address.bytes().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte))
        });
    let is_name = host.len() <= HOST_BYTES_MAX && host.split('.').all(is_label);
    if !is_address && !is_name {
        return Err(BadTarget::Host);
    }
    Ok((host.to_owned(), port.filter(|&port| port != HTTPS)))
}

fn is_label(label: &str) -> bool {
    let of_label = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=LABEL_BYTES_MAX).contains(&label.len())
        && label.bytes().all(of_label)
        && !label.starts_with('-')
        && !label.ends_with('-')
}
