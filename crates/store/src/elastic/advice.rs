//! What memory sizes would do: a curve of hit ratios.

use super::reuse::{bucket, bucket_bytes};

/// A size is sufficient if more memory would increase the hit ratio by less than this.
const ENOUGH: f64 = 0.001;
/// Buckets below a corner of the hull for which it has points: six doublings.
const BUCKETS_BELOW: usize = 48;

/// One point of the curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The memory budget, in bytes.
    pub memory_bytes: usize,
    /// Share of lookups that this budget answers from memory, of lookups that find an entry.
    pub hit_ratio: f64,
}

/// Effect of each memory size, as measured recently.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Advice {
    /// Bytes needed regardless of what is kept: buffers and the storage table.
    pub fixed_bytes: usize,
    /// The curve, by ascending size.
    pub points: Vec<Point>,
    /// Number of lookups on which the curve is based.
    pub lookups_sampled: u64,
}

impl Advice {
    /// The hit ratio with that budget.
    pub fn hit_ratio(&self, memory_bytes: usize) -> f64 {
        let above = self.points.partition_point(|point| point.memory_bytes <= memory_bytes);
        let Some(before) = above.checked_sub(1).map(|last| self.points[last]) else { return 0.0 };
        let Some(after) = self.points.get(above) else { return before.hit_ratio };
        let part = (memory_bytes - before.memory_bytes) as f64
            / (after.memory_bytes - before.memory_bytes) as f64;
        before.hit_ratio + part * (after.hit_ratio - before.hit_ratio)
    }

    /// The size above which more memory has no effect: it would answer less than one more lookup in
    /// a thousand.
    pub fn enough_bytes(&self) -> usize {
        let best = self.points.last().map_or(0.0, |point| point.hit_ratio);
        self.smallest_for(best - ENOUGH).unwrap_or(self.fixed_bytes)
    }

    /// The smallest size with at least this hit ratio; `None` if no size has it.
    pub fn smallest_for(&self, hit_ratio: f64) -> Option<usize> {
        self.points
            .iter()
            .find(|point| point.hit_ratio >= hit_ratio)
            .map(|point| point.memory_bytes)
    }

    /// The mean latency of a lookup with that budget, from the latencies of hits and misses, in any
    /// unit.
    pub fn mean_latency(&self, memory_bytes: usize, from_memory: f64, from_disk: f64) -> f64 {
        let hits = self.hit_ratio(memory_bytes);
        hits * from_memory + (1.0 - hits) * from_disk
    }

    /// The convex hull of this curve: what [`Replacement::Hull`](crate::Replacement::Hull) answers,
    /// by keeping a part of what a step of the curve needs as a whole. It has points between the
    /// corners too.
    #[must_use]
    pub fn hull(&self) -> Self {
        let mut corners = vec![Point { memory_bytes: self.fixed_bytes, hit_ratio: 0.0 }];
        for &point in &self.points {
            while let [.., before, last] = corners[..]
                && slope(before, point) >= slope(before, last)
            {
                corners.pop();
            }
            corners.push(point);
        }
        let mut points = Vec::new();
        for pair in corners.windows(2) {
            let [from, to] = [pair[0], pair[1]];
            let end = bucket((to.memory_bytes - self.fixed_bytes) as f64);
            let sizes = (end.saturating_sub(BUCKETS_BELOW)..end)
                .map(|bucket| self.fixed_bytes + bucket_bytes(bucket) as usize)
                .filter(|size| (from.memory_bytes + 1..to.memory_bytes).contains(size));
            points.extend(sizes.map(|memory_bytes| {
                let more = (memory_bytes - from.memory_bytes) as f64;
                Point { memory_bytes, hit_ratio: from.hit_ratio + more * slope(from, to) }
            }));
            points.push(to);
        }
        Self { points, ..self.clone() }
    }

    /// Merges the curves of shards among which memory is divided evenly.
    pub fn merge(shards: &[Self]) -> Self {
        let count = shards.len().max(1);
        let mut sizes: Vec<usize> =
            shards.iter().flat_map(|shard| shard.points.iter().map(|p| p.memory_bytes)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let total: u64 = shards.iter().map(|shard| shard.lookups_sampled).sum();
        let point = |size: usize| {
            let weighted = |shard: &Self| shard.hit_ratio(size) * shard.lookups_sampled as f64;
            let hit_ratio = shards.iter().map(weighted).sum::<f64>() / total.max(1) as f64;
            Point { memory_bytes: size * count, hit_ratio }
        };
        Self {
            fixed_bytes: shards.iter().map(|shard| shard.fixed_bytes).sum(),
            points: sizes.into_iter().map(point).collect(),
            lookups_sampled: total,
        }
    }
}

/// Hit ratio for each byte between two points.
fn slope(from: Point, to: Point) -> f64 {
    (to.hit_ratio - from.hit_ratio) / (to.memory_bytes - from.memory_bytes).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(points: &[(usize, f64)]) -> Advice {
        let point = |&(memory_bytes, hit_ratio): &_| Point { memory_bytes, hit_ratio };
        let points = points.iter().map(point).collect();
        Advice { fixed_bytes: 1000, points, lookups_sampled: 10 }
    }

    #[test]
    fn the_hull_bridges_steps_and_leaves_the_rest() {
        let step = [(2000, 0.2), (3000, 0.21), (9000, 0.3), (11_000, 0.9), (12_000, 0.92)];
        let hull = advice(&step).hull();
        let bridged = |size: usize| 0.2 + (size - 2000) as f64 * 0.7 / 9000.0;
        let expected = [(1500, 0.1), (2000, 0.2), (7000, bridged(7000)), (11_000, 0.9)];
        for (size, ratio) in expected.into_iter().chain([(11_500, 0.91), (20_000, 0.92)]) {
            assert!((hull.hit_ratio(size) - ratio).abs() < 1e-6, "{size}: {hull:?}");
        }
        assert!(hull.points.is_sorted_by(|one, two| one.memory_bytes < two.memory_bytes));
        assert!(hull.points.is_sorted_by(|one, two| one.hit_ratio <= two.hit_ratio), "{hull:?}");
        let bytes = hull.smallest_for(0.5).expect("there is such a size");
        assert!((5000..7000).contains(&bytes), "{bytes}");
        assert!((hull.hull().hit_ratio(7000) - bridged(7000)).abs() < 1e-6, "its own hull");
        assert_eq!(advice(&[]).hull(), advice(&[]));
    }
}
