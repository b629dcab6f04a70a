//! One connection of the monitor.

use std::time::Duration;

use crate::input::Input;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Down,
    Connecting,
    Up,
}

/// A connection on which one question is asked at a time.
#[derive(Debug)]
pub(crate) struct Line {
    state: State,
    pub(crate) input: Input,
    /// Number of outstanding replies to the commands sent first, before any question.
    greetings: usize,
    /// A question is unanswered.
    asked: bool,
    /// When the first of these was sent.
    since: Duration,
    /// When it is connected, or asked next.
    next: Duration,
    retry: Duration,
    pause: Duration,
    tried: bool,
}

impl Line {
    /// Not connected; it is to be connected at once.
    pub(crate) fn new(retry: Duration) -> Self {
        Self {
            state: State::Down,
            input: Input::default(),
            greetings: 0,
            asked: false,
            since: Duration::ZERO,
            next: Duration::ZERO,
            retry,
            pause: retry,
            tried: false,
        }
    }

    /// When there is something to do.
    pub(crate) fn due(&self, silence_max: Duration) -> Duration {
        match self.state {
            // The end of the attempt is an event.
            State::Connecting => Duration::MAX,
            State::Up if self.awaits() => self.since + silence_max,
            State::Up | State::Down => self.next,
        }
    }

    fn awaits(&self) -> bool {
        self.asked || self.greetings > 0
    }

    /// Whether it is or becomes connected.
    pub(crate) fn is_used(&self) -> bool {
        self.state != State::Down
    }

    /// Whether it was answered or lost at least once.
    pub(crate) fn was_tried(&self) -> bool {
        self.tried
    }

    pub(crate) fn begin(&mut self) {
        self.state = State::Connecting;
    }

    /// It is connected, and this number of greetings is sent.
    pub(crate) fn connected(&mut self, greetings: usize, now: Duration) {
        (self.state, self.greetings, self.asked) = (State::Up, greetings, false);
        (self.since, self.next) = (now, now);
    }

    /// Asks no later than `at`.
    pub(crate) fn ask_at(&mut self, at: Duration) {
        if self.state == State::Up {
            self.next = self.next.min(at);
        }
    }

    /// A question is sent.
    pub(crate) fn ask(&mut self, next: Duration, now: Duration) {
        (self.asked, self.since, self.next) = (true, now, next);
    }

    /// A reply has arrived; whether it is that of a greeting.
    pub(crate) fn answered(&mut self) -> bool {
        let greeting = self.greetings > 0;
        if greeting {
            self.greetings -= 1;
        } else {
            (self.asked, self.pause, self.tried) = (false, self.retry, true);
        }
        greeting
    }

    pub(crate) fn is_silent(&self, silence_max: Duration, now: Duration) -> bool {
        self.state == State::Up && self.awaits() && now >= self.since + silence_max
    }

    /// It is lost; it is connected again after a pause that grows.
    pub(crate) fn lost(&mut self, retry_max: Duration, now: Duration) {
        (self.state, self.input, self.greetings, self.asked) =
            (State::Down, Input::default(), 0, false);
        self.tried = true;
        self.next = now + self.pause;
        self.pause = (2 * self.pause).min(retry_max);
    }
}
