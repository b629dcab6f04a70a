//! Popularity by rank: rank `k` (from 0) is asked for in proportion to `(k + 1)^-skew`.

/// So many hottest ranks are drawn exactly; colder ones by the integral, which differs by less than
/// one part in a hundred thousand there.
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
                sum += power(rank as f64, -skew);
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
    if skew == 1.0 { logarithm(to) } else { power(to, 1.0 - skew) / (1.0 - skew) }
}

fn inverse_integral(value: f64, skew: f64) -> f64 {
    if skew == 1.0 { exponential(value) } else { power(value * (1.0 - skew), 1.0 / (1.0 - skew)) }
}

// The same bits on every machine, which a library's functions do not promise.

fn power(base: f64, exponent: f64) -> f64 {
    exponential(exponent * logarithm(base))
}

fn logarithm(value: f64) -> f64 {
    let (mut rest, mut halvings) = (value, 0.0);
    while rest > 1.5 {
        rest /= 2.0;
        halvings += 1.0;
    }
    while rest < 0.75 {
        rest *= 2.0;
        halvings -= 1.0;
    }
    let ratio = (rest - 1.0) / (rest + 1.0);
    let square = ratio * ratio;
    let series = (0..20).rev().fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    halvings * std::f64::consts::LN_2 + 2.0 * ratio * series
}

fn exponential(value: f64) -> f64 {
    let whole = (value / std::f64::consts::LN_2).round();
    let rest = value - whole * std::f64::consts::LN_2;
    let series = (1..=20).rev().fold(1.0, |sum, term| 1.0 + rest * sum / f64::from(term));
    let mut scaled = series;
    let factor = if whole < 0.0 { 0.5 } else { 2.0 };
    for _ in 0..whole.abs() as u32 {
        scaled *= factor;
    }
    scaled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_powers() {
        for (base, exponent) in
            [(1.0, -0.9), (7.0, -0.99), (65_536.0, 0.01), (1e8, 0.05), (3.3, 20.0)]
        {
            let expected = f64::powf(base, exponent);
            assert!((power(base, exponent) / expected - 1.0).abs() < 1e-12, "{base}^{exponent}");
        }
    }

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
