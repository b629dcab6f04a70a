//! Outcomes of a successful command.

use std::time::Duration;

use crate::failure::Failure;

/// How a command that did not fail has ended.
///
/// Every command returns one, GET and SET included: it is two words, and copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The answer is written.
    Done,
    /// The answer is written, and every key of every database was dropped.
    Flushed,
    /// The answer is written, and is to be sent after this time.
    Sleep(Duration),
    /// The command is to be given again when everything has been read that it asked of the disk.
    Wait,
    /// The command must be executed again when it is its turn to read from the disk.
    Queue,
    /// The command must be executed again for its next portion, after the commands of other
    /// clients.
    Again,
    /// The command must be executed again a little later: earlier writes are not on disk yet.
    Busy,
}

const _: () = assert!(size_of::<Outcome>() == 16);
// The tag of the result is a field of the failure: an outcome costs a handler no further word.
const _: () = assert!(size_of::<Result<Outcome, Failure>>() == size_of::<Failure>());
