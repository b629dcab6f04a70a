//! The thread that makes connections to origins, and learns which server name clients want.
//!
//! Name resolution blocks, and a library tries each address in turn: this thread keeps both out of
//! the workers. Connections are returned through the worker's inbox.

use std::sync::Arc;

use tokio::{
    sync::mpsc,
    task::{LocalSet, spawn_local},
};

use super::{
    Origin, Shared,
    hello::{self, Hello},
    inbox::{Note, Wanted, worker_of},
    reached::Reached,
    streams::Streams,
};

/// A request for a connection to an origin. Each client connection has at most one request for each
/// server, which bounds the queue.
pub(super) struct Wish {
    pub(super) wanted: Wanted,
    pub(super) origin: Arc<Origin>,
}

/// Connects until the last worker is gone.
pub(super) fn run(
    shared: &Arc<Shared>,
    mut wishes: mpsc::UnboundedReceiver<Wish>,
    hellos: mpsc::UnboundedReceiver<Hello>,
    streams: Streams,
) {
    block_on("connects to origins", async {
        spawn_local(hello::pass_on(Arc::clone(shared), hellos, streams));
        while let Some(Wish { wanted, origin }) = wishes.recv().await {
            let shared = Arc::clone(shared);
            spawn_local(async move {
                let reached = origin.connect().await.and_then(Reached::into_parts);
                let inbox = shared.post.inbox(worker_of(wanted.ticket));
                inbox.send(Note::Connected(wanted, reached));
            });
        }
    });
}

/// Runs tasks on this thread, which is known by what it does.
pub(super) fn block_on(what: &str, tasks: impl Future<Output = ()>) {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => LocalSet::new().block_on(&runtime, tasks),
        Err(error) => {
            tracing::error!("cannot start the thread that {what}; restart the cache: {error}");
        }
    }
}
