//! The primary of a simulated replica set: its values and its change stream.

use std::time::Duration;

use wire::mongo::{
    frame::{self, Limits},
    message,
    request::Request,
};

use super::{batch, change, document, event_token, failure, greeting, token};

pub(super) const KEYS: usize = 4;

/// The simulated origin with the history of all writes.
pub(super) struct Origin {
    /// For each key, its values and the times of their writes.
    history: [Vec<(Duration, u32)>; KEYS],
    /// The keys of all writes, in order; the first write has time 1.
    writes: Vec<usize>,
    /// Number of majority-committed writes; only these are reported.
    majority: usize,
    /// Number of events that are no longer in the oplog.
    forgotten: usize,
    process: i32,
}

/// The origin's side of a connection of the feed.
#[derive(Default)]
pub(super) struct Link {
    pub(super) input: Vec<u8>,
    pub(super) output: Vec<u8>,
    position: usize,
    /// A blocked `getMore`: its request ID and its deadline.
    waiting: Option<(i32, Duration)>,
}

impl Origin {
    pub(super) fn new() -> Self {
        let history = std::array::from_fn(|_| vec![(Duration::ZERO, 0)]);
        Self { history, writes: Vec::new(), majority: 0, forgotten: 0, process: 1 }
    }

    pub(super) fn write(&mut self, key: usize, now: Duration) {
        self.writes.push(key);
        let value = u32::try_from(self.writes.len()).expect("few writes");
        self.history[key].push((now, value));
    }

    pub(super) fn value(&self, key: usize) -> u32 {
        self.history[key].last().expect("never empty").1
    }

    /// When `value` of `key` was overwritten, if it was.
    pub(super) fn ended(&self, key: usize, value: u32) -> Option<Duration> {
        let history = &self.history[key];
        let at = history.iter().position(|(_, written)| *written == value).expect("was written");
        history.get(at + 1).map(|(ended, _)| *ended)
    }

    /// Number of writes that are not majority-committed yet.
    pub(super) fn lag(&self) -> usize {
        self.writes.len() - self.majority
    }

    pub(super) fn replicate(&mut self, writes: usize) {
        self.majority += writes;
    }

    pub(super) fn forget(&mut self) {
        self.forgotten = self.majority;
    }

    pub(super) fn restart(&mut self) {
        self.process += 1;
    }

    /// Takes the next step that is possible on `link`.
    pub(super) fn serve(&self, link: &mut Link, now: Duration) {
        if let Some((id, until)) = link.waiting {
            if let Some(reply) = self.batch(link, now >= until) {
                link.waiting = None;
                message::write(&mut link.output, 1, id, &reply);
            }
            return;
        }
        let Some((frame, length)) =
            frame::decode(&link.input, &Limits::default()).expect("a frame")
        else {
            return;
        };
        let request = Request::parse(&frame).expect("well-formed").expect("a command");
        let id = request.header.request_id;
        let reply = match request.name {
            "hello" => {
                let reached = self.writes.len() as u64;
                Some(document(|hello| greeting(hello, self.process, reached)))
            }
            "aggregate" => {
                link.position = resumed(&request).unwrap_or(self.majority);
                Some(match link.position < self.forgotten {
                    true => history_lost(),
                    false => cursor("firstBatch", &[], &token(link.position as u64)),
                })
            }
            "getMore" => {
                let patience = request.body.element("maxTimeMS").expect("well-formed");
                let patience = patience.and_then(|time| time.integer()).expect("a time");
                link.waiting = Some((id, now + Duration::from_millis(patience as u64)));
                None
            }
            other => panic!("a feed does not send {other}"),
        };
        link.input.drain(..length);
        reply.into_iter().for_each(|reply| message::write(&mut link.output, 1, id, &reply));
    }

    /// Up to three events, or an empty batch after the wait.
    fn batch(&self, link: &mut Link, waited: bool) -> Option<Vec<u8>> {
        if link.position < self.forgotten {
            return Some(history_lost());
        }
        let end = self.majority.min(link.position + 3);
        if end == link.position {
            let reply = cursor("nextBatch", &[], &token(end as u64));
            return waited.then_some(reply);
        }
        let events: Vec<_> = (link.position..end)
            .map(|at| change("update", self.writes[at] as i32, (at as u64 + 1, 0)))
            .collect();
        link.position = end;
        Some(cursor("nextBatch", &events, &event_token(end as u64, 0)))
    }
}

/// The position at which the request resumes the stream.
fn resumed(request: &Request<'_>) -> Option<usize> {
    let stage = request.documents("pipeline").next()?.ok()?;
    let stream = stage.element("$changeStream").ok()??.document()?;
    let token = stream.element("resumeAfter").ok()??.document()?;
    let data = token.element("_data").ok()??.str()?;
    usize::from_str_radix(&data[2..18], 16).ok()
}

fn cursor(name: &str, events: &[Vec<u8>], token: &[u8]) -> Vec<u8> {
    document(|reply| batch(reply, name, events, token))
}

fn history_lost() -> Vec<u8> {
    document(|reply| failure(reply, 286, "history lost"))
}
