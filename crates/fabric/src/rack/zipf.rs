//! Popularity by rank: rank `k` (from 0) is asked for in proportion to `(k + 1)^-skew`. Powers come
//! from `libm`, so a seed gives the same ranks on any machine.

/// Number of hottest ranks that are drawn exactly; colder ones are drawn by the integral, which
/// differs by less than one part in a hundred thousand there.
const EXACT: u64 = 1 << 16;

/// See the module: a key's rank, drawn.
#[derive(Debug)]
pub struct Zipf {
    /// Sums of weights of the exact ranks.
    sums: Vec<f64>,
    /// Weight of all others.
    tail: f64,
    keys: u64,
    skew: f64,
}

impl Zipf {
    /// A distribution over this many keys; `skew` 0 is uniform.
    #[must_use]
    pub fn new(keys: u64, skew: f64) -> Self {
        let exact = keys.min(EXACT);
        let mut sum = 0.0;
        let sums = (1..=exact)
            .map(|rank| {
                sum += libm::pow(rank as f64, -skew);
                sum
            })
            .collect();
        let tail = if keys > exact {
            integral(keys as f64, skew) - integral(exact as f64, skew)
        } else {
            0.0
        };
        Self { sums, tail, keys, skew }
    }

    /// The rank at this point of the distribution, from 0 to 1.
    #[must_use]
    pub fn rank(&self, point: f64) -> u64 {
        let exact = self.sums[self.sums.len() - 1];
        let weight = point * (exact + self.tail);
        if weight < exact || self.tail == 0.0 {
            return self.sums.partition_point(|sum| *sum <= weight).min(self.sums.len() - 1) as u64;
        }
        let from = integral(self.sums.len() as f64, self.skew);
        let rank = inverse_integral(from + weight - exact, self.skew) as u64;
        rank.clamp(self.sums.len() as u64, self.keys - 1)
    }
}

/// The integral of `x^-skew`, from 0 if that is finite and from 1 if not.
fn integral(to: f64, skew: f64) -> f64 {
    if skew == 1.0 { libm::log(to) } else { libm::pow(to, 1.0 - skew) / (1.0 - skew) }
}

fn inverse_integral(value: f64, skew: f64) -> f64 {
    if skew == 1.0 { libm::exp(value) } else { libm::pow(value * (1.0 - skew), 1.0 / (1.0 - skew)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_their_shares() {
        let zipf = Zipf::new(1_000_000, 0.99);
        let draws = 1_000_000;
        let mut counts = [0_u32; 3];
        let mut cold = 0;
        for draw in 0..draws {
            let rank = zipf.rank((f64::from(draw) + 0.5) / f64::from(draws));
            if let Some(count) = counts.get_mut(rank as usize) {
                *count += 1;
            }
            cold += u32::from(rank >= 500_000);
        }
        let sum: f64 = (1..=1_000_000).map(|rank| f64::powf(f64::from(rank), -0.99)).sum();
        for (rank, count) in (1..).zip(counts) {
            let expected = f64::from(draws) * f64::powf(f64::from(rank), -0.99) / sum;
            assert!((f64::from(count) / expected - 1.0).abs() < 0.01, "rank {rank}: {count}");
        }
        let half: f64 = (500_001..=1_000_000).map(|rank| f64::powf(f64::from(rank), -0.99)).sum();
        assert!((f64::from(cold) / (f64::from(draws) * half / sum) - 1.0).abs() < 0.01);
    }
}
