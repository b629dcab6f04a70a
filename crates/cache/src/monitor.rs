//! Monitors: each finds the server of an origin that moves, and tells when it moves.
//!
//! A monitor is told what happens to its connections ([`Event`]) and says what is to be done
//! ([`Action`]). There are two: [`crate::sentinel`] asks Sentinels which node is the primary,
//! [`crate::topology`] asks the members of a MongoDB deployment what they are.

use std::{fmt, hash::Hash, time::Duration};

mod line;

pub(crate) use line::Line;

/// Finds the server of one origin.
pub trait Monitor {
    /// One end of a connection of the monitor.
    type End: Copy + Eq + Hash + 'static;
    /// What the operator is told.
    type Told: Told;

    /// Handles `event`; returns what is to be done.
    fn step(
        &mut self,
        event: Event<'_, Self::End>,
        now: Duration,
    ) -> Vec<Action<Self::End, Self::Told>>;

    /// When [`Event::Time`] is due.
    fn poll_timeout(&self) -> Duration;
}

/// A line of the log.
pub trait Told: fmt::Display {
    /// Whether something is wrong.
    fn is_warning(&self) -> bool;
}

/// What happened.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a, End> {
    /// A connection was made.
    Connected(End),
    /// Bytes arrived.
    Received(End, &'a [u8]),
    /// A connection could not be made, or has ended: why.
    Lost(End, &'a str),
    /// The records that were asked for, or why there are none.
    Resolved(Result<Records<'a>, &'a str>),
    /// [`Monitor::poll_timeout`] has passed.
    Time,
}

/// What DNS has about a service.
#[derive(Debug, Clone, Copy)]
pub struct Records<'a> {
    /// Its servers, each `host:port`.
    pub hosts: &'a [String],
    /// The TXT records of its domain.
    pub texts: &'a [String],
}

/// What is to be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action<End, Told> {
    /// Look up the records of this service of a domain.
    Resolve(&'static str, String),
    /// Connect to this address.
    Connect(End, String),
    /// Send these bytes.
    Send(End, Vec<u8>),
    /// Close the connection; nothing more is expected of it.
    Close(End),
    /// End every connection to the server in use and drop all that is stored of it.
    Leave,
    /// Use the server at this address from now on.
    Follow(String),
    /// Tell the operator.
    Tell(Told),
}

/// Intervals of the requests to servers, and of reconnecting.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Interval of the requests to each server.
    pub poll_interval: Duration,
    /// The same for [`Self::hurry_time`] after a change was reported, and while no server is used.
    pub hurry_interval: Duration,
    /// See [`Self::hurry_interval`].
    pub hurry_time: Duration,
    /// Time without a reply after which a connection is closed.
    pub silence_max: Duration,
    /// Pause before a connection is made again; it doubles up to [`Self::retry_max`].
    pub retry: Duration,
    /// Longest such pause.
    pub retry_max: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            poll_interval: Duration::from_secs(1),
            hurry_interval: Duration::from_millis(100),
            hurry_time: Duration::from_secs(10),
            silence_max: Duration::from_secs(5),
            retry: Duration::from_millis(250),
            retry_max: Duration::from_secs(5),
        }
    }
}
