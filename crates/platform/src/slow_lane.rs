//! The slow lane: operations that take long, on threads of their own which yield to those that
//! serve connections. A flood of slow requests, such as RSA, therefore does not delay quick ones,
//! such as ECDSA.

use std::{collections::VecDeque, sync::Arc, thread};

use anyhow::Context;
use parking_lot::{Condvar, Mutex};
use rustix::{process::setpriority_process, thread::gettid};
use tokio::sync::oneshot;

/// Operations that wait; the next one is refused. At 250 µs each they take 0.25 s on one core.
const QUEUE_MAX: usize = 1024;
/// Niceness of the threads: under full load they get a tenth of the core.
const NICENESS: i32 = 10;

type Job = Box<dyn FnOnce() + Send>;

/// Threads and their queue. Dropping it ends them after the jobs they have.
pub struct Lane {
    queue: Arc<Queue>,
}

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    ended: bool,
}

impl Lane {
    /// Starts `threads` threads.
    pub fn start(threads: usize) -> anyhow::Result<Self> {
        let queue = Arc::new(Queue { state: Mutex::default(), changed: Condvar::new() });
        for number in 0..threads.max(1) {
            let queue = Arc::clone(&queue);
            thread::Builder::new()
                .name(format!("slow-{number}"))
                .spawn(move || queue.serve())
                .context("cannot start a thread for slow operations")?;
        }
        Ok(Self { queue })
    }

    /// Runs `job` there; `None` if the queue is full or the job panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        {
            let mut state = self.queue.state.lock();
            if state.jobs.len() >= QUEUE_MAX {
                return None;
            }
            state.jobs.push_back(Box::new(move || {
                // Skip the job if its caller no longer waits.
                if !answer.is_closed() {
                    let _ = answer.send(job());
                }
            }));
        }
        self.queue.changed.notify_one();
        answered.await.ok()
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.queue.state.lock().ended = true;
        self.queue.changed.notify_all();
    }
}

impl Queue {
    fn serve(&self) {
        // Without it they only compete on equal terms.
        if let Err(error) = setpriority_process(Some(gettid()), NICENESS) {
            tracing::warn!(%error, "cannot lower the priority of the threads for slow operations; \
                                    they run at normal priority");
        }
        while let Some(job) = self.next() {
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
                tracing::error!(
                    "a slow operation panicked, its request fails; please report this as a bug"
                );
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.ended {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }
}
