//! The list of streams: the newest of each table that may be stored.

use std::{collections::BTreeMap, time::Duration};

use wire::dynamodb::{
    streams::{Call, Streams},
    value::is_table,
};

use super::{REFRESH, refused};
use crate::{Error, rules::Rules};

/// Maximum number of tables whose streams are read; further ones are not cached.
pub(super) const TABLES_MAX: usize = 256;
/// Maximum number of pages of the list.
const PAGES_MAX: usize = 1_024;

/// Label and name of the newest stream of each table.
pub(super) type Found = BTreeMap<String, (String, String)>;

/// A list in several pages.
#[derive(Debug, Default)]
pub(super) struct List {
    due: Duration,
    /// The last stream of the page before.
    after: Option<String>,
    pages: usize,
    found: Found,
    /// When it was whole last on the present connection.
    whole_at: Option<Duration>,
}

impl List {
    pub(super) fn due(&self) -> Duration {
        self.due
    }

    pub(super) fn whole_at(&self) -> Option<Duration> {
        self.whole_at
    }

    pub(super) fn call(&self) -> Call<'_> {
        Call::ListStreams { after: self.after.as_deref() }
    }

    /// Asks again at another time.
    pub(super) fn postpone(&mut self, due: Duration) {
        self.due = due;
    }

    /// Takes a page. Returns whether it was the last.
    pub(super) fn take(
        &mut self,
        page: &Streams<'_>,
        rules: &Rules,
        now: Duration,
    ) -> Result<bool, Error> {
        for stream in &page.streams {
            let (name, label) = (&*stream.table_name.0, &*stream.stream_label.0);
            let known = self.found.get(name);
            if !is_table(name)
                || !rules.include(name.as_bytes())
                || known.is_some_and(|(newer, _)| &**newer >= label)
                || known.is_none() && self.found.len() >= TABLES_MAX
            {
                continue;
            }
            let stream = (label.to_owned(), stream.stream_arn.0.to_string());
            self.found.insert(name.to_owned(), stream);
        }
        self.pages += 1;
        if self.pages > PAGES_MAX {
            return Err(refused("a list of at most 1024 pages of streams", "more"));
        }
        let last = page.last_evaluated_stream_arn.as_ref();
        self.after = last.map(|arn| arn.0.to_string());
        self.due = now;
        Ok(last.is_none())
    }

    /// What the list has; the next one begins empty.
    pub(super) fn found(&mut self) -> Found {
        self.pages = 0;
        std::mem::take(&mut self.found)
    }

    /// The list is whole. Returns whether it is the first.
    pub(super) fn complete(&mut self, now: Duration) -> bool {
        self.due = now + REFRESH;
        self.whole_at.replace(now).is_none()
    }
}
