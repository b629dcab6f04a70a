//! The state layer at work: sockets and the clock around `state`.
//!
//! [`agent`] serves clients beside each host's applications. One thread, one epoll, the parts of the
//! cache's loop (`docs/decisions/0006-one-epoll-per-worker.md`): what all clients ask in one round
//! leaves for a node in one write.
//!
//! **Read first:** `agent.rs`.

pub mod agent;
mod links;
