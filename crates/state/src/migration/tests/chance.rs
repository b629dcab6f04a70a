//! The choice between possible steps: random from a seed, or along a path of choices, so that all
//! paths are tried in turn.

use std::hash::{Hash, Hasher};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

#[derive(Debug, Clone)]
pub(super) enum Chance {
    Seed(Pcg64),
    /// The choices made so far, each with the number of alternatives, and how many of them have
    /// been used.
    Way(Vec<(u64, u64)>, usize),
}

/// The choices are no part of a state.
impl Hash for Chance {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Chance {
    pub(super) fn of_seed(seed: u64) -> Self {
        Self::Seed(Pcg64::seed_from_u64(seed))
    }

    /// A number below `limit`.
    pub(super) fn below<N: Copy + Into<Wide>>(&mut self, limit: N) -> N
    where
        Wide: Into<N>,
    {
        let limit: Wide = limit.into();
        let Wide(limit) = limit;
        Wide(self.decide(limit)).into()
    }

    /// Decides whether an event that occurs once in this number of times occurs.
    pub(super) fn one_in(&mut self, times: u64) -> bool {
        match self {
            Self::Seed(random) => random.random_range(0..times) == 0,
            Self::Way(..) => self.decide(2) == 1,
        }
    }

    fn decide(&mut self, limit: u64) -> u64 {
        match self {
            Self::Seed(random) => random.random_range(0..limit),
            Self::Way(way, used) => {
                if *used == way.len() {
                    way.push((0, limit));
                }
                *used += 1;
                way[*used - 1].0
            }
        }
    }

    /// The next path after this one was completed; `None` after the last.
    pub(super) fn next(self) -> Option<Self> {
        let Self::Way(mut way, _) = self else { return None };
        while let Some((decided, of)) = way.pop() {
            if decided + 1 < of {
                way.push((decided + 1, of));
                return Some(Self::Way(way, 0));
            }
        }
        None
    }
}

/// A number of any integer type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wide(u64);

macro_rules! numbers {
    ($($number:ty)+) => {$(
        impl From<$number> for Wide {
            fn from(number: $number) -> Self {
                Self(number as u64)
            }
        }
        impl From<Wide> for $number {
            fn from(Wide(number): Wide) -> Self {
                number as $number
            }
        }
    )+};
}

numbers!(u8 u16 u32 usize u64);
