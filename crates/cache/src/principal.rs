//! The principal of a connection, as the origin has reported it on that connection.
//!
//! A [`Principal`] is created in one place, from the origin's answer to a *check* on the client's
//! own origin connection, and nothing leaves or enters storage without one. A check is valid for
//! [`Standing::lease`]; after that the connection's next read passes to the origin, preceded by a
//! new check. So a right that was revoked at the origin gives no hits after the lease, even if
//! other users still have it.
//!
//! Writes are held back until a connection is known to be logged in (see [`crate::session`]); if it
//! is not, the request passes and touches no shared state.
//!
//! DynamoDB has no such check: each request proves its access key by a signature, which its filter
//! verifies, and which makes the principal until the next request.
//!
//! Decision: `docs/decisions/0116-authorization.md`.

use std::{fmt, time::Duration};

use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Identity of a connection as reported by the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof<'a> {
    /// The connection may run every command on every key.
    Unrestricted,
    /// No user is logged in, and the origin serves the connection.
    Unauthenticated,
    /// The connection has exactly the rights with this digest.
    Rights {
        /// Digest of all rights of the user as reported by the origin.
        digest: u128,
        /// Whether answers to several reads may be combined in one reply. They may not where a
        /// right depends on which other keys the same command reads.
        combines: bool,
    },
    /// The connection is logged in under this name, or the request signed with this access key, and
    /// the origin does not report the rights.
    Name(&'a [u8]),
}

/// The rights for which stored answers are kept apart. Two principals with the same mark have the
/// same rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Prefix of the variant of every stored answer.
    mark: SmallVec<[u8; 24]>,
    /// An answer to this principal proves its right to it, for this long.
    lives: Option<Duration>,
    combines: bool,
}

/// First bytes of marks. No variant of a filter begins with one of these.
const UNAUTHENTICATED: u8 = 0xF0;
const RIGHTS: u8 = 0xF1;
const NAME: u8 = 0xF2;

impl Principal {
    fn new(proof: Proof<'_>, lease: Duration) -> Self {
        let mut mark = SmallVec::new();
        let (mut lives, mut combines) = (None, true);
        match proof {
            // The mark of nearly all stored answers takes no space.
            Proof::Unrestricted => {}
            Proof::Unauthenticated => mark.push(UNAUTHENTICATED),
            Proof::Rights { digest, combines: may } => {
                mark.push(RIGHTS);
                mark.extend_from_slice(&digest.to_le_bytes());
                combines = may;
            }
            Proof::Name(name) => {
                mark.push(NAME);
                // A name may hold any byte; its length before it keeps two of them apart.
                mark.extend_from_slice(&(name.len() as u32).to_le_bytes());
                mark.extend_from_slice(name);
                (lives, combines) = (Some(lease), false);
            }
        }
        Self { mark, lives, combines }
    }

    /// Prefix of the variants of answers stored for this principal.
    #[inline]
    pub(crate) fn mark(&self) -> &[u8] {
        &self.mark
    }

    /// Whether it has all rights.
    #[inline]
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.mark.is_empty()
    }

    /// Whether it may read everything: it has all rights, or the origin has no logins. A right to
    /// write a record does not include the right to read it.
    pub(crate) fn reads_everything(&self) -> bool {
        self.is_unrestricted() || self.mark.as_slice() == [UNAUTHENTICATED]
    }

    /// For how long an answer to it proves its right to that answer; none if the mark proves it.
    #[inline]
    pub(crate) fn lives(&self) -> Option<Duration> {
        self.lives
    }

    /// Whether answers to several reads may be combined in one reply.
    #[inline]
    pub(crate) fn combines(&self) -> bool {
        self.combines
    }
}

/// Whether the origin considers the connection logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Login {
    /// Not checked since the login may have changed.
    #[default]
    Unknown,
    /// Yes.
    Accepted,
    /// No.
    Refused,
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding<'a> {
    /// The identity.
    Proven(Proof<'a>),
    /// The connection is logged in; its rights are unknown.
    LoggedIn,
    /// The connection is not logged in.
    Refused,
    /// Another question has to be asked.
    AskAgain,
}

