//! Popularity of keys: Zipf by rank, with an assignment of keys to ranks that changes during the
//! run (NetCache, section 6.4).

use std::{collections::VecDeque, time::Duration};

use clap::ValueEnum;
use fabric::rack::Zipf;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

/// Number of ranks whose keys can change; colder ones are read too rarely to matter.
const RANKS: usize = 20_000;
/// Number of keys that change at once.
const CHANGED: usize = 200;
/// Number of hottest keys of which `random` replaces some.
const HOTTEST: usize = 10_000;

/// The ways in which popularity changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// It does not change
    None,
    /// Every 10 s, 200 cold keys become the hottest
    HotIn,
    /// Every second, cold keys replace 200 of the hottest 10,000
    Random,
    /// Every second, the 200 hottest keys become cold
    HotOut,
}

impl Change {
    /// Time between changes; zero where there are none.
    pub fn every(self) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::HotIn => Duration::from_secs(10),
            Self::Random | Self::HotOut => Duration::from_secs(1),
        }
    }
}

pub(super) struct Popularity {
    zipf: Zipf,
    random: Pcg64Mcg,
    /// Keys of the first ranks; beyond them a key is its rank.
    hot: VecDeque<u64>,
    /// The coldest key that was never hot.
    cold: u64,
}

impl Popularity {
    pub(super) fn new(keys: u64, skew: f64, seed: u64) -> Self {
        Self {
            zipf: Zipf::new(keys, skew),
            random: Pcg64Mcg::seed_from_u64(seed),
            hot: (0..keys.min(RANKS as u64)).collect(),
            cold: keys,
        }
    }

    /// The key of the next query.
    pub(super) fn draw(&mut self) -> u64 {
        let point = self.unit();
        let rank = self.zipf.rank(point);
        self.hot.get(rank as usize).copied().unwrap_or(rank)
    }

    /// A number from 0 to 1.
    pub(super) fn unit(&mut self) -> f64 {
        self.random.random()
    }

    pub(super) fn change(&mut self, change: Change) {
        match change {
            Change::None => {}
            Change::HotIn => {
                for _ in 0..CHANGED {
                    let cold = self.cold();
                    self.hot.push_front(cold);
                    self.hot.pop_back();
                }
            }
            Change::Random => {
                for _ in 0..CHANGED {
                    let rank = self.random.random_range(0..HOTTEST.min(self.hot.len()));
                    self.hot[rank] = self.cold();
                }
            }
            Change::HotOut => {
                for _ in 0..CHANGED {
                    let cold = self.cold();
                    self.hot.pop_front();
                    self.hot.push_back(cold);
                }
            }
        }
    }

    fn cold(&mut self) -> u64 {
        self.cold -= 1;
        self.cold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share_of_first(popularity: &mut Popularity, first: u64) -> usize {
        (0..10_000).filter(|_| popularity.draw() == first).count()
    }

    #[test]
    fn ranks_change_owners() {
        let mut popularity = Popularity::new(100_000_000, 0.99, 1);
        let before = share_of_first(&mut popularity, 0);
        assert!(
            (400..650).contains(&before),
            "{before} of 10,000: the paper's hottest key has 5 %"
        );
        popularity.change(Change::HotIn);
        let hottest = popularity.hot[0];
        assert_eq!((hottest, popularity.hot[200]), (100_000_000 - 200, 0));
        assert!((400..650).contains(&share_of_first(&mut popularity, hottest)));
        popularity.change(Change::HotOut);
        assert_eq!(popularity.hot[0], 0);
        popularity.change(Change::Random);
        let fresh = popularity.hot.iter().take(HOTTEST).filter(|key| **key > 1_000_000).count();
        assert!((190..=200).contains(&fresh), "{fresh} of 200, some drawn twice");
        assert_eq!(popularity.hot.len(), RANKS);
    }
}
