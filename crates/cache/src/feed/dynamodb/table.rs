//! One table: the shards of its stream, how far each was read, and what is closed until all were.

use std::{collections::BTreeMap, time::Duration};

use smallvec::SmallVec;
use wire::dynamodb::{
    streams::{Call, Description, RECORDS_MAX, Records},
    value::write_key,
};

use super::{
    REFRESH, Step,
    shard::{Listed, Paging, Position, Reading, Shard},
    told::NO_STREAM,
};
use crate::{
    feed::dropped,
    filter::dynamodb::Settings,
    key::{Key, Namespace, Scope},
    lease::Outcome,
    storage::{Storage, Write},
};

/// Maximum number of shards of a stream, with those of the last 24 hours.
const SHARDS_MAX: usize = 1_024;
/// Shortest time between two reads of a shard: DynamoDB allows five a second.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(200);
/// A reply of at least this length may not have all records: DynamoDB ends it after 1 MB.
const WHOLE_BYTES_MAX: usize = 512 << 10;

/// A table whose stream is read.
#[derive(Debug)]
pub(super) struct Table {
    name: String,
    /// The stream.
    arn: String,
    namespace: Namespace,
    /// Items and pages, closed while the feed is not confirmed.
    closed: Vec<Write>,
    /// Something may not have been reported: all entries are dropped before the next is served.
    missed: bool,
    /// The feed is not established without it.
    expected: bool,
    /// All of them are known, as far as they were described.
    described: bool,
    shards: BTreeMap<String, Shard>,
    description: Paging,
    /// When the stream was last described as enabled on the present connection.
    described_at: Option<Duration>,
    /// All that was written before this time was reported.
    confirmed_at: Option<Duration>,
}

impl Table {
    /// A table of which nothing is served until its stream was read.
    pub(super) fn new<S: Storage>(
        (name, arn): (&str, &str),
        expected: bool,
        settings: &Settings,
        storage: &mut S,
    ) -> Self {
        let mut table = Self {
            name: name.to_owned(),
            arn: arn.to_owned(),
            namespace: settings.table(name.as_bytes()),
            closed: Vec::new(),
            missed: true,
            expected,
            described: false,
            shards: BTreeMap::new(),
            description: Paging::default(),
            described_at: None,
            confirmed_at: None,
        };
        table.close(settings, storage);
        table
    }

    pub(super) fn arn(&self) -> &str {
        &self.arn
    }

    pub(super) fn is_open(&self) -> bool {
        self.closed.is_empty()
    }

    /// Whether the feed is not whole without it.
    pub(super) fn is_awaited(&self) -> bool {
        self.expected && !self.is_open()
    }

    /// When it must be closed unless more is read: its shards, its description, or the list of
    /// streams, which was whole at `listed_at`.
    pub(super) fn closes_at(&self, listed_at: Duration, silence_max: Duration) -> Option<Duration> {
        let known_at = self.described_at?.min(listed_at) + REFRESH;
        Some(self.confirmed_at?.min(known_at) + silence_max)
    }

    /// The next call, and when it is due.
    pub(super) fn next(&self) -> (Duration, Step) {
        let table = self.name.clone();
        let first = (self.description.due, Step::Describe { table });
        let reads = self.shards.iter().filter_map(|(shard, state)| match state {
            Shard::Read(reading) => Some((reading, shard)),
            Shard::Ended { .. } | Shard::Done => None,
        });
        let Some((reading, shard)) = reads.min_by_key(|(reading, _)| reading.due) else {
            return first;
        };
        if first.0 <= reading.due {
            return first;
        }
        let (table, shard) = (self.name.clone(), shard.clone());
        let step = match reading.iterator {
            None => Step::Iterate { table, shard },
            Some(_) => Step::Read { table, shard },
        };
        (reading.due, step)
    }

