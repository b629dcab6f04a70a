//! How one budget of memory is divided among the origins of several listeners.
//!
//! Each origin has a share between a floor and a ceiling. A review compares how many more hits a
//! second each origin would have with more memory ([`super::usage`] measures that), and moves the
//! shares a bounded step towards the division with the most hits. The division is that of UCP's
//! lookahead algorithm (Qureshi, Patt, MICRO 2006, §4.3): it sees past a flat part of a curve, as
//! that of a loop that is of no use until all of it fits.
//!
//! Decision: `docs/decisions/0150-shares-of-memory.md`.

/// The budget is divided in units of this part of it.
const UNITS: u64 = 64;
/// A review moves at most this part of the budget.
const STEP_PART: u64 = 32;
/// Shares move only if the best division would answer at least this part more of the lookups that
/// all memory could answer: less is within the error of the samples, and each move evicts.
const GAIN_MIN: f64 = 0.005;
/// The part of an equal share that is the floor of an origin without one in the configuration.
pub const FLOOR_PART: u64 = 4;
const MEBIBYTE: f64 = 1_048_576.0;

/// Bounds of a share, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// It is never smaller, unless the budget is smaller than all floors together.
    pub floor: u64,
    /// It is never larger.
    pub ceiling: u64,
}

/// Hits a second of the origin with this number, with this many bytes.
pub type Hits<'a> = &'a dyn Fn(usize, u64) -> f64;

/// A budget, divided.
#[derive(Debug, Clone)]
pub struct Shares {
    total: u64,
    bounds: Vec<Bounds>,
    bytes: Vec<u64>,
}

/// What a share would gain and lose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// Hits a second that each MiB more would bring, at the best size above.
    pub gain_per_mebibyte: f64,
    /// Hits a second that the next MiB less would lose.
    pub loss_per_mebibyte: f64,
    /// Why the share is as it is.
    pub why: Why,
}

/// Why a share is as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Too few lookups were seen to move it.
    Measuring,
    /// Its memory is worth more to other origins; it has its floor.
    Floor,
    /// It has its ceiling.
    Ceiling,
    /// More memory would answer no more lookups, within the error of the samples.
    Enough,
    /// More memory would be worth less to it than to those that have it.
    Balanced,
}

impl Why {
    /// Its name in statistics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Measuring => "measuring",
            Self::Floor => "floor",
            Self::Ceiling => "ceiling",
            Self::Enough => "enough",
            Self::Balanced => "balanced",
        }
    }
}

impl Shares {
    /// Equal shares of `total` bytes, as far as their bounds allow.
    #[must_use]
    pub fn new(total: u64, bounds: Vec<Bounds>) -> Self {
        let bytes = fit(total, &bounds, &vec![1; bounds.len()]);
        Self { total, bounds, bytes }
    }

    /// Changes the budget and the bounds; shares keep their proportions as far as they allow.
    pub fn resize(&mut self, total: u64, bounds: Vec<Bounds>) {
        self.bytes = fit(total, &bounds, &self.bytes);
        (self.total, self.bounds) = (total, bounds);
    }

