//! Inboxes, queues for the disk and what workers hear of durability, run by a model of threads (shuttle): in orders
//! drawn at random every thread that has something to do does it. One that sleeps over it stops the model,
//! which says so and how to do the same again (`shuttle::replay`).

// The same files as in the program, with the model's locks.
#[path = "../src/database/durable.rs"]
#[allow(dead_code, unreachable_pub)]
mod durable;
#[path = "../src/inbox/notes.rs"]
#[allow(dead_code, unreachable_pub)]
mod notes;
#[path = "../src/database/queue.rs"]
#[allow(dead_code, unreachable_pub)]
mod queue;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use durable::Durable;
use notes::{Event, Notes};
use queue::Queue;
use shuttle::sync::atomic::AtomicUsize;
use shuttle::thread;
use store::elastic::Position;

/// What `crate::sync` is in the program, of the model.
mod sync {
    use std::ops::{Deref, DerefMut};

    use shuttle::sync as model;
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64};

    #[derive(Default)]
    pub(crate) struct Mutex<T>(model::Mutex<T>);

    /// There but while its condition is waited for.
    pub(crate) struct Guard<'a, T>(Option<model::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(model::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> Guard<'_, T> {
            Guard(Some(self.0.lock().expect("not poisoned")))
        }
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("it is held")
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("it is held")
        }
    }

    #[derive(Default)]
    pub(crate) struct Condvar(model::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn wait<T>(&self, guard: &mut Guard<'_, T>) {
            let held = guard.0.take().expect("it is held");
            guard.0 = Some(self.0.wait(held).expect("not poisoned"));
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

/// An event that is watched edge-triggered: who waits is woken once for any number of raises.
#[derive(Default)]
struct Edge {
    raised: sync::Mutex<bool>,
    changed: sync::Condvar,
}

impl Event for Edge {
    fn raise(&self) {
        *self.raised.lock() = true;
        self.changed.notify_one();
    }
}

impl Edge {
    fn wait(&self) {
        let mut raised = self.raised.lock();
        while !*raised {
            self.changed.wait(&mut raised);
        }
        *raised = false;
    }
}

type Inbox<N> = Notes<N, Edge>;

/// In so many orders, unless `ORDERS` says how many.
const ORDERS: usize = 3_000;
/// Of these, half change threads so often at most, where it is drawn; which finds what needs an unlikely order.
const CHANGES: usize = 3;

fn check(model: impl Fn() + Send + Sync + Clone + 'static) {
    let orders = std::env::var("ORDERS").ok().and_then(|orders| orders.parse().ok());
    let orders = orders.unwrap_or(ORDERS) / 2;
    shuttle::check_pct(model.clone(), orders, CHANGES);
    shuttle::check_random(model, orders);
}

#[test]
fn a_worker_reads_every_note() {
    const SENDERS: usize = 2;
    const NOTES: usize = 2;
    check(|| {
        let inbox = Arc::new(Inbox::with(Edge::default()));
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
                        // A round of a worker's loop, until the answer has left.
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

/// Two threads serve a queue. What one adds while it serves, both do side by side: neither piece ends before the
/// other has begun. And when the queue ends, all that was in it is done.
#[test]
fn threads_of_a_queue_do_all_there_is_side_by_side() {
    check(|| {
        let queue = Arc::new(Queue::new());
        let done = Arc::new(AtomicUsize::new(0));
        // How many have come to meet another.
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
