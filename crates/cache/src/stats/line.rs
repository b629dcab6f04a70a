//! Counters as one line of text.

use std::sync::Arc;

use telemetry::Counter;

use super::{NotFilled, Stats, WhyNot};

/// The counters of all workers as `name=value`, those of reasons only if they are not zero; `more`
/// words of the same form follow the reasons for misses.
#[must_use]
pub fn line(
    stats: &[Arc<Stats>],
    memory: &store::Stats,
    connections: usize,
    more: impl Iterator<Item = String>,
) -> String {
    let sum = |count: fn(&Stats) -> u64| stats.iter().map(|stats| count(stats)).sum::<u64>();
    let (hits, misses) = (sum(|stats| stats.hits.value()), sum(Stats::misses));
    let ratio = hits as f64 / (hits + misses).max(1) as f64;
    let (items, bytes) = (memory.items, memory.accounted_bytes);
    let mut words = vec![format!(
        "hits={hits} misses={misses} hit-ratio={ratio:.3} items={items} bytes={bytes} \
         connections={connections}"
    )];
    let all = |of: &dyn Fn(&Stats) -> &Counter| -> u64 {
        stats.iter().map(|stats| of(stats).value()).sum()
    };
    let counted = |name: String, count: u64| (count > 0).then(|| format!("{name}={count}"));
    words.extend(WhyNot::ALL.into_iter().filter_map(|reason| {
        let count = all(&|stats| &stats.why_not[reason as usize]);
        counted(format!("why-not.{}", reason.name()), count)
    }));
    words.extend(more);
    words.extend(NotFilled::ALL.into_iter().filter_map(|reason| {
        let count = all(&|stats| &stats.not_filled[reason as usize]);
        counted(format!("not-filled.{}", reason.name()), count)
    }));
    let others = [
        ("verified", all(&|stats| &stats.verified)),
        ("differed", all(&|stats| &stats.differed)),
        ("writes-lost", all(&|stats| &stats.writes_lost)),
        ("refused-frames", all(&|stats| &stats.refused_frames)),
        ("refused-logins", all(&|stats| &stats.refused_logins)),
    ];
    words.extend(others.into_iter().filter_map(|(name, count)| counted(name.to_owned(), count)));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_sums_and_the_reasons_that_occurred() {
        let stats: Vec<Arc<Stats>> = vec![Arc::default(), Arc::default()];
        stats[0].hits.add(6);
        stats[1].hits.add(3);
        stats[1].why_not(WhyNot::NotStored);
        stats[0].not_filled(NotFilled::Expiry);
        stats[0].differed.add(2);
        let more = ["quarantined-by.set@10.0.0.1:1=1".to_owned()];
        assert_eq!(
            line(&stats, &store::Stats::default(), 4, more.into_iter()),
            "hits=9 misses=1 hit-ratio=0.900 items=0 bytes=0 connections=4 why-not.not-stored=1 \
             quarantined-by.set@10.0.0.1:1=1 not-filled.expiry=1 differed=2"
        );
    }
}
