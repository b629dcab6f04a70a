//! The only function that releases a stored or shared response to a client.
//!
//! It checks for each receiver whether the request selects the response, and whether the response
//! is fresh enough for the request. This includes fetches: requests that waited for one get what
//! storage could answer at that moment (RFC 9111 §4).
//!
//! Decision: `docs/decisions/0122-stored-http-responses.md`.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use crate::{entry::Entry, receiver::Receiver, select::select};

/// The reason for which a response is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// It is stored, or was fetched for another receiver's request.
    Stored,
    /// The origin was asked and failed.
    OriginFailed,
    /// This receiver's own request fetched or revalidated it.
    OwnRequest,
}

/// An answer for one receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    /// As stored, or 206, 304, 412, 416.
    pub status: StatusCode,
    /// The stored headers, adapted.
    pub headers: HeaderMap,
    /// The part of the stored body that was asked for.
    pub body: Bytes,
    /// It is stale and must be revalidated now (`stale-while-revalidate`).
    pub refresh: bool,
}

/// Why a response is not released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Withheld {
    /// The receiver selects another variant.
    #[error("it applies to other requests (Vary)")]
    OtherVariant,
    /// It is not fresh enough for this receiver: the origin must be asked on its behalf.
    #[error("it is not fresh for this request")]
    NotFresh,
}

impl Entry {
    /// The answer for `receiver`.
    ///
    /// # Errors
    /// Why this response is withheld from it.
    pub fn release(
        &self,
        receiver: &Receiver,
        ground: Ground,
        now: Duration,
    ) -> Result<Released, Withheld> {
        if !self.selecting.matches(receiver) {
            return Err(Withheld::OtherVariant);
        }
        let fresh = self.is_fresh_for(receiver, now);
        let said = || self.said();
        let refresh = ground == Ground::Stored
            && !fresh
            && self.may_be_stale(said().stale_while_revalidate, receiver, now);
        let allowed = match ground {
            Ground::Stored => fresh || refresh,
            Ground::OriginFailed => {
                fresh || self.may_be_stale(said().stale_if_error, receiver, now)
            }
            Ground::OwnRequest => true,
        };
        if !allowed {
            return Err(Withheld::NotFresh);
        }
        let selected =
            select(&receiver.headers, self.status, self.headers_at(now), self.body.len());
        let body = self.body.slice(selected.body);
        Ok(Released { status: selected.status, headers: selected.headers, body, refresh })
    }

    /// RFC 9111 §4.2 and §5.2.1.
    fn is_fresh_for(&self, receiver: &Receiver, now: Duration) -> bool {
        let (own, wanted, age) = (self.said(), &receiver.said, self.age(now));
        let lifetime = self.lifetime(&own);
        if wanted.no_cache || wanted.max_age.is_some_and(|limit| age > limit) {
            return false;
        }
        if age < lifetime {
            return wanted.min_fresh.is_none_or(|least| lifetime - age >= least);
        }
        let insists = own.forbids_stale() || own.s_maxage.is_some();
        let accepted = wanted.max_stale.filter(|_| !insists && wanted.min_fresh.is_none());
        accepted.is_some_and(|limit| age - lifetime <= limit)
    }

    /// Returns whether origin and client both allow it to be this stale (RFC 5861). `s-maxage`
    /// forbids it as well, unless the origin allows it by a directive of RFC 5861, which is more
    /// explicit.
    fn may_be_stale(&self, limit: Option<Duration>, receiver: &Receiver, now: Duration) -> bool {
        let own = self.said();
        let staleness = self.age(now).saturating_sub(self.lifetime(&own));
        let insists = own.forbids_stale() || receiver.demands();
        !insists && limit.is_some_and(|limit| staleness < limit)
    }
}
