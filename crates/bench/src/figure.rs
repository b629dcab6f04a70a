//! Measurements: rounds, figures, goals, and their display.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

/// Result of one round of one side: named numbers, the first of which is the figure.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Reading {
    pub(crate) value: f64,
    #[serde(flatten)]
    pub(crate) others: BTreeMap<&'static str, f64>,
}

impl Reading {
    pub(crate) fn new(value: f64) -> Self {
        Self { value, others: BTreeMap::new() }
    }

    pub(crate) fn with(mut self, name: &'static str, value: f64) -> Self {
        self.others.insert(name, value);
        self
    }
}

/// All rounds of both sides.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Rounds {
    pub(crate) ours: Vec<Reading>,
    pub(crate) peer: Vec<Reading>,
}

impl Rounds {
    /// Medians of both sides' figures.
    pub(crate) fn medians(&self) -> (f64, f64) {
        let of = |side: &[Reading]| median(side.iter().map(|reading| reading.value));
        (of(&self.ours), of(&self.peer))
    }

    /// Medians of both sides' `name`.
    pub(crate) fn medians_of(&self, name: &str) -> (f64, f64) {
        let of = |side: &[Reading]| {
            median(side.iter().filter_map(|reading| reading.others.get(name).copied()))
        };
        (of(&self.ours), of(&self.peer))
    }
}

/// The middle one, or halfway between the middle two; NaN of nothing.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
    let lower = values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN);
    f64::midpoint(lower, upper)
}

/// The target of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// The ratio, at most.
    RatioMax(f64),
    /// The ratio, at least.
    RatioMin(f64),
    /// The value, at most.
    ValueMax(f64),
    /// The value, at least.
    ValueMin(f64),
}

impl fmt::Display for Goal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RatioMax(limit) => write!(out, "ratio ≤ {limit}"),
            Self::RatioMin(limit) => write!(out, "ratio ≥ {limit}"),
            Self::ValueMax(limit) => write!(out, "value ≤ {limit}"),
            Self::ValueMin(limit) => write!(out, "value ≥ {limit}"),
        }
    }
}

/// One line of the outcome.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
    /// The peer of the comparison.
    pub(crate) peer: Option<String>,
    pub(crate) peer_value: Option<f64>,
    pub(crate) ratio: Option<f64>,
    pub(crate) goal: String,
    pub(crate) met: bool,
    /// The method of measurement, as far as the name does not state it.
    pub(crate) note: String,
}

impl Figure {
    /// `value` against `peer_value` of `peer`.
    pub(crate) fn compared(
        name: &str,
        (value, peer_value): (f64, f64),
        unit: &str,
        peer: &str,
        goal: Goal,
    ) -> Self {
        let ratio = value / peer_value;
        let met = match goal {
            Goal::RatioMax(limit) => ratio <= limit,
            Goal::RatioMin(limit) => ratio >= limit,
            Goal::ValueMax(limit) => value <= limit,
            Goal::ValueMin(limit) => value >= limit,
        };
        Self {
            name: name.to_owned(),
            value,
            unit: unit.to_owned(),
            peer: Some(peer.to_owned()),
            peer_value: Some(peer_value),
            ratio: Some(ratio),
            goal: goal.to_string(),
            met,
            note: String::new(),
        }
    }

    /// `value` alone, at most `limit`.
    pub(crate) fn alone(name: &str, value: f64, unit: &str, limit: f64) -> Self {
        Self::single(name, value, unit, Goal::ValueMax(limit), value <= limit)
    }

    /// `value` alone, at least `limit`.
    pub(crate) fn at_least(name: &str, value: f64, unit: &str, limit: f64) -> Self {
        Self::single(name, value, unit, Goal::ValueMin(limit), value >= limit)
    }

    fn single(name: &str, value: f64, unit: &str, goal: Goal, met: bool) -> Self {
        let (peer, peer_value, ratio) = (None, None, None);
        let (name, unit, goal) = (name.to_owned(), unit.to_owned(), goal.to_string());
        Self { name, value, unit, peer, peer_value, ratio, goal, met, note: String::new() }
    }

    pub(crate) fn note(mut self, note: String) -> Self {
        self.note = note;
        self
    }
}

/// The table of all figures.
pub(crate) fn table(figures: &[Figure]) -> String {
    let mut out = format!(
        "{:<28} {:>12} {:>12} {:>8}  {:<15} {:<8} unit, peer\n",
        "name", "value", "peer's", "ratio", "goal", "met"
    );
    for figure in figures {
        let number = |value: Option<f64>| value.map_or("–".to_owned(), short);
        out.push_str(&format!(
            "{:<28} {:>12} {:>12} {:>8}  {:<15} {:<8} {}{}\n",
            figure.name,
            short(figure.value),
            number(figure.peer_value),
            figure.ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.3}")),
            figure.goal,
            if figure.met { "yes" } else { "NO" },
            figure.unit,
            figure.peer.as_ref().map(|peer| format!(", {peer}")).unwrap_or_default(),
        ));
        if !figure.note.is_empty() {
            out.push_str(&format!("{:28} {}\n", "", figure.note));
        }
    }
    out
}

fn short(value: f64) -> String {
    if value.abs() >= 1_000.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert!(median([3.0, 1.0, 2.0].into_iter()) == 2.0);
        assert!(median([4.0, 1.0, 2.0, 3.0].into_iter()) == 2.5);
        assert!(median(std::iter::empty()).is_nan());
    }

    #[test]
    fn a_goal_is_met_at_its_limit() {
        let figure = |goal| Figure::compared("x", (2.0, 1.0), "", "peer", goal);
        assert!(figure(Goal::RatioMin(2.0)).met && figure(Goal::RatioMax(2.0)).met);
        assert!(!figure(Goal::RatioMin(2.1)).met && !figure(Goal::RatioMax(1.9)).met);
    }
}
