//! Follows an origin that moves: the connections of its monitor, and the effects of a change.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use cache::{
    key::Scope,
    monitor::{Action, Event, Monitor, Records, Told},
    sentinel,
    storage::Storage,
    topology,
};
use platform::dns::{self, Service};
use tokio::{sync::mpsc, task::spawn_local, time::sleep_until};
use tracing::{info, warn};

use super::{Handle, Origin, Protocol, Shared, inbox};

/// What finds the server of an origin.
#[derive(Debug, Clone)]
pub enum Monitored {
    /// Sentinels name it.
    BySentinels(sentinel::Config),
    /// The members of its deployment say what they are.
    ByMembers(topology::Config),
}

/// Settings of a monitor.
pub(super) struct Source {
    pub(super) origin: Arc<Origin>,
    pub(super) protocol: Protocol,
    /// Identifies the origin in scopes.
    pub(super) scope: u64,
    pub(super) config: Monitored,
}

impl Source {
    /// Follows the origin until the task is dropped.
    pub(super) async fn follow(self, shared: Arc<Shared>, storage: Handle) {
        match self.config.clone() {
            Monitored::BySentinels(config) => {
                let monitor = sentinel::Monitor::new(config);
                Follower::new(shared, storage, self).follow(monitor).await;
            }
            Monitored::ByMembers(config) => {
                let monitor = topology::Monitor::new(config);
                Follower::new(shared, storage, self).follow(monitor).await;
            }
        }
    }
}

/// What a connection reports, or a look-up of records.
enum Report<End> {
    Connected(End, u64),
    Received(End, u64, Vec<u8>),
    Lost(End, u64, String),
    Resolved(io::Result<Service>),
}

/// Reports that wait for the monitor; a connection with more to report waits too.
const REPORTS_MAX: usize = 64;
/// Maximum interval between two checks of the clock.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

type Reports<End> = mpsc::Sender<Report<End>>;

/// A connection of the monitor.
struct Line {
    number: u64,
    output: mpsc::UnboundedSender<Vec<u8>>,
}

/// A running monitor.
struct Follower<M: Monitor> {
    shared: Arc<Shared>,
    storage: Handle,
    source: Source,
    lines: HashMap<M::End, Line>,
    /// Number of connections so far.
    number: u64,
}

impl<M: Monitor> Follower<M> {
    fn new(shared: Arc<Shared>, storage: Handle, source: Source) -> Self {
        Self { shared, storage, source, lines: HashMap::new(), number: 0 }
    }

    /// Follows until it is dropped.
    async fn follow(mut self, mut monitor: M) {
        let start = self.shared.start;
        let (tell, mut reports) = mpsc::channel(REPORTS_MAX);
        loop {
            let now = start.elapsed();
            let alarm = monitor.poll_timeout().min(now + LOOK_PAUSE);
            let actions = tokio::select! {
                Some(report) = reports.recv() => self.pass_on(&report, &mut monitor),
                () = sleep_until(start + alarm) => {
                    monitor.step(Event::Time, start.elapsed().max(alarm))
                }
            };
            for action in actions {
                self.act(action, &tell);
            }
        }
    }

    /// Tells the monitor what is reported of its present connections.
    fn pass_on(&self, report: &Report<M::End>, monitor: &mut M) -> Vec<Action<M::End, M::Told>> {
        let is_present =
            |end, number| self.lines.get(end).is_some_and(|line| line.number == number);
        let why;
        let event = match report {
            Report::Connected(end, number) if is_present(end, *number) => Event::Connected(*end),
            Report::Received(end, number, bytes) if is_present(end, *number) => {
                Event::Received(*end, bytes)
            }
            Report::Lost(end, number, why) if is_present(end, *number) => Event::Lost(*end, why),
            Report::Connected(..) | Report::Received(..) | Report::Lost(..) => return Vec::new(),
            Report::Resolved(Ok(Service { hosts, texts })) => {
                Event::Resolved(Ok(Records { hosts, texts }))
            }
            Report::Resolved(Err(error)) => {
                why = error.to_string();
                Event::Resolved(Err(&why))
            }
        };
        monitor.step(event, self.shared.start.elapsed())
    }

    fn act(&mut self, action: Action<M::End, M::Told>, tell: &Reports<M::End>) {
        let Source { origin, protocol, scope, .. } = &self.source;
        match action {
            Action::Connect(end, address) => {
                self.number += 1;
                let (output, pending) = mpsc::unbounded_channel();
                self.lines.insert(end, Line { number: self.number, output });
                let (origin, tell, number) = (Arc::clone(origin), tell.clone(), self.number);
                spawn_local(async move {
                    let report = async |report| {
                        let _ = tell.send(report).await;
                    };
                    let talk = async {
                        let stream = origin.reach_at(&address).await?;
                        report(Report::Connected(end, number)).await;
                        let received =
                            async |bytes| report(Report::Received(end, number, bytes)).await;
                        stream.exchange(pending, received).await
                    };
                    let ended: io::Result<()> = talk.await;
                    let why = ended.err().map_or_else(String::new, |error| error.to_string());
                    report(Report::Lost(end, number, why)).await;
                });
            }
            Action::Resolve(service, domain) => {
                let tell = tell.clone();
                spawn_local(async move {
                    let found = dns::service(service, &domain).await;
                    let _ = tell.send(Report::Resolved(found)).await;
                });
            }
            // One that has ended reports that.
            Action::Send(end, bytes) => {
                let _ = self.lines.get(&end).map(|line| line.output.send(bytes));
            }
            Action::Close(end) => drop(self.lines.remove(&end)),
            Action::Leave => {
                origin.place.leave();
                protocol.forget_greetings();
                self.storage.written_elsewhere(Scope::Origin(*scope));
                self.shared.origin_moved();
                inbox::deliver(&self.shared.post, self.storage.woken());
            }
            Action::Follow(address) => origin.place.arrive(address),
            Action::Tell(told) if told.is_warning() => warn!(%origin, "{told}"),
            Action::Tell(told) => info!(%origin, "{told}"),
        }
    }
}
