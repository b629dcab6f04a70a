//! Choice between several possible steps: by a seed, or by a path of choices that is followed to
//! its end and then replaced by the next one.

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

/// It is no part of a state.
impl Hash for Chance {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Chance {
    pub(super) fn of_seed(seed: u64) -> Self {
        Self::Seed(Pcg64::seed_from_u64(seed))
    }

    /// Some number below that.
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

    /// The next way, once this one was gone to its end; nothing behind the last.
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

/// A number of any kind.
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
