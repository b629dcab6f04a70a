//! Follows the primary that Sentinels name: the connections to them, and what a change does here.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use cache::{
    key::Scope,
    sentinel::{Action, Config, End, Event, Monitor},
    storage::Storage,
};
use tokio::{sync::mpsc, task::spawn_local, time::sleep_until};
use tracing::{info, warn};

use super::{Handle, Origin, Shared, inbox};

/// Settings of a monitor.
pub(super) struct Source {
    pub(super) origin: Arc<Origin>,
    /// Identifies the origin in scopes.
    pub(super) scope: u64,
    pub(super) config: Config,
}

/// What a connection reports.
enum Report {
    Connected,
    Received(Vec<u8>),
    Lost(String),
}

/// Reports that wait for the monitor; a connection with more to report waits too.
const REPORTS_MAX: usize = 64;
/// Longest time between two looks at the clock.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

type Reports = mpsc::Sender<(End, u64, Report)>;

/// A connection of the monitor.
struct Line {
    number: u64,
    output: mpsc::UnboundedSender<Vec<u8>>,
}

/// A running monitor.
pub(super) struct Follower {
    shared: Arc<Shared>,
    storage: Handle,
    source: Source,
    lines: HashMap<End, Line>,
    /// Number of connections so far.
    number: u64,
}

impl Follower {
    pub(super) fn new(shared: Arc<Shared>, storage: Handle, source: Source) -> Self {
        Self { shared, storage, source, lines: HashMap::new(), number: 0 }
    }

    /// Follows until it is dropped.
    pub(super) async fn follow(mut self) {
        let start = self.shared.start;
        let (tell, mut reports) = mpsc::channel(REPORTS_MAX);
        let mut monitor = Monitor::new(self.source.config.clone());
        loop {
            let now = start.elapsed();
            let alarm = monitor.poll_timeout().min(now + LOOK_PAUSE);
            let actions = tokio::select! {
                Some((end, number, report)) = reports.recv() => {
                    if self.lines.get(&end).is_none_or(|line| line.number != number) {
                        continue;
                    }
                    let event = match &report {
                        Report::Connected => Event::Connected(end),
                        Report::Received(bytes) => Event::Received(end, bytes),
                        Report::Lost(why) => Event::Lost(end, why),
                    };
                    monitor.step(event, start.elapsed())
                }
                () = sleep_until(start + alarm) => {
                    monitor.step(Event::Time, start.elapsed().max(alarm))
                }
            };
            for action in actions {
                self.act(action, &tell);
            }
        }
    }

    fn act(&mut self, action: Action, tell: &Reports) {
        let origin = &self.source.origin;
        match action {
            Action::Connect(end, address) => {
                self.number += 1;
                let (output, pending) = mpsc::unbounded_channel();
                self.lines.insert(end, Line { number: self.number, output });
                let (origin, tell, number) = (Arc::clone(origin), tell.clone(), self.number);
                spawn_local(async move {
                    let report = async |report| {
                        let _ = tell.send((end, number, report)).await;
                    };
                    let talk = async {
                        let stream = origin.reach_at(&address).await?;
                        report(Report::Connected).await;
                        stream
                            .exchange(pending, async |bytes| report(Report::Received(bytes)).await)
                            .await
                    };
                    let ended: io::Result<()> = talk.await;
                    let why = ended.err().map_or_else(String::new, |error| error.to_string());
                    report(Report::Lost(why)).await;
                });
            }
            // One that has ended reports that.
            Action::Send(end, bytes) => {
                let _ = self.lines.get(&end).map(|line| line.output.send(bytes));
            }
            Action::Close(end) => drop(self.lines.remove(&end)),
            Action::Leave => {
                origin.place.leave();
                self.storage.written_elsewhere(Scope::Origin(self.source.scope));
                self.shared.origin_moved();
                inbox::deliver(&self.shared.post, self.storage.woken());
            }
            Action::Follow(primary) => origin.place.arrive(primary),
            Action::Tell(told) if told.is_warning() => warn!(%origin, "{told}"),
            Action::Tell(told) => info!(%origin, "{told}"),
        }
    }
}
