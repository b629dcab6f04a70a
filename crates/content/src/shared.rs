//! One fetch for many requests: its result for the request that began it, and for each request that
//! waited.

use std::{sync::Arc, time::Duration};

use http::StatusCode;

use crate::{
    entry::Entry,
    receiver::Receiver,
    release::{Ground, Released},
};

/// How an answer came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The origin sent it, and it is stored.
    Fetched,
    /// The origin confirmed the stored response.
    NotModified {
        /// Whether the response is still stored.
        stored: bool,
    },
    /// The origin failed, and the stored response may be used (`stale-if-error`).
    CoversError,
}

impl How {
    /// The ground for releasing it to the request that began the fetch.
    #[must_use]
    pub fn ground(self) -> Ground {
        match self {
            Self::Fetched | Self::NotModified { .. } => Ground::OwnRequest,
            Self::CoversError => Ground::OriginFailed,
        }
    }

    /// Its parameters in `Cache-Status` (RFC 9211); `reason` is why the origin was asked.
    #[must_use]
    pub fn cache_status(self, reason: &str) -> String {
        match self {
            Self::Fetched => format!("fwd={reason}; stored"),
            Self::NotModified { stored } => {
                let stored = if stored { "; stored" } else { "" };
                format!("fwd={reason}; fwd-status=304{stored}")
            }
            Self::CoversError => "hit; detail=stale-if-error".to_owned(),
        }
    }
}

/// Result of a fetch for requests that waited for it.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// A response that was stored.
    Stored(Arc<Entry>),
    /// The origin failed; a stored response may be used instead. Without one, the request is
    /// refused with this status; it is `None` if the origin sent a response, so that the request is
    /// sent to the origin itself.
    Failed(Option<Arc<Entry>>, Option<StatusCode>),
    /// The answer is for the client that asked.
    NotShared,
}

/// Result for a request that waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waited {
    /// It gets the fetched response.
    Shared(Released),
    /// It gets the stored response, because the origin failed.
    Covered(Released),
    /// It gets an error with this status.
    Refused(StatusCode),
    /// It must be sent to the origin itself; the origin may confirm this stored response.
    Asks(Option<Arc<Entry>>),
}

impl Outcome {
    /// The result for `receiver`, which waited. The response is released as if it came from
    /// storage.
    #[must_use]
    pub fn to_waiting(self, receiver: &Receiver, now: Duration) -> Waited {
        match self {
            Self::Stored(entry) => match entry.release(receiver, Ground::Stored, now) {
                Ok(released) => Waited::Shared(released),
                Err(_) => Waited::Asks(Some(entry).filter(|entry| entry.answers(receiver))),
            },
            Self::Failed(stored, status) => {
                let covers =
                    |entry: Arc<Entry>| entry.release(receiver, Ground::OriginFailed, now).ok();
                match (stored.and_then(covers), status) {
                    (Some(released), _) => Waited::Covered(released),
                    (None, Some(status)) => Waited::Refused(status),
                    (None, None) => Waited::Asks(None),
                }
            }
            Self::NotShared => Waited::Asks(None),
        }
    }
}

/// Whether a response of the origin counts as an error, which a stored response may replace (RFC
/// 5861 §4).
#[must_use]
pub fn is_failure(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::rfc9111::headers;

    const NOW: Duration = Duration::from_secs(784_111_777);

    fn receiver(lines: &[&str]) -> Receiver {
        Receiver::new(headers(lines))
    }

    /// Fresh for a minute, and usable for an hour after a failure of the origin; varies by
    /// language.
    fn entry() -> Arc<Entry> {
        let response =
            headers(&["cache-control: max-age=60, stale-if-error=3600", "vary: accept-language"]);
        let asked = receiver(&["accept-language: de"]);
        let entry = Entry::admit(&asked, StatusCode::OK, &response, NOW, NOW).expect("stored");
        Arc::new(entry.with_body(Bytes::from_static(b"hallo")))
    }

    #[test]
    fn what_was_fetched_is_judged_for_each_that_waited() {
        let (de, en) = (receiver(&["accept-language: de"]), receiver(&["accept-language: en"]));
        let insists = receiver(&["accept-language: de", "cache-control: no-cache"]);
        let stored = || Outcome::Stored(entry());
        assert!(
            matches!(stored().to_waiting(&de, NOW), Waited::Shared(one) if one.body == "hallo")
        );
        assert_eq!(stored().to_waiting(&en, NOW), Waited::Asks(None));
        // The entry may be revalidated for this client.
        assert_eq!(stored().to_waiting(&insists, NOW), Waited::Asks(Some(entry())));
        assert_eq!(Outcome::NotShared.to_waiting(&de, NOW), Waited::Asks(None));
    }

    #[test]
    fn a_failure_of_the_origin_is_covered_only_for_those_that_may_have_what_is_stored() {
        let (de, en) = (receiver(&["accept-language: de"]), receiver(&["accept-language: en"]));
        let later = NOW + Duration::from_secs(600);
        let failed = |status| Outcome::Failed(Some(entry()), status);
        let refusal = Some(StatusCode::BAD_GATEWAY);
        assert!(matches!(failed(refusal).to_waiting(&de, later), Waited::Covered(_)));
        assert_eq!(
            failed(refusal).to_waiting(&en, later),
            Waited::Refused(StatusCode::BAD_GATEWAY)
        );
        assert_eq!(failed(None).to_waiting(&en, later), Waited::Asks(None));
        let too_late = NOW + Duration::from_secs(7_200);
        assert_eq!(failed(None).to_waiting(&de, too_late), Waited::Asks(None));
        assert_eq!(How::CoversError.ground(), Ground::OriginFailed);
        assert_eq!(
            How::NotModified { stored: true }.cache_status("stale"),
            "fwd=stale; fwd-status=304; stored"
        );
    }
}
