//! Moves that the engine makes by itself in one step, or not at all: `CLUSTER MIGRATESLOTS` of
//! Valkey 9.

use wire::resp::Reply;

use crate::{
    query::{Query, list, words},
    scripts::{Call, MIGRATE_SLOT},
    slot::Slot,
};

/// A migration that a node lists (`CLUSTER GETSLOTMIGRATIONS`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Job {
    /// The same at source and target.
    pub name: String,
    /// `EXPORT` at the source.
    operation: String,
    slot_ranges: String,
    state: String,
    /// Why it failed; the target knows more.
    pub message: String,
}

/// The progress of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Not over.
    Runs,
    /// The slot is at the target.
    Moved,
    /// The slot is at the source.
    Failed,
}

impl Job {
    /// Whether it moves this slot, and no other, away.
    #[must_use]
    pub fn exports(&self, slot: Slot) -> bool {
        let number = slot.number();
        let ranges = [format!("{number}-{number}"), number.to_string()];
        self.operation == "EXPORT" && ranges.contains(&self.slot_ranges)
    }

    /// Returns its progress.
    #[must_use]
    pub fn progress(&self) -> Progress {
        match self.state.as_str() {
            "success" => Progress::Moved,
            "failed" | "cancelled" => Progress::Failed,
            _ => Progress::Runs,
        }
    }
}

/// Migrations that a node lists. A node without slot migration rejects the command.
#[must_use]
pub fn jobs() -> Query<'static, Vec<Job>> {
    Query::new(words!["CLUSTER", "GETSLOTMIGRATIONS"], |reply| {
        Ok(list(reply)?.iter().map(job).collect())
    })
}

/// Starts the move of a slot to the node with this id; or returns the error of the source.
#[must_use]
pub fn migrate(slot: Slot, target: &str) -> Call<'_, Result<(), String>> {
    Call::new(MIGRATE_SLOT, words![slot, target], |reply| match reply {
        Reply::Error(why) => Ok(Err(why)),
        _ => Ok(Ok(())),
    })
}

/// Names and values of fields in turn.
fn job(reply: &Reply) -> Job {
    let mut job = Job::default();
    for field in reply.list().chunks_exact(2) {
        let [name, value] = field else { continue };
        let place = match name.text().as_deref() {
            Some("name") => &mut job.name,
            Some("operation") => &mut job.operation,
            Some("slot_ranges") => &mut job.slot_ranges,
            Some("state") => &mut job.state,
            Some("message") => &mut job.message,
            _ => continue,
        };
        *place = value.text().unwrap_or_default();
    }
    job
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_read_whatever_other_fields_there_are() {
        let text = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
        let fields = |state: &str| {
            let fields = [
                text("name"),
                text("aa"),
                text("operation"),
                text("EXPORT"),
                text("cow_size"),
                Reply::Integer(7),
                text("slot_ranges"),
                text("5-5"),
                text("state"),
                text(state),
                text("message"),
                text(""),
            ];
            Reply::List(fields.to_vec())
        };
        let read = |state| jobs().read(Reply::List(vec![fields(state)])).expect("jobs").remove(0);
        let job = read("waiting-to-pause");
        assert_eq!((job.name.as_str(), job.progress()), ("aa", Progress::Runs));
        let slot = |number| Slot::new(number).expect("a slot");
        assert!(job.exports(slot(5)) && !job.exports(slot(6)));
        assert_eq!(read("success").progress(), Progress::Moved);
        assert_eq!(read("cancelled").progress(), Progress::Failed);
    }
}