/// The principals for which an answer is stored, in a form for display: names and digests of rights
/// are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// All with every right.
    Unrestricted,
    /// Connections without a login.
    Unauthenticated,
    /// All with the rights of this hash.
    Rights(u32),
    /// The user with the name of this hash.
    Name(u32),
}

impl Identity {
    /// Splits the variant of a stored answer into the identity of its mark and the question. `seed`
    /// is mixed into the hashes.
    pub(crate) fn of(variant: &[u8], seed: u64) -> (Self, &[u8]) {
        let hash = |mark: &[u8]| (xxh3_64_with_seed(mark, seed) >> 32) as u32;
        let split = |bytes: usize| variant.split_at_checked(bytes).unwrap_or((variant, &[]));
        match variant.first() {
            Some(&UNAUTHENTICATED) => (Self::Unauthenticated, split(1).1),
            Some(&RIGHTS) => {
                let (mark, question) = split(1 + size_of::<u128>());
                (Self::Rights(hash(mark)), question)
            }
            Some(&NAME) => {
                let length = variant.get(1..).and_then(|rest| rest.first_chunk());
                let length = length.map_or(0, |length| u32::from_le_bytes(*length) as usize);
                let (mark, question) = split(5 + length);
                (Self::Name(hash(mark)), question)
            }
            _ => (Self::Unrestricted, variant),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unrestricted => out.write_str("connections with all rights"),
            Self::Unauthenticated => out.write_str("connections without a login"),
            Self::Rights(hash) => write!(out, "users with the rights {hash:08x}"),
            Self::Name(hash) => write!(out, "the user {hash:08x}"),
        }
    }
}

/// Login and rights that one connection has proven.
#[derive(Debug)]
pub struct Standing {
    lease: Duration,
    login: Login,
    principal: Option<Principal>,
    /// No check is due before this.
    until: Duration,
    /// A check is under way.
    asked: bool,
    /// Its answer concerns the earlier identity of the connection.
    outdated: bool,
    /// The proof was given on an origin connection that is lost.
    detached: bool,
    /// Assumed to be logged in, because no check can be sent.
    presumed: bool,
}

impl Standing {
    /// Creates the state of a new connection, whose proofs are valid for `lease`.
    #[must_use]
    pub fn new(lease: Duration) -> Self {
        Self {
            lease,
            login: Login::Unknown,
            principal: None,
            until: Duration::ZERO,
            asked: false,
            outdated: false,
            detached: false,
            presumed: false,
        }
    }

    /// Validity period of a proof.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// The principal whose stored answers the connection may be given now.
    #[inline]
    #[must_use]
    pub fn principal(&self, now: Duration) -> Option<&Principal> {
        if now < self.until { self.principal.as_ref() } else { None }
    }

    /// The principal of the reply that was just received: every reply follows that of the last
    /// check before its request.
    pub(crate) fn receiver(&self) -> Option<&Principal> {
        self.principal.as_ref().filter(|_| !self.detached)
    }

