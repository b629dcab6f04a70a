//! The inbox in random thread schedules (shuttle): every note is read once. A missed wake-up stops
//! the model, which prints how to repeat the schedule (`shuttle::replay`).

mod model;
// The file of the product, compiled with shuttle's locks.
#[path = "../src/inbox/notes.rs"]
#[allow(dead_code, unreachable_pub, missing_docs)]
mod notes;

use std::sync::Arc;

use model::{Edge, check, sync};
use notes::{Event, Notes};
use shuttle::thread;

impl Event for Edge {
    fn raise(&self) {
        Self::raise(self);
    }
}

#[test]
fn a_worker_reads_every_note() {
    const SENDERS: usize = 2;
    const NOTES: usize = 2;
    check(|| {
        let inbox = Arc::new(Notes::with(Edge::default()));
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || (0..NOTES).for_each(|note| inbox.send(sender * NOTES + note)))
            })
            .collect();
        let (mut read, mut notes) = (Vec::new(), Vec::new());
        while read.len() < SENDERS * NOTES {
            inbox.event().wait();
            inbox.take(&mut notes);
            read.append(&mut notes);
        }
        senders.into_iter().for_each(|sender| sender.join().expect("it ends"));
        read.sort_unstable();
        assert!(read.into_iter().eq(0..SENDERS * NOTES), "each of them once");
    });
}
