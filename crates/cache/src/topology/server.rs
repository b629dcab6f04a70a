//! One server of the deployment.

use std::time::Duration;

use wire::mongo::{
    bson::{Document, Writer},
    message,
};

use super::hello::{Election, Role};
use crate::monitor::Line;

/// Time after which a server answers although nothing has changed.
const AWAIT_MS: i64 = 1_000;

#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: String,
    pub(super) line: Line,
    /// None while it does not answer.
    pub(super) role: Option<Role>,
    /// By which it is the primary.
    pub(super) election: Option<Election>,
    /// Its state, with which it can be asked to answer once that changes.
    pub(super) version: Option<Vec<u8>>,
    /// It answers `isMaster` only.
    pub(super) is_old: bool,
    /// The last trouble with it, so that it is told once.
    pub(super) trouble: Option<String>,
}

impl Server {
    pub(super) fn new(address: String, retry: Duration) -> Self {
        Self {
            address,
            line: Line::new(retry),
            role: None,
            election: None,
            version: None,
            is_old: false,
            trouble: None,
        }
    }

    /// Asks what it is; one that can wait answers once that has changed.
    pub(super) fn question(&self) -> Vec<u8> {
        let version = self.version.as_ref().and_then(|bytes| Document::parse(bytes).ok());
        let mut body = Vec::new();
        Writer::write(&mut body, |body| {
            body.i32(if self.is_old { "isMaster" } else { "hello" }, 1);
            if let Some(version) = version {
                body.document("topologyVersion", version);
                body.i64("maxAwaitTimeMS", AWAIT_MS);
            }
            body.str("$db", "admin");
            body.str("comment", "enroute: topology");
        });
        let mut out = Vec::new();
        message::write(&mut out, 1, 0, &body);
        out
    }
}
