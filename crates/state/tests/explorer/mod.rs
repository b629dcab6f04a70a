//! Explores every reachable state.

use std::{
    collections::HashSet,
    fmt::Debug,
    hash::{DefaultHasher, Hash, Hasher},
};

/// A state to explore.
pub trait State: Clone + Debug + Hash {
    /// Every state one step away, with what was done.
    fn steps(&self) -> Vec<(String, Self)>;

    /// Returns the violated invariant, if there is one.
    fn fault(&self) -> Option<String>;
}

/// Returns the number of states; or the violated invariant of one, after a shortest path to it.
pub fn explore<S: State>(begin: S, states_max: usize) -> Result<usize, String> {
    let hash = |state: &S| {
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        hasher.finish()
    };
    let mut seen = HashSet::from([hash(&begin)]);
    let mut ways: Vec<(usize, String)> = vec![(0, "begin".to_owned())];
    let mut layer = vec![(0, begin)];
    while !layer.is_empty() {
        let mut next_layer = Vec::new();
        for (way, state) in layer {
            for (what, next) in state.steps() {
                if !seen.insert(hash(&next)) {
                    continue;
                }
                ways.push((way, what));
                let way = ways.len() - 1;
                if let Some(fault) = next.fault() {
                    return Err(format!("{}\n{fault}: {next:#?}", told(&ways, way)));
                }
                next_layer.push((way, next));
            }
            assert!(seen.len() <= states_max, "more than {states_max} states");
        }
        layer = next_layer;
    }
    Ok(seen.len())
}

fn told(ways: &[(usize, String)], mut at: usize) -> String {
    let mut steps = Vec::new();
    while at != 0 {
        steps.push(ways[at].1.as_str());
        at = ways[at].0;
    }
    steps.reverse();
    steps.join("\n")
}
