//! Which placer may move slots: the lease, and the fence at every primary.
//!
//! **The lease** is a key of the cluster that expires. It decides which placer may begin, and keeps
//! two placers from fencing each other in turn. It guarantees nothing: its node expires it by the
//! wall clock while the holder counts monotonic time, a failover can lose it, and a holder can be
//! stopped between the check of its lease and the step it then sends.
//!
//! **The fence** is the guarantee. Before its first step a new holder raises a fence at every
//! primary: it subscribes to a channel named by its [`Token`], then has the node close the
//! connections of all lower tokens. Every script that changes a slot starts by asking its own node
//! whether its token still has a subscriber ([`crate::scripts`]); the check and the change are one
//! step of the node. After a fence stands at a node, every step of an earlier holder is refused
//! there, however late it arrives.
//!
//! - *Two placers never act at the same time.* A holder acts after its fence stands at all
//!   primaries in its view, and after each of them has confirmed that once more. All lower tokens
//!   are gone by then. A token is never raised twice: a holder that loses its subscription at one
//!   node takes a higher token at all nodes. Of two holders that raise fences at the same time, one
//!   meets the higher token at the first node they share, and gives up.
//! - *No state can be lost.* The token is in the memory of the process that executes the step. A
//!   node that restarts, and a replica that takes over, knows no token and refuses every placer
//!   until a fence is raised there. Asynchronous replication plays no part.
//! - *Rejected: the lease at a majority of primaries* (Redlock). It still measures time, and a step
//!   that was sent in time can arrive late. A placer needs all primaries anyway, to know which
//!   slots are open.
//!
//! After a refusal the holder asks for the lease before it raises a higher fence. A placer that was
//! fenced off thus learns that it no longer leads, and does not fence off its successor.

use std::time::Duration;

pub mod key;

/// Lifetime of a lease that is not renewed.
pub const LEASE: Duration = Duration::from_secs(8);
/// Age at which it is renewed.
const RENEW_AFTER: Duration = Duration::from_secs(1);
/// No step is begun in the last part of it: another placer may take over soon, and refusals in the
/// middle of a move cost a resumption.
const LAST: Duration = Duration::from_secs(5);

/// Identifies a fence. Of two tokens the higher one prevails: by number, then by holder, which
/// differs between processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    /// Higher than that of every fence its holder has met.
    pub number: u64,
    /// The process that holds it.
    pub holder: u64,
}

/// The next thing to do before a step may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Take the lease, if it is free.
    Take,
    /// Renew it, if it is still this holder's.
    Renew,
    /// Raise this fence at all primaries.
    Fence(Token),
    /// Nothing.
    Nothing,
}

/// The answer of the lease's node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The lease is this holder's for [`LEASE`].
    Held,
    /// The lease is another's, or gone.
    Refused,
    /// No answer: the rest of the current lease counts.
    Unknown,
}

/// The result of raising a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raised {
    /// It stands at all primaries, and no lower one does.
    Everywhere,
    /// A higher one stands at one of them.
    Outranked(Token),
    /// A primary did not answer, or lost it again.
    Failed,
}

/// One holder's state of both.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lease {
    token: Token,
    /// Time of the request, if it is held: the node counts from a later moment.
    asked: Option<Duration>,
    /// The fence stands, as far as is known.
    fenced: bool,
    /// A node refused the token, has a higher one, or did not answer: the lease is asked for before
    /// anything else.
    doubtful: bool,
}

impl Lease {
    /// Not held; `holder` is unique to this process.
    #[must_use]
    pub fn new(holder: u64) -> Self {
        let token = Token { number: 0, holder };
        Self { token, asked: None, fenced: false, doubtful: false }
    }

    /// The next thing to do before a step.
    #[must_use]
    pub fn next(&self, now: Duration) -> Ask {
        match self.asked {
            None => Ask::Take,
            Some(asked) if self.doubtful || now >= asked + RENEW_AFTER => Ask::Renew,
            Some(_) if !self.fenced => Ask::Fence(self.token),
            Some(_) => Ask::Nothing,
        }
    }

    /// The answer to [`Ask::Take`] or [`Ask::Renew`], requested at `asked`. Returns whether the
    /// lease was held and is lost.
    pub fn answered(&mut self, answer: Answer, asked: Duration) -> bool {
        match answer {
            Answer::Held => {
                if self.asked.replace(asked).is_none() || self.doubtful {
                    self.raise_anew();
                }
                self.doubtful = false;
                false
            }
            Answer::Refused => self.release(),
            Answer::Unknown => false,
        }
    }

    /// The result of [`Ask::Fence`].
    pub fn raised(&mut self, raised: Raised) {
        match raised {
            Raised::Everywhere => self.fenced = true,
            Raised::Outranked(by) => {
                self.token.number = self.token.number.max(by.number);
                self.doubtful = true;
            }
            // Perhaps another is raising one.
            Raised::Failed => self.doubtful = true,
        }
    }