    /// Whether the origin has reported that the connection has all rights.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.receiver().is_some_and(Principal::is_unrestricted)
    }

    /// Whether the connection is logged in.
    #[inline]
    pub(crate) fn login(&self) -> Login {
        if self.presumed { Login::Accepted } else { self.login }
    }

    /// Sets whether the connection counts as logged in although no check can be sent.
    pub(crate) fn presume(&mut self, presumed: bool) {
        self.presumed = presumed;
    }

    /// Whether a check is to be sent before the next request.
    #[inline]
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        now >= self.until && !self.asked
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked
    }

    /// Whether the proof is older than the origin connection.
    pub(crate) fn is_detached(&self) -> bool {
        self.detached
    }

    /// A check was sent.
    pub(crate) fn ask(&mut self) {
        self.asked = true;
    }

    /// The check sent at `asked_at` was answered.
    pub(crate) fn settle(&mut self, finding: Finding<'_>, asked_at: Duration) {
        self.asked = false;
        if std::mem::take(&mut self.outdated) {
            return;
        }
        self.detached = false;
        self.until = asked_at.saturating_add(self.lease);
        (self.login, self.principal) = match finding {
            Finding::Proven(proof) => (Login::Accepted, Some(Principal::new(proof, self.lease))),
            Finding::LoggedIn => (Login::Accepted, None),
            Finding::Refused => (Login::Refused, None),
            Finding::AskAgain => {
                self.until = Duration::ZERO;
                (self.login, None)
            }
        };
    }

    /// The check will never be answered.
    pub(crate) fn give_up(&mut self) {
        (self.asked, self.outdated) = (false, false);
    }

    /// A login or logout: earlier proofs are invalid.
    pub(crate) fn begin_again(&mut self, login: Login) {
        (self.login, self.principal, self.until) = (login, None, Duration::ZERO);
        self.outdated = self.asked;
    }

    /// A refusal is good for one request.
    pub(crate) fn take_refusal(&mut self) -> bool {
        let refused = self.login == Login::Refused;
        if refused {
            self.login = Login::Unknown;
        }
        refused
    }

    /// Notes that the origin connection is lost: the proof is valid for hits until its lease
    /// elapses, and for nothing else.
    pub(crate) fn detach(&mut self) {
        (self.asked, self.outdated, self.detached) = (false, false, true);
    }

    /// A new origin connection takes over; `asked`: whether a check is among its set-up commands.
    pub(crate) fn attach(&mut self, asked: bool) {
        (self.principal, self.until) = (None, Duration::ZERO);
        (self.asked, self.detached) = (asked, false);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Finding, Identity, Login, Principal, Proof, Standing};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_proof_lasts_for_the_lease_from_when_it_was_asked_for() {
        let mut standing = Standing::new(10 * SECOND);
        assert!(standing.is_due(Duration::ZERO));
        standing.ask();
        assert!(!standing.is_due(Duration::ZERO) && standing.principal(SECOND).is_none());
        standing.settle(Finding::Proven(Proof::Unrestricted), SECOND);
        assert!(standing.principal(11 * SECOND - Duration::from_nanos(1)).is_some());
        assert!(standing.principal(11 * SECOND).is_none() && standing.is_due(11 * SECOND));
        standing.begin_again(Login::Accepted);
        assert!(standing.principal(2 * SECOND).is_none() && standing.is_due(2 * SECOND));
    }

    #[test]
    fn a_refusal_is_good_for_one_request() {
        let mut standing = Standing::new(SECOND);
        standing.settle(Finding::Refused, SECOND);
        assert!(standing.take_refusal() && !standing.take_refusal());
        assert!(!standing.is_due(SECOND) && standing.login() == Login::Unknown);
    }

    #[test]
    fn no_two_proofs_have_the_same_mark() {
        let digest = |digest| Proof::Rights { digest, combines: true };
        let proofs = [
            Proof::Unrestricted,
            Proof::Unauthenticated,
            digest(0),
            digest(1),
            Proof::Name(b""),
            Proof::Name(b"\0"),
            Proof::Name(b"default"),
        ];
        for (place, proof) in proofs.into_iter().enumerate() {
            for other in proofs.iter().skip(place + 1) {
                let mark = |proof| Principal::new(proof, SECOND).mark;
                assert_ne!(mark(proof), mark(*other), "{proof:?} {other:?}");
            }
        }
    }

    #[test]
    fn a_stored_variant_tells_its_identity_and_its_question() {
        let rights = |digest| Proof::Rights { digest, combines: true };
        let proofs = [
            Proof::Unrestricted,
            Proof::Unauthenticated,
            rights(0),
            rights(1),
            Proof::Name(b""),
            Proof::Name(b"default"),
        ];
        let mut seen = Vec::new();
        for proof in proofs {
            let mark = Principal::new(proof, SECOND).mark;
            let variant = [mark.as_slice(), b"\x02hget"].concat();
            let (identity, question) = Identity::of(&variant, 7);
            assert_eq!(question, b"\x02hget", "{proof:?}");
            assert!(!seen.contains(&identity), "{proof:?} {identity}");
            seen.push(identity);
        }
    }
}
