//! The disk queues, and the notification of workers about durability, in random thread schedules
//! (shuttle): every thread with pending work runs. A missed wake-up stops the model, which prints
//! how to repeat the schedule (`shuttle::replay`).

// The files of the product, compiled with shuttle's locks.
#[path = "../src/database/durable.rs"]
#[allow(dead_code, unreachable_pub)]
mod durable;
#[path = "../../reactor/tests/model/mod.rs"]
mod model;
#[path = "../../reactor/src/inbox/notes.rs"]
#[allow(dead_code, unreachable_pub)]
mod notes;
#[path = "../src/database/queue.rs"]
#[allow(dead_code, unreachable_pub)]
mod queue;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use durable::Durable;
use model::{Edge, check, sync};
use notes::{Event, Notes};
use queue::Queue;
use shuttle::sync::atomic::AtomicUsize;
use shuttle::thread;
use store::elastic::Position;

impl Event for Edge {
    fn raise(&self) {
        Self::raise(self);
    }
}

type Inbox<N> = Notes<N, Edge>;

#[test]
fn a_worker_that_holds_answers_hears_that_they_are_durable() {
    const WRITES: u64 = 3;
    check(|| {
        let durable = Arc::new(Durable::new(1, 2));
        let inboxes: Arc<[Inbox<()>; 2]> = Arc::new([(); 2].map(|()| Inbox::with(Edge::default())));
        let writer = {
            let (durable, inboxes) = (Arc::clone(&durable), Arc::clone(&inboxes));
            thread::spawn(move || {
                for position in 1..=WRITES {
                    durable.publish(0, Position(position), false);
                    durable.holders().for_each(|worker| inboxes[worker].wake());
                }
            })
        };
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                let (durable, inboxes) = (Arc::clone(&durable), Arc::clone(&inboxes));
                thread::spawn(move || {
                    let mut notes = Vec::new();
                    for position in 1..=WRITES {
                        // Iterations of a worker's loop, until the reply has been sent.
                        loop {
                            durable.hold(worker, true);
                            if durable.is_durable(0, Position(position)) {
                                break;
                            }
                            inboxes[worker].event().wait();
                            inboxes[worker].take(&mut notes);
                        }
                        durable.hold(worker, false);
                    }
                })
            })
            .collect();
        writer.join().expect("it ends");
        workers.into_iter().for_each(|worker| worker.join().expect("it ends"));
    });
}

/// Two threads serve a queue. An item that is added while they serve runs concurrently: neither
/// item ends before the other has begun. When the queue is closed, all its items are done.
#[test]
fn threads_of_a_queue_do_all_there_is_side_by_side() {
    check(|| {
        let queue = Arc::new(Queue::new());
        let done = Arc::new(AtomicUsize::new(0));
        // The number of threads that have arrived at the barrier.
        let meeting = Arc::new((sync::Mutex::new(0), sync::Condvar::new()));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (queue, done, meeting) =
                    (Arc::clone(&queue), Arc::clone(&done), Arc::clone(&meeting));
                thread::spawn(move || {
                    while let Some(work) = queue.pop() {
                        if work == "begin" {
                            queue.push("meet", true);
                            queue.push("meet", true);
                        } else {
                            let (count, changed) = &*meeting;
                            let mut count = count.lock();
                            *count += 1;
                            changed.notify_all();
                            while *count < 2 {
                                changed.wait(&mut count);
                            }
                        }
                        done.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        queue.push("begin", false);
        let (count, changed) = &*meeting;
        let mut count = count.lock();
        while *count < 2 {
            changed.wait(&mut count);
        }
        drop(count);
        queue.end();
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        assert_eq!(done.load(SeqCst), 3);
    });
}
