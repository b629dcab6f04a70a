//! Checks the identity of the connection at the origin, and holds back requests that must not be
//! sent before it is known (see [`crate::principal`]).

use std::time::Duration;

use crate::{
    expected::{Action, Expected},
    filter::{Filter, Flow, Hush, Reply, Request},
    principal::{Finding, Login},
    session::{Hold, Session},
    storage::Storage,
};

impl<F: Filter> Session<F> {
    /// Sends a check before the next request, if one is due and may be sent now.
    #[inline]
    pub(crate) fn check_if_due(&mut self, now: Duration) {
        if self.standing.is_due(now) && !self.streams {
            self.check(false, now);
        }
    }

    fn check(&mut self, forced: bool, now: Duration) {
        if let Some(tag) = self.filter.check(forced, self.to_server.buffer()) {
            self.standing.ask();
            self.expected.push_back(Expected::new(tag, Action::Check { asked_at: now }));
        }
    }

    /// Handles a request that may be sent only once the origin has reported whether the connection
    /// is logged in; returns `false` if it must be repeated.
    pub(crate) fn await_login<S: Storage>(
        &mut self,
        request: Request<'_, F::Tag>,
        original: &[u8],
        storage: &S,
        now: Duration,
    ) -> bool {
        let judged = self.hold == Hold::Judged;
        self.hold = Hold::No;
        if judged && self.standing.take_refusal() {
            storage.stats().refused_logins.add(1);
            match request.reply {
                Reply::Hush(_) => self.filter.keep_answering(self.to_server.buffer()),
                _ => self.to_server.buffer().extend_from_slice(original),
            }
            let streams = request.reply == Reply::Stream;
            if !matches!(request.reply, Reply::Never | Reply::Unknown) {
                let action = Action::Refused { streams };
                let partial = self.passing;
                self.expected.push_back(Expected { partial, ..Expected::new(request.tag, action) });
            }
            return true;
        }
        if !self.standing.is_asked() {
            self.check(true, now);
        }
        self.hold = Hold::Waits;
        false
    }

    /// Notes that the connection's state has changed: requests that were held back may be examined
    /// again.
    pub(crate) fn look_again(&mut self) {
        if self.hold == Hold::Waits && !self.standing.is_asked() {
            self.hold = Hold::No;
        }
    }

    /// Returns the reason for answering a held-back request of this flow here because the origin
    /// cannot be reached. Requests that change the state of the connection are handled as usual.
    #[cold]
    pub(crate) fn answers_held(&mut self, flow: &Flow<'_>) -> Option<String> {
        self.standing.presume(self.streams);
        self.unreachable.take().filter(|_| matches!(flow, Flow::Write(_)))
    }

    /// Answers a held-back request while the origin cannot be reached, like any other that could
    /// not be sent; it has touched nothing.
    pub(crate) fn answer_held(&mut self, request: &Request<'_, F::Tag>, why: &str, now: Duration) {
        if matches!(request.reply, Reply::Never | Reply::Unknown) {
            return;
        }
        if self.hush == Hush::Off {
            self.filter.unavailable(&request.tag, why, self.to_client.buffer(), now);
        }
        self.hear();
    }

    /// The origin answered a check.
    pub(crate) fn checked(
        &mut self,
        tag: &F::Tag,
        reply: &[u8],
        asked_at: Duration,
        now: Duration,
    ) {
        let finding = self.filter.checked(tag, reply);
        let again = finding == Finding::AskAgain;
        self.standing.settle(finding, asked_at);
        // Nothing is sent after a request that waits, nor within one: the check then precedes the
        // next request.
        if again && !self.is_blocked() && !self.passing {
            self.check(true, now);
        }
        if self.hold == Hold::Waits && !self.standing.is_asked() {
            self.hold = Hold::Judged;
        }
    }

    /// The origin answered a request of a connection that was considered not logged in.
    pub(crate) fn refused<S: Storage>(
        &mut self,
        tag: F::Tag,
        reply: &[u8],
        streams: bool,
        storage: &mut S,
    ) {
        if !self.filter.refuses(&tag, reply) {
            // Its rights have changed since the check.
            storage.written_elsewhere(self.filter.everything());
            self.standing.begin_again(if streams { Login::Accepted } else { Login::Unknown });
            if streams {
                self.streams = true;
                self.standing.presume(true);
                self.expected.push_front(Expected::new(tag, Action::Stream));
            }
        }
        self.to_client.buffer().extend_from_slice(reply);
    }
}