    /// What is asked of the stream as a whole.
    pub(super) fn describe(&mut self, now: Duration) -> Call<'_> {
        let Self { description, arn, .. } = self;
        if description.after.is_none() {
            *description = Paging { due: description.due, began_at: now, ..Paging::default() };
        }
        Call::DescribeStream { arn, after: description.after.as_deref() }
    }

    /// What is asked of a shard; none if it is not read any more.
    pub(super) fn call(&self, shard: &str) -> Option<Call<'_>> {
        let (shard, state) = self.shards.get_key_value(shard)?;
        let Shard::Read(Reading { iterator, position, .. }) = state else { return None };
        Some(match (iterator, position) {
            (Some(iterator), _) => Call::GetRecords { iterator },
            (None, position) => {
                Call::GetShardIterator { arn: &self.arn, shard, start: position.start() }
            }
        })
    }

    fn reading(&mut self, shard: &str) -> Option<&mut Reading> {
        match self.shards.get_mut(shard) {
            Some(Shard::Read(reading)) => Some(reading),
            _ => None,
        }
    }

    /// A page of the description has arrived.
    ///
    /// # Errors
    /// Why the stream cannot be read.
    pub(super) fn described(
        &mut self,
        page: &Description<'_>,
        (interval, patience): (Duration, Duration),
        now: Duration,
    ) -> Result<(), &'static str> {
        match &*page.stream_status.0 {
            "ENABLED" => {}
            "ENABLING" => {
                self.description = Paging { due: now + interval, ..Paging::default() };
                return Ok(());
            }
            _ => return Err(NO_STREAM),
        }
        let listed = page.shards.iter().map(|shard| {
            let parent = shard.parent_shard_id.as_ref().map(|parent| parent.0.to_string());
            (shard.shard_id.0.to_string(), Listed { parent, is_closed: shard.is_closed() })
        });
        self.description.listed.extend(listed);
        self.description.pages += 1;
        if self.description.listed.len().max(self.description.pages) > SHARDS_MAX {
            return Err("its stream has more than 1024 shards");
        }
        if let Some(last) = &page.last_evaluated_shard_id {
            self.description.after = Some(last.0.to_string());
            return Ok(());
        }
        let Paging { began_at, listed, .. } = std::mem::take(&mut self.description);
        self.described_at = Some(now);
        self.take_shards(&listed, began_at);
        let is_waiting = self.settle_ends(&listed, (began_at, patience), now);
        let is_empty = !self.shards.values().any(|shard| matches!(shard, Shard::Read(_)));
        self.description.due = now + if is_waiting || is_empty { interval } else { REFRESH };
        Ok(())
    }

    /// Reads shards that were not known: all of those that are new, from their beginning, and at
    /// first those that are open, from now on.
    fn take_shards(&mut self, listed: &BTreeMap<String, Listed>, began_at: Duration) {
        for (name, shard) in listed {
            let state = || match (self.described, shard.is_closed) {
                (true, _) => Reading::from(Position::TrimHorizon),
                (false, false) => Reading::from(Position::Latest),
                (false, true) => Shard::Ended { at: began_at, was_read: false },
            };
            self.shards.entry(name.clone()).or_insert_with(state);
        }
        // Without any shard, those that follow are not read from their beginning.
        self.described |= !listed.is_empty();
        self.shards
            .retain(|name, state| listed.contains_key(name) || !matches!(state, Shard::Done));
    }

    /// Finds the shards that continue those that have ended. Returns whether some are missing.
    fn settle_ends(
        &mut self,
        listed: &BTreeMap<String, Listed>,
        (began_at, patience): (Duration, Duration),
        now: Duration,
    ) -> bool {
        let (mut is_waiting, mut is_lost) = (false, false);
        for (name, state) in &mut self.shards {
            let Shard::Ended { at, was_read } = *state else { continue };
            let is_over = began_at >= at && now >= at + patience;
            if listed.values().any(|shard| shard.parent.as_ref() == Some(name)) {
                *state = Shard::Done;
            } else if is_over && !was_read {
                // It has ended before the feed began, which reads all others.
                *state = Shard::Done;
            } else {
                (is_waiting, is_lost) = (true, is_lost || is_over);
            }
        }
        if is_lost {
            self.restart(now);
        }
        is_waiting
    }

    /// An iterator of a shard has arrived.
    pub(super) fn iterated(&mut self, shard: &str, iterator: String, now: Duration) {
        if let Some(reading) = self.reading(shard) {
            (reading.iterator, reading.due) = (Some(iterator), now);
        }
    }

    /// Records of a shard have arrived, requested at `asked_at`, in a reply with this body.
    pub(super) fn read<S: Storage>(
        &mut self,
        shard: &str,
        body: &[u8],
        interval: Duration,
        (settings, storage): (&Settings, &mut S),
        (asked_at, now): (Duration, Duration),
    ) {
        let Some(records) = Records::parse(body) else {
            // Something was written that is not understood.
            return self.restart(now);
        };
        self.drop_changes(&records, (settings, storage), now);
        let Some(reading) = self.reading(shard) else { return };
        if let Some(last) = records.changes().last() {
            reading.position = Position::After(last.sequence_number.0.to_string());
        }
        let is_tip = records.count() < RECORDS_MAX && body.len() < WHOLE_BYTES_MAX;
        reading.due = asked_at + if is_tip { interval } else { PAUSE_MIN };
        match &records.next_shard_iterator {
            Some(next) => {
                reading.iterator = Some(next.0.to_string());
                if is_tip {
                    reading.tip_at = Some(asked_at);
                    self.confirm();
                }
            }
            None => {
                self.shards.insert(shard.to_owned(), Shard::Ended { at: now, was_read: true });
                self.description.due = now;
            }
        }
    }

    fn drop_changes<S: Storage>(
        &self,
        records: &Records<'_>,
        (settings, storage): (&Settings, &mut S),
        now: Duration,
    ) {
        let mut keys = Vec::new();
        let places: Vec<_> = records
            .changes()
            .map(|change| {
                let start = keys.len();
                write_key(&self.name, &change.keys, &mut keys).then_some(start..keys.len())
            })
            .collect();
        let mut scopes: SmallVec<[Scope<'_>; 1]> = SmallVec::new();
        for place in places {
            let key = place.and_then(|place| keys.get(place));
            scopes.push(match key {
                Some(key) => Scope::Key(Key::new(self.namespace, key)),
                None => Scope::Collection(self.namespace),
            });
        }
        // Before the entries are dropped: an eventually consistent read that is sent after this may
        // return what was true before, and is not stored.
        settings.write_to(&mut scopes, now);
        scopes.into_iter().for_each(|scope| dropped(scope, storage));
    }

    /// Notes up to when all of its shards were read.
    fn confirm(&mut self) {
        let mut oldest = None;
        for state in self.shards.values() {
            match state {
                Shard::Done => {}
                Shard::Ended { .. } | Shard::Read(Reading { tip_at: None, .. }) => return,
                Shard::Read(Reading { tip_at: Some(at), .. }) => {
                    oldest = Some(oldest.map_or(*at, |oldest: Duration| oldest.min(*at)));
                }
            }
        }
        self.confirmed_at = self.confirmed_at.max(oldest);
    }

    /// The iterator of a shard has expired.
    pub(super) fn expired(&mut self, shard: &str, now: Duration) {
        match self.reading(shard) {
            Some(reading) if matches!(reading.position, Position::After(_)) => {
                (reading.iterator, reading.due) = (None, now);
            }
            // Records that were lost since would not be noticed.
            Some(_) => self.restart(now),
            None => {}
        }
    }

    /// Asks again later.
    pub(super) fn postpone(&mut self, shard: Option<&str>, due: Duration) {
        match shard {
            None => self.description.due = due,
            Some(shard) => {
                if let Some(reading) = self.reading(shard) {
                    reading.due = due;
                }
            }
        }
    }

    /// Records were lost: reads from now on, and drops all entries once that has begun.
    pub(super) fn restart(&mut self, now: Duration) {
        self.shards.clear();
        self.description = Paging { due: now + PAUSE_MIN, ..Paging::default() };
        (self.described, self.missed, self.confirmed_at) = (false, true, None);
    }

    /// The connection is lost. What was read is known, and reading goes on from there.
    pub(super) fn disconnected<S: Storage>(&mut self, settings: &Settings, storage: &mut S) {
        self.description = Paging::default();
        (self.described_at, self.confirmed_at) = (None, None);
        for state in self.shards.values_mut() {
            if let Shard::Read(reading) = state {
                (reading.due, reading.tip_at) = (Duration::ZERO, None);
            }
        }
        self.close(settings, storage);
    }

    /// Closes it, as by a write that is not answered.
    pub(super) fn close<S: Storage>(&mut self, settings: &Settings, storage: &mut S) {
        if self.is_open() {
            let mut scopes = SmallVec::from_iter([Scope::Collection(self.namespace)]);
            settings.add_pages(&mut scopes);
            self.closed =
                scopes.into_iter().map(|scope| storage.write_sent(scope.into())).collect();
        }
    }

    /// Opens or closes it, by the age of what is known. Returns whether it was opened.
    pub(super) fn judge<S: Storage>(
        &mut self,
        (settings, storage): (&Settings, &mut S),
        (listed_at, silence_max): (Option<Duration>, Duration),
        now: Duration,
    ) -> bool {
        let closes_at = listed_at.and_then(|listed_at| self.closes_at(listed_at, silence_max));
        if closes_at.is_none_or(|at| now >= at) {
            self.close(settings, storage);
            return false;
        }
        if self.is_open() {
            return false;
        }
        // Earlier entries are valid if everything since has been reported.
        let outcome = if self.missed { Outcome::Applied } else { Outcome::Refused };
        self.settle(outcome, (settings, storage), now);
        (self.missed, self.expected) = (false, true);
        true
    }

    /// Drops its entries. Its stream is read no more.
    pub(super) fn leave<S: Storage>(mut self, settings: &Settings, storage: &mut S, now: Duration) {
        self.close(settings, storage);
        self.settle(Outcome::Applied, (settings, storage), now);
    }

    fn settle<S: Storage>(
        &mut self,
        outcome: Outcome,
        (settings, storage): (&Settings, &mut S),
        now: Duration,
    ) {
        if outcome == Outcome::Applied {
            // Replies may be of the time before.
            let mut scopes = SmallVec::from_iter([Scope::Collection(self.namespace)]);
            settings.write_to(&mut scopes, now);
        }
        for write in self.closed.drain(..) {
            storage.write_settled(write, outcome);
        }
    }
}
