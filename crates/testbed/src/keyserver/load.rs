//! Load generator for a key server: a fixed rate of requests, or maximum throughput.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde::Serialize;
use wire::ski::{Refusal, Request};

use crate::services::{KeyClient, KeyServer};

/// Largest recorded latency; latencies are recorded to three digits.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Configuration of the load.
#[derive(Debug, Clone)]
pub struct Load {
    /// The key server, and the number of connections of each thread.
    pub server: KeyServer,
    /// The request that is sent repeatedly.
    pub request: Request,
    /// Number of sending threads.
    pub threads: usize,
    /// Requests per second; `None` keeps `outstanding` requests in flight.
    pub rate: Option<f64>,
    /// Maximum number of requests in flight, over all threads. With a rate, further requests count
    /// as errors.
    pub outstanding: usize,
    /// Duration of the measurement; a tenth of it is added before as warm-up.
    pub time: Duration,
}

/// Result of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Successful replies per second.
    pub per_second: f64,
    /// Refusals per second. They show the cost of a request without its operation.
    pub refused_per_second: f64,
    /// One of the refusals.
    pub refusal: Option<String>,
    /// Number of requests without a reply.
    pub errors: u64,
    /// One of the errors.
    pub error: Option<String>,
    /// Median time from when a request was due until its reply, in ms.
    pub p50_ms: f64,
    /// 99th percentile of the same, in ms.
    pub p99_ms: f64,
    /// 99.9th percentile, in ms.
    pub p999_ms: f64,
    /// Maximum, in ms.
    pub max_ms: f64,
}

struct Outcomes {
    latencies_ns: Histogram<u64>,
    refused: u64,
    refusal: Option<String>,
    errors: u64,
    error: Option<String>,
    counted_from: Instant,
}

impl Outcomes {
    fn new(counted_from: Instant) -> anyhow::Result<Self> {
        let latencies_ns = Histogram::new_with_max(LATENCY_NS_MAX, 3)?;
        let (refused, refusal, errors, error) = (0, None, 0, None);
        Ok(Self { latencies_ns, refused, refusal, errors, error, counted_from })
    }

    fn record(&mut self, due: Instant, outcome: anyhow::Result<Result<(), Refusal>>) {
        if due < self.counted_from {
            return;
        }
        match outcome {
            Ok(Err(refusal)) => {
                self.refused += 1;
                self.refusal.get_or_insert_with(|| refusal.to_string());
            }
            Err(error) => return self.fail(due, error.to_string()),
            Ok(Ok(())) => {}
        }
        self.latencies_ns.saturating_record(due.elapsed().as_nanos() as u64);
    }

    fn fail(&mut self, due: Instant, error: String) {
        if due < self.counted_from {
            return;
        }
        self.errors += 1;
        self.error.get_or_insert(error);
    }

    fn add(&mut self, other: Self) -> anyhow::Result<()> {
        self.latencies_ns
            .add(&other.latencies_ns)
            .context("cannot add the latencies of two threads")?;
        self.refused += other.refused;
        self.refusal = self.refusal.take().or(other.refusal);
        self.errors += other.errors;
        self.error = self.error.take().or(other.error);
        Ok(())
    }
}

/// Runs the load to its end.
///
/// # Errors
/// A client cannot be set up, or no request was answered.
pub fn run<C: KeyClient>(load: &Load) -> anyhow::Result<Report> {
    let threads = load.threads.max(1);
    let outcomes = thread::scope(|scope| {
        let running: Vec<_> =
            (0..threads).map(|_| scope.spawn(move || run_thread::<C>(load, threads))).collect();
        running
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
            .collect::<anyhow::Result<Vec<Outcomes>>>()
    })?;
    let mut all = Outcomes::new(Instant::now())?;
    for one in outcomes {
        all.add(one)?;
    }
    if all.latencies_ns.is_empty() {
        bail!("no request was answered: {}", all.error.unwrap_or_else(|| "none was sent".into()));
    }
    let ms = |quantile| all.latencies_ns.value_at_quantile(quantile) as f64 / 1e6;
    let a_second = |count: u64| count as f64 / load.time.as_secs_f64();
    Ok(Report {
        per_second: a_second(all.latencies_ns.len() - all.refused),
        refused_per_second: a_second(all.refused),
        refusal: all.refusal.clone(),
        errors: all.errors,
        error: all.error.clone(),
        p50_ms: ms(0.5),
        p99_ms: ms(0.99),
        p999_ms: ms(0.999),
        max_ms: all.latencies_ns.max() as f64 / 1e6,
    })
}

fn run_thread<C: KeyClient>(load: &Load, threads: usize) -> anyhow::Result<Outcomes> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = C::new(&load.server)?;
    let request = Arc::new(load.request.clone());
    runtime.block_on(connect(&client, &request, load.server.connections));
    let warm = Instant::now() + load.time / 10;
    let end = warm + load.time;
    let outcomes = Arc::new(Mutex::new(Outcomes::new(warm)?));
    let outstanding = load.outstanding.div_ceil(threads);
    match load.rate {
        None => {
            runtime.block_on(closed(&client, &request, &outcomes, outstanding, end));
        }
        Some(rate) => {
            let rate = rate / threads as f64;
            runtime.block_on(open(&client, &request, &outcomes, outstanding, rate, end));
        }
    }
    drop(runtime);
    Arc::try_unwrap(outcomes)
        .map(Mutex::into_inner)
        .map_err(|_| anyhow::anyhow!("a task has not ended"))
}

/// Sends one request on each connection before the measurement. Otherwise requests due while
/// connecting would wait, and a nearly saturated server takes a second to catch up.
async fn connect(client: &impl KeyClient, request: &Request, connections: usize) {
    for _ in 0..connections {
        // The measurement counts such errors.
        if client.ask(request).await.is_err() {
            return;
        }
    }
}

/// Closed loop: each reply is followed by the next request.
async fn closed(
    client: &impl KeyClient,
    request: &Arc<Request>,
    outcomes: &Arc<Mutex<Outcomes>>,
    outstanding: usize,
    end: Instant,
) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..outstanding {
        let (client, request, outcomes) =
            (client.clone(), Arc::clone(request), Arc::clone(outcomes));
        tasks.spawn(async move {
            while Instant::now() < end {
                let due = Instant::now();
                let outcome = client.ask(&request).await;
                outcomes.lock().record(due, outcome);
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

/// Open loop: requests are due regardless of replies, and latency counts from when they were due.
/// The thread never sleeps: timers wake it a millisecond late, which would be measured as latency
/// of the server.
async fn open(
    client: &impl KeyClient,
    request: &Arc<Request>,
    outcomes: &Arc<Mutex<Outcomes>>,
    outstanding: usize,
    rate: f64,
    end: Instant,
) {
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    let mut sent = 0.0;
    while Instant::now() < end {
        tokio::task::yield_now().await;
        while tasks.try_join_next().is_some() {}
        while sent < began.elapsed().as_secs_f64() * rate {
            let due = began + Duration::from_secs_f64(sent / rate);
            sent += 1.0;
            if tasks.len() >= outstanding {
                outcomes.lock().fail(due, "too many requests under way".into());
                continue;
            }
            let (client, request, outcomes) =
                (client.clone(), Arc::clone(request), Arc::clone(outcomes));
            tasks.spawn(async move {
                let outcome = client.ask(&request).await;
                outcomes.lock().record(due, outcome);
            });
        }
    }
    while tasks.join_next().await.is_some() {}
}
