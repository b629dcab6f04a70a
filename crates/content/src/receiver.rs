//! Who an answer is for, as far as a cache must know.

use http::{HeaderMap, header};

use crate::directives::Directives;

/// The headers of a request as the origin is to see them, with its own `Cache-Control` read.
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

    /// What it sent.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Is an answer of the origin to it of no use to any other request, whatever the origin says?
    #[must_use]
    pub fn is_personal(&self) -> bool {
        self.headers.contains_key(header::AUTHORIZATION) || self.said.no_store
    }

    /// Does it want an answer from storage or none?
    #[must_use]
    pub fn only_if_cached(&self) -> bool {
        self.said.only_if_cached
    }

    /// Does it want the origin asked for it, whatever is stored?
    #[must_use]
    pub fn insists(&self) -> bool {
        self.said.no_cache || self.said.no_store
    }

    /// Does it want something fresher than the origin promised?
    #[must_use]
    pub fn demands(&self) -> bool {
        self.insists() || self.said.max_age.is_some() || self.said.min_fresh.is_some()
    }

    /// Does it ask for a part of the response?
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.headers.contains_key(header::RANGE)
    }

    pub(crate) fn has_cookie(&self) -> bool {
        self.headers.contains_key(header::COOKIE)
    }
}