    /// A node refused a step with this token. A refusal of an earlier token says nothing about the
    /// current one.
    pub fn refused(&mut self, token: Token) {
        if self.fenced && token == self.token {
            (self.fenced, self.doubtful) = (false, true);
        }
    }

    /// The token for a step, if one may be begun.
    #[must_use]
    pub fn token(&self, now: Duration) -> Option<Token> {
        let held = self.asked.is_some_and(|asked| now + LAST < asked + LEASE);
        (held && self.fenced && !self.doubtful).then_some(self.token)
    }

    /// Gives it up. Returns whether it was held.
    pub fn release(&mut self) -> bool {
        (self.fenced, self.doubtful) = (false, false);
        self.asked.take().is_some()
    }

    fn raise_anew(&mut self) {
        self.fenced = false;
        self.token.number += 1;
    }
}

/// Prefix of the channels of fences.
pub const CHANNELS: &str = "enroute:lease:";
/// Characters of a holder's name in its channel; the connection has the same name.
const NAME_MAX: usize = 64;

impl Token {
    /// The channel whose subscriber is the fence of the holder named `name`.
    #[must_use]
    pub fn channel(self, name: &str) -> String {
        let readable = |character: char| if character.is_ascii_graphic() { character } else { '-' };
        let name: String = name.chars().take(NAME_MAX).map(readable).collect();
        format!("{CHANNELS}{}:{:016x}:{name}", self.number, self.holder)
    }

    /// Token and holder's name of a fence's channel; `None` for other channels.
    #[must_use]
    pub fn read(channel: &str) -> Option<(Self, &str)> {
        let mut parts = channel.strip_prefix(CHANNELS)?.splitn(3, ':');
        let (number, holder, name) = (parts.next()?, parts.next()?, parts.next()?);
        let holder = u64::from_str_radix(holder, 16).ok()?;
        Some((Self { number: number.parse().ok()?, holder }, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn held(holder: u64) -> Lease {
        let mut lease = Lease::new(holder);
        lease.answered(Answer::Held, after(0));
        lease
    }

    #[test]
    fn a_step_needs_the_lease_and_a_fence() {
        let mut lease = Lease::new(7);
        assert_eq!((lease.next(after(0)), lease.token(after(0))), (Ask::Take, None));
        lease.answered(Answer::Held, after(0));
        let token = Token { number: 1, holder: 7 };
        assert_eq!((lease.next(after(0)), lease.token(after(0))), (Ask::Fence(token), None));
        lease.raised(Raised::Everywhere);
        assert_eq!((lease.next(after(0)), lease.token(after(0))), (Ask::Nothing, Some(token)));
        // Without renewal no step begins in the last five seconds of the lease.
        assert_eq!(lease.next(after(1)), Ask::Renew);
        lease.answered(Answer::Unknown, after(1));
        assert_eq!((lease.token(after(2)), lease.token(after(3))), (Some(token), None));
    }

    #[test]
    fn no_token_comes_back() {
        let mut lease = held(7);
        lease.raised(Raised::Everywhere);
        let first = lease.token(after(0)).expect("it stands");
        lease.refused(first);
        assert_eq!((lease.next(after(0)), lease.token(after(0))), (Ask::Renew, None));
        lease.answered(Answer::Held, after(0));
        assert_eq!(lease.next(after(0)), Ask::Fence(Token { number: 2, holder: 7 }));
        lease.raised(Raised::Failed);
        assert_eq!(lease.next(after(0)), Ask::Renew);
        lease.answered(Answer::Held, after(0));
        assert_eq!(lease.next(after(0)), Ask::Fence(Token { number: 3, holder: 7 }));
        // A late refusal of the first token.
        lease.refused(first);
        lease.raised(Raised::Everywhere);
        assert!(lease.token(after(0)).is_some());
        lease.release();
        lease.answered(Answer::Held, after(1));
        assert_eq!(lease.next(after(1)), Ask::Fence(Token { number: 4, holder: 7 }));
    }

    #[test]
    fn an_outranked_holder_asks_for_the_lease_before_it_raises_a_higher_fence() {
        let mut lease = held(7);
        lease.raised(Raised::Outranked(Token { number: 41, holder: 3 }));
        assert_eq!(lease.next(after(0)), Ask::Renew);
        let mut other = lease.clone();
        assert!(other.answered(Answer::Refused, after(0)));
        assert_eq!(other.next(after(0)), Ask::Take);
        lease.answered(Answer::Held, after(0));
        assert_eq!(lease.next(after(0)), Ask::Fence(Token { number: 42, holder: 7 }));
    }

    #[test]
    fn a_channel_names_its_placer() {
        let token = Token { number: 12, holder: 0xfe };
        let channel = token.channel("on host:1");
        assert_eq!(channel, "enroute:lease:12:00000000000000fe:on-host:1");
        assert_eq!(Token::read(&channel), Some((token, "on-host:1")));
        for other in ["enroute:bus:7", "enroute:lease:", "enroute:lease:x:1:y", "enroute:lease:1:2"]
        {
            assert_eq!(Token::read(other), None, "{other}");
        }
    }
}
