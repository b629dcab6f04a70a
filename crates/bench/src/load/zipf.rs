//! Popularity by Zipf's law.

/// Zipf's law over `keys` keys (Gray et al., "Quickly generating billion-record synthetic
/// databases"), each rank at a place of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zipf {
    keys: u64,
    exponent: f64,
    zeta: f64,
    zeta_two: f64,
}

impl Zipf {
    pub(crate) fn new(keys: u64, exponent: f64) -> Self {
        let zeta = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-exponent)).sum::<f64>();
        Self { keys, exponent, zeta: zeta(keys), zeta_two: zeta(2) }
    }

    /// The key at `uniform`, which is from 0 to 1.
    pub(super) fn draw(self, uniform: f64) -> u64 {
        let Self { keys, exponent, zeta, zeta_two } = self;
        let count = keys as f64;
        let eta = (1.0 - (2.0 / count).powf(1.0 - exponent)) / (1.0 - zeta_two / zeta);
        let scaled = uniform * zeta;
        let rank = match scaled {
            scaled if scaled < 1.0 => 0,
            scaled if scaled < zeta_two => 1,
            _ => (count * (eta * uniform - eta + 1.0).powf(1.0 / (1.0 - exponent))) as u64,
        };
        // A prime that divides no number of keys used here.
        rank.min(keys - 1) * 2_654_435_761 % keys
    }
}