    /// The shares, in bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u64] {
        &self.bytes
    }

    /// The bounds.
    #[must_use]
    pub fn bounds(&self) -> &[Bounds] {
        &self.bounds
    }

    /// The shares while only `total` bytes of the budget can be used.
    #[must_use]
    pub fn within(&self, total: u64) -> Vec<u64> {
        if total >= self.total { self.bytes.clone() } else { fit(total, &self.bounds, &self.bytes) }
    }

    /// Moves the shares a bounded step towards the division with the most hits; returns whether
    /// they have changed.
    pub fn review(&mut self, hits: Hits<'_>) -> bool {
        let best = self.best(hits);
        let all = |bytes: &[u64]| -> f64 {
            bytes.iter().enumerate().map(|(origin, bytes)| hits(origin, *bytes)).sum()
        };
        let possible = all(&vec![self.total; self.bytes.len()]);
        if all(&best) - all(&self.bytes) <= GAIN_MIN * possible {
            return false;
        }
        let grown = |(now, best): (&u64, &u64)| best.saturating_sub(*now);
        let distance: u64 = self.bytes.iter().zip(&best).map(grown).sum();
        let step = distance.min((self.total / STEP_PART).max(1));
        let before = self.bytes.clone();
        for (now, best) in self.bytes.iter_mut().zip(best) {
            // Between the two divisions, so that bounds and budget hold; rounded down.
            let moved = (i128::from(best) - i128::from(*now)) * i128::from(step);
            let moved = moved.div_euclid(i128::from(distance.max(1)));
            *now = now.saturating_add_signed(i64::try_from(moved).unwrap_or(0));
        }
        before != self.bytes
    }

    /// What the share with this number would gain and lose.
    #[must_use]
    pub fn margin(&self, origin: usize, hits: Hits<'_>) -> Margin {
        let (bytes, Bounds { floor, ceiling }) = (self.bytes[origin], self.bounds[origin]);
        let (unit, now) = (self.unit(), hits(origin, bytes));
        let more = |units: u64| {
            let above = (hits(origin, bytes + units * unit) - now).max(0.0);
            above / (units * unit) as f64 * MEBIBYTE
        };
        let gain_per_mebibyte = (1..=UNITS).map(more).fold(0.0, f64::max);
        let less = bytes.min(unit);
        let lost = (now - hits(origin, bytes - less)).max(0.0);
        let loss_per_mebibyte = lost / less.max(1) as f64 * MEBIBYTE;
        let most = hits(origin, bytes + UNITS * unit);
        let why = match bytes {
            _ if bytes >= ceiling => Why::Ceiling,
            _ if most - now <= GAIN_MIN * most => Why::Enough,
            // A step that is less than a unit away is not taken.
            _ if bytes < floor.saturating_add(unit) => Why::Floor,
            _ => Why::Balanced,
        };
        Margin { gain_per_mebibyte, loss_per_mebibyte, why }
    }

    fn unit(&self) -> u64 {
        (self.total / UNITS).max(1)
    }

    /// The division with the most hits. What no origin gains by is divided as it is now.
    fn best(&self, hits: Hits<'_>) -> Vec<u64> {
        let (unit, count) = (self.unit(), self.bounds.len());
        let mut sizes = floors(self.total, &self.bounds);
        let mut free = self.total.saturating_sub(sizes.iter().sum());
        let curve = |origin: usize| -> Vec<(u64, f64)> {
            let ceiling = self.bounds[origin].ceiling.min(self.total);
            let sizes = (0..=UNITS).map(|units| (sizes[origin] + units * unit).min(ceiling));
            sizes.map(|bytes| (bytes, hits(origin, bytes))).collect()
        };
        let curves: Vec<_> = (0..count).map(curve).collect();
        let mut at = vec![0; count];
        loop {
            let mut best = (0.0, None);
            for (origin, curve) in curves.iter().enumerate() {
                let Some(&(bytes, now)) = curve.get(at[origin]) else { continue };
                for (to, (larger, then)) in curve.iter().enumerate().skip(at[origin] + 1) {
                    let cost = larger.saturating_sub(bytes);
                    let gain = (then - now) / cost.max(1) as f64;
                    if cost > 0 && cost <= free && gain > best.0 {
                        best = (gain, Some((origin, to, *larger)));
                    }
                }
            }
            let Some((origin, to, larger)) = best.1 else { break };
            free -= larger - sizes[origin];
            (at[origin], sizes[origin]) = (to, larger);
        }
        let useful = |(bounds, floor): (&Bounds, u64)| Bounds { floor, ..*bounds };
        let bounds: Vec<_> = self.bounds.iter().zip(sizes).map(useful).collect();
        fit(self.total, &bounds, &self.bytes)
    }
}

/// The floors of origins that together have `total` bytes.
fn floors(total: u64, bounds: &[Bounds]) -> Vec<u64> {
    let floor = |bounds: &Bounds| bounds.floor.min(bounds.ceiling);
    let all: u128 = bounds.iter().map(|bounds| u128::from(floor(bounds))).sum();
    let part = |floor: u64| {
        let part = u128::from(floor) * u128::from(total) / all.max(1);
        if all > u128::from(total) { u64::try_from(part).unwrap_or(0) } else { floor }
    };
    bounds.iter().map(floor).map(part).collect()
}

/// Divides `total` bytes in proportion to `wishes`, as far as the bounds allow: all of them, or
/// every ceiling.
fn fit(total: u64, bounds: &[Bounds], wishes: &[u64]) -> Vec<u64> {
    let floors = floors(total, bounds);
    let sized = |scale: f64| -> Vec<u64> {
        let limits = floors.iter().zip(bounds);
        let size = |((floor, bounds), wish): ((&u64, &Bounds), &u64)| {
            let wanted = ((*wish).max(1) as f64 * scale) as u64;
            wanted.min(bounds.ceiling).min(total).max(*floor)
        };
        limits.zip(wishes).map(size).collect()
    };
    let fits = |sizes: &[u64]| {
        sizes.iter().map(|size| u128::from(*size)).sum::<u128>() <= u128::from(total)
    };
    // With the lowest scale every share is at its floor, with the highest at its ceiling.
    let (mut low, mut high) = (0.0, total as f64 + 1.0);
    let all = sized(high);
    if fits(&all) {
        return all;
    }
    for _ in 0..SCALES {
        let middle = f64::midpoint(low, high);
        if fits(&sized(middle)) { low = middle } else { high = middle }
    }
    sized(low)
}

/// Halvings of the interval of scales: as many as a scale has significant bits, and those of the
/// largest budget.
const SCALES: usize = 128;

#[cfg(test)]
mod tests;
