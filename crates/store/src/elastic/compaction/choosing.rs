//! Which segment is emptied, and when.

use std::cmp::Reverse;

use crate::elastic::log::{Log, Segment};
use crate::elastic::segment::Trailer;

/// Files may be this much more than live data, in hundredths, before a segment is emptied: the more
/// of it is dead then, the less is copied.
const SLACK: u64 = 40;
/// From this much on writers wait for compaction, which needs room for the records that it moves
/// before it removes their segment.
const SLACK_MAX: u64 = 46;
/// Limits for a small store, where a few segments, spares included, exceed the limits above: this
/// much, in hundredths, and a number of segments besides. Most segments of such a store are dead
/// before they are chosen.
const SLACK_SMALL: u64 = 15;
const SEGMENTS_SLACK: u64 = 9;
const SEGMENTS_SLACK_MAX: u64 = 11;

/// Whether files of `bytes` bytes exceed the limit on slack.
fn passes(log: &Log, bytes: u64, hundredths: u64, segments: u64) -> bool {
    let live = log.segments.live();
    let small = live / 100 * SLACK_SMALL + segments * log.segment_bytes();
    bytes > live + small.max(live / 100 * hundredths)
}

/// True if the files exceed the slack at which compaction starts. Segments about to be removed do
/// not count.
pub(super) fn has_slack(log: &Log) -> bool {
    let bytes = log.file_bytes() - log.segments.doomed_bytes();
    passes(log, bytes, SLACK, SEGMENTS_SLACK)
}

/// The segment of which most is dead, in thousandths.
pub(super) fn victim(log: &Log) -> Option<(u64, usize, Trailer)> {
    // On a full disk a compaction that is begun must end with the room available, or the disk stays
    // full.
    let can_end = |segment: &Segment| {
        let need = segment.live + segment.kill_bytes() + segment.bytes / 4;
        !log.is_full() || segment.live == 0 || need <= log.room_to_move()
    };
    log.segments
        .iter()
        .filter(|(slot, segment)| !segment.damaged && log.is_on_disk(*slot))
        .filter(|(_, segment)| can_end(segment))
        .filter_map(|(slot, segment)| {
            Some((log.segments.dead_share(segment), slot, segment.trailer?))
        })
        // Of those that are dead the oldest, as nothing older keeps its kills.
        .max_by_key(|(dead, _, trailer)| (*dead, Reverse(trailer.number)))
}

/// True if the files exceed the slack at which writers have to wait.
pub(super) fn has_too_much_slack(log: &Log) -> bool {
    passes(log, log.file_bytes(), SLACK_MAX, SEGMENTS_SLACK_MAX)
}
