//! Time up to which a stream is known to have reported everything.

use std::{collections::VecDeque, time::Duration};

use wire::mongo::{
    bson::{Document, Element},
    response::Response,
};

use super::refused;

/// Maximum number of marks that wait for the stream; if it is reached, the feed is far too late
/// anyway.
const MARKS_MAX: usize = 64;

/// Positions of the origin at times of the cache's clock, and the position of its stream.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// The origin's time, and when it was asked for, in order.
    waiting: VecDeque<(u64, Duration)>,
    /// The origin's time up to which the stream has reported everything.
    position: Option<u64>,
    confirmed_at: Option<Duration>,
}

impl Marks {
    /// Whether another mark may be added.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < MARKS_MAX
    }

    /// Notes that the position of the origin, requested at `asked_at`, is `time`.
    pub(super) fn note(&mut self, time: u64, asked_at: Duration) {
        self.waiting.push_back((time, asked_at));
        self.settle();
    }

    /// The stream has reported everything up to `position`.
    pub(super) fn reach(&mut self, position: u64) {
        self.position = self.position.max(Some(position));
        self.settle();
    }

    /// Everything that was written at the origin before this time has been reported.
    pub(super) fn confirmed_at(&self) -> Option<Duration> {
        self.confirmed_at
    }

    fn settle(&mut self) {
        while let Some(&(time, asked_at)) = self.waiting.front()
            && Some(time) <= self.position
        {
            self.confirmed_at = self.confirmed_at.max(Some(asked_at));
            self.waiting.pop_front();
        }
    }
}

/// The position of the origin in its reply to `hello`: its last write or, for mongos, the time that
/// it knows of its shards.
pub(super) fn reached(hello: &Response<'_>, sharded: bool) -> wire::Result<u64> {
    let time = if sharded {
        within(hello.cluster_time, "clusterTime")?
    } else {
        let last = within(Some(hello.body), "lastWrite")?.and_then(|last| last.document());
        let last = within(last, "opTime")?.and_then(|time| time.document());
        within(last, "ts")?
    };
    time.and_then(|time| time.timestamp()).ok_or_else(|| {
        refused("`lastWrite.opTime` (of mongos `$clusterTime`) in the reply to hello", "none")
    })
}

pub(super) fn within<'a>(
    document: Option<Document<'a>>,
    name: &str,
) -> wire::Result<Option<Element<'a>>> {
    Ok(document.map(|document| document.element(name)).transpose()?.flatten())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Marks;

    #[test]
    fn a_mark_is_confirmed_once_the_stream_has_reached_it() {
        let mut marks = Marks::default();
        let at = Duration::from_secs;
        marks.note(10, at(1));
        assert_eq!(marks.confirmed_at(), None);
        marks.reach(9);
        assert_eq!(marks.confirmed_at(), None);
        marks.note(20, at(2));
        marks.reach(10);
        assert_eq!(marks.confirmed_at(), Some(at(1)));
        marks.reach(30);
        assert_eq!(marks.confirmed_at(), Some(at(2)));
        marks.note(30, at(3));
        assert_eq!(marks.confirmed_at(), Some(at(3)), "the stream was there before");
    }
}
