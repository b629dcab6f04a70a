//! Which key is asked for next.

use std::fmt;
use std::str::FromStr;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64Mcg;

/// How popular each key is. Written and read as `uniform`, `zipf:0.99` or `sequential`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyDistribution {
    /// Each key equally.
    Uniform,
    /// Key k with weight 1 / k^theta: key 1 is the hottest.
    Zipf {
        /// The skew; 0 is uniform, 0.99 is usual.
        theta: f64,
    },
    /// 1, 2, 3 and so on, then again from 1.
    Sequential,
}

impl FromStr for KeyDistribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let theta = text.strip_prefix("zipf:").and_then(|theta| theta.parse::<f64>().ok());
        match (text, theta) {
            ("uniform", _) => Ok(Self::Uniform),
            ("sequential", _) => Ok(Self::Sequential),
            (_, Some(theta)) if theta.is_finite() && theta >= 0.0 => Ok(Self::Zipf { theta }),
            _ => Err(format!("`{text}` is not one of uniform, zipf:0.99 and sequential")),
        }
    }
}

impl fmt::Display for KeyDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf { theta } => write!(f, "zipf:{theta}"),
            Self::Sequential => f.write_str("sequential"),
        }
    }
}

/// Chooses keys from 1 to a largest one. The same seed chooses the same keys.
#[derive(Clone, Debug)]
pub struct KeyChooser {
    keys: u64,
    last: u64,
    distribution: KeyDistribution,
    zipf: Option<Zipf<f64>>,
    random: Pcg64Mcg,
}

impl KeyChooser {
    /// Chooses among `keys` keys; none counts as one, and a negative skew as none.
    #[must_use]
    pub fn new(distribution: KeyDistribution, keys: u64, seed: u64) -> Self {
        let keys = keys.max(1);
        let zipf = match distribution {
            KeyDistribution::Zipf { theta } => Zipf::new(keys as f64, theta).ok(),
            KeyDistribution::Uniform | KeyDistribution::Sequential => None,
        };
        Self { keys, last: 0, distribution, zipf, random: Pcg64Mcg::seed_from_u64(seed) }
    }

    /// The next key, 1 to the largest.
    pub fn choose(&mut self) -> u64 {
        self.last = match (self.distribution, &self.zipf) {
            (KeyDistribution::Sequential, _) => self.last % self.keys + 1,
            (_, Some(zipf)) => (zipf.sample(&mut self.random) as u64).clamp(1, self.keys),
            (_, None) => self.random.random_range(1..=self.keys),
        };
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(distribution: KeyDistribution, keys: u64, draws: usize) -> Vec<usize> {
        let mut chooser = KeyChooser::new(distribution, keys, 1);
        let mut counts = vec![0; keys as usize + 1];
        for _ in 0..draws {
            counts[chooser.choose() as usize] += 1;
        }
        counts
    }

    #[test]
    fn uniform_reaches_every_key_about_equally() {
        let counts = counts(KeyDistribution::Uniform, 100, 100_000);
        assert_eq!(counts[0], 0);
        assert!(counts[1..].iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    #[test]
    fn zipf_gives_each_key_its_share() {
        for theta in [0.5, 0.99, 1.0, 1.2] {
            let (keys, draws) = (1000, 400_000);
            let counts = counts(KeyDistribution::Zipf { theta }, keys, draws);
            let total: f64 = (1..=keys).map(|key| (key as f64).powf(-theta)).sum();
            for key in [1_u32, 2, 10, 100] {
                let expected = f64::from(key).powf(-theta) / total * draws as f64;
                let difference = counts[key as usize] as f64 - expected;
                // Five standard deviations: one wrong alarm in a million seeds; this one is fixed.
                assert!(difference.abs() < 5.0 * expected.sqrt(), "theta {theta}, key {key}");
            }
        }
    }

    #[test]
    fn zipf_without_skew_is_uniform() {
        let counts = counts(KeyDistribution::Zipf { theta: 0.0 }, 10, 100_000);
        assert!(counts[1..].iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn sequential_goes_round() {
        let mut chooser = KeyChooser::new(KeyDistribution::Sequential, 3, 0);
        assert_eq!([(); 5].map(|()| chooser.choose()), [1, 2, 3, 1, 2]);
    }

    #[test]
    fn the_same_seed_repeats_and_stays_what_it_was() {
        let draw = |seed| {
            let mut chooser = KeyChooser::new(KeyDistribution::Zipf { theta: 0.99 }, 1000, seed);
            [(); 6].map(|()| chooser.choose())
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        // A new version of a library must not change published experiments unnoticed.
        assert_eq!(draw(42), [37, 7, 1, 6, 1, 186]);
    }

    #[test]
    fn distributions_are_written_as_they_are_read() {
        for text in ["uniform", "zipf:0.99", "sequential"] {
            assert_eq!(text.parse::<KeyDistribution>().unwrap().to_string(), text);
        }
        for wrong in ["", "zipf", "zipf:", "zipf:-1", "zipf:nan", "random"] {
            assert!(wrong.parse::<KeyDistribution>().is_err(), "{wrong}");
        }
    }
}
