//! # reactor: the event-loop kit
//!
//! The common parts of the services' event loops: readiness of sockets, accepting and naming
//! connections, messages from other threads, and shutdown. `docs/decisions/0006-event-loops.md`
//! states why the loops are our own.
//!
//! It is not a runtime and has no loop: what a service does in a round, and in which order, stays
//! with the service (`runtime/worker.rs`, `database/worker.rs` and `state/agent.rs` of `enroute`,
//! `link/relay` of `testbed`). It calls no client code, has no callbacks and no dynamic dispatch; a
//! request costs one wait, one read and one write.
//!
//! Read first: [`Reactor`] and [`Socket`], then [`Seats`], which name the connections of a loop.
//!
//! | type | what it is |
//! |---|---|
//! | [`Reactor`], [`Events`] | one epoll: readiness of sockets |
//! | [`Socket`] | a connection that never blocks |
//! | [`Channel`] | the same with TLS (rustls) or without |
//! | [`Acceptor`] | a listening socket; [`Failures`] is the rule for failed accepts |
//! | [`Seats`] | the connections of a loop, their tokens, and the list of those to be served |
//! | [`Inbox`], [`Post`] | messages from other threads to a loop |
//! | [`Seldom`] | a log line that is written once per interval |
//! | [`Drain`] | the time limit of a loop after shutdown is requested |
//!
//! Alike, and left where they are:
//!
//! - The seats of the state agent are numbered by `state::agent::Agent`, which keeps its own half
//!   of each client.
//! - The alarms of the cache (a set from which alarms are removed) and of the relay (a heap that
//!   keeps outdated ones): the first changes an alarm in most turns, the second needs the next
//!   departure at the least cost.
//! - The commands of an emulated path (`testbed/link/control.rs`) are answered, and the tunnel
//!   polls its devices.
//! - The agent of the data plane (`enroute/switch/agent.rs`) has one UDP socket and no connections.
//! - `bench` imports no crate of this repository: the measuring code shares nothing with the
//!   measured code.
#![forbid(unsafe_code)]

mod acceptor;
mod channel;
mod drain;
mod inbox;
mod poll;
mod seats;
mod seldom;
mod socket;
mod sync;

pub use acceptor::{Acceptor, Failures};
pub use channel::{Channel, FIRST_BYTES};
pub use drain::Drain;
pub use inbox::{EventFd, Inbox, Post};
pub use poll::{BusyPolling, Events, Possible, Reactor};
pub use seats::{Seats, Token};
pub use seldom::Seldom;
pub use socket::Socket;
