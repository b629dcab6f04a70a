//! The client that receives a response: the parts of its request that a cache uses.

use http::{HeaderMap, header};

use crate::directives::Directives;

/// The headers of a request as forwarded to the origin, with its `Cache-Control` parsed.
#[derive(Debug, Clone)]
pub struct Receiver {
    pub(crate) headers: HeaderMap,
    pub(crate) said: Directives,
}

impl Receiver {
    /// The receiver that sent these headers.
    #[must_use]
    pub fn new(headers: HeaderMap) -> Self {
        Self { said: Directives::of(&headers), headers }
    }

    /// The headers it sent.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Whether a response of the origin to it can never be shared, whatever its headers.
    #[must_use]
    pub fn is_personal(&self) -> bool {
        self.headers.contains_key(header::AUTHORIZATION) || self.said.no_store
    }

    /// Whether it accepts only a stored response (`only-if-cached`).
    #[must_use]
    pub fn only_if_cached(&self) -> bool {
        self.said.only_if_cached
    }

    /// Whether it requires the origin to be asked.
    #[must_use]
    pub fn insists(&self) -> bool {
        self.said.no_cache
    }

    /// Whether it requires more freshness than the origin stated.
    #[must_use]
    pub fn demands(&self) -> bool {
        self.insists() || self.said.max_age.is_some() || self.said.min_fresh.is_some()
    }

    /// Returns whether it asks for a part of the response.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.headers.contains_key(header::RANGE)
    }

    pub(crate) fn has_cookie(&self) -> bool {
        self.headers.contains_key(header::COOKIE)
    }
}
