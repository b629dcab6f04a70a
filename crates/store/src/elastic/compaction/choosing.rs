//! Selects the segment to empty, and the time.

use std::cmp::Reverse;

use crate::elastic::log::{Log, Segment};
use crate::elastic::segment::Trailer;

/// Share by which files may exceed live data, in hundredths, before a segment is emptied. The
/// larger it is, the more of that segment is dead and the less is copied.
const SLACK: u64 = 40;
/// Share from which writers wait for compaction, which needs room for the records that it moves
/// before it removes their segment.
const SLACK_MAX: u64 = 46;
/// Limits for a small store, in which a few segments, including spares, exceed the limits above:
/// this share, in hundredths, plus a number of segments. Most segments of such a store are dead
/// before they are selected.
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

/// The segment with the largest dead share, in thousandths.
pub(super) fn victim(log: &Log) -> Option<(u64, usize, Trailer)> {
    // On a full disk a compaction must be able to finish with the room available, or the disk stays
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
        // Of completely dead segments the oldest, because no older segment needs its kills.
        .max_by_key(|(dead, _, trailer)| (*dead, Reverse(trailer.number)))
}

/// True if the files exceed the slack at which writers have to wait.
pub(super) fn has_too_much_slack(log: &Log) -> bool {
    // Compaction cannot free what a backup still copies.
    let bytes = log.file_bytes() - log.segments.pinned_bytes();
    passes(log, bytes, SLACK_MAX, SEGMENTS_SLACK_MAX)
}
