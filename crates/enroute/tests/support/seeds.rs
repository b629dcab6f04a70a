//! Seeds of randomized tests: printed, stored when a run fails, and run first the next time.
//!
//! They are stored in `target/tmp/failed_seeds`, one line each: the test's name and the seed.
//! Remove a line once the failure is fixed. `SEED` selects a single seed.

use std::{
    env, fs,
    hash::{BuildHasher, RandomState},
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
    time::{Duration, Instant},
};

/// Maximum number of stored seeds that are run: the newest.
const RUN_MAX: usize = 4;

/// Runs the stored seeds of `test`, then `usual` ones, until a run returns `None`, which means that
/// the test cannot run here. Stores a seed whose run panics.
pub fn each(test: &str, usual: impl IntoIterator<Item = u64>, run: impl FnMut(u64) -> Option<()>) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failed_seeds");
    match env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => each_of(&file, test, [seed], run),
        None => {
            each_of(&file, test, again_and(&file, test, usual), run);
        }
    }
}

/// The stored seeds, then those of `usual` that are not among them.
fn again_and(
    file: &Path,
    test: &str,
    usual: impl IntoIterator<Item = u64>,
) -> impl Iterator<Item = u64> {
    let mut again = kept(file, test);
    again.drain(..again.len().saturating_sub(RUN_MAX));
    let known = again.clone();
    again.into_iter().chain(usual.into_iter().filter(move |seed| !known.contains(seed)))
}

/// New seeds, at least one, until `time` has elapsed.
pub fn fresh_for(time: Duration) -> impl Iterator<Item = u64> {
    let (state, began) = (RandomState::new(), Instant::now());
    (0_u64..)
        .map(move |number| state.hash_one(number))
        .enumerate()
        .map_while(move |(count, seed)| (count == 0 || began.elapsed() < time).then_some(seed))
}

fn each_of(
    file: &Path,
    test: &str,
    seeds: impl IntoIterator<Item = u64>,
    mut run: impl FnMut(u64) -> Option<()>,
) {
    for seed in seeds {
        eprintln!("{test}: SEED={seed}");
        match catch_unwind(AssertUnwindSafe(|| run(seed))) {
            Ok(Some(())) => {}
            Ok(None) => return,
            Err(panic) => {
                if !kept(file, test).contains(&seed) {
                    keep(file, test, seed);
                }
                eprintln!("{test}: SEED={seed} failed and is kept in {}", file.display());
                resume_unwind(panic);
            }
        }
    }
}

/// The stored seeds of `test`, the newest last.
fn kept(file: &Path, test: &str) -> Vec<u64> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let own = lines.filter(|(name, _)| *name == test);
    own.filter_map(|(_, seed)| seed.parse().ok()).collect()
}

fn keep(file: &Path, test: &str, seed: u64) {
    let opened = fs::OpenOptions::new().create(true).append(true).open(file);
    // In one write: other tests append to the file, too.
    let kept = opened.and_then(|mut file| file.write_all(format!("{test} {seed}\n").as_bytes()));
    kept.unwrap_or_else(|error| eprintln!("{test}: SEED={seed} is not kept: {error}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::directory::TemporaryDirectory;

    #[test]
    fn a_seed_that_failed_is_run_first_the_next_time() {
        let directory = TemporaryDirectory::create();
        let file = directory.path().join("failed_seeds");
        keep(&file, "another test", 9);
        let run_all = |bad: Option<u64>| {
            let mut seen = Vec::new();
            let seeds = again_and(&file, "a test", [1, 2, 3]);
            let ended = catch_unwind(AssertUnwindSafe(|| {
                each_of(&file, "a test", seeds, |seed| {
                    seen.push(seed);
                    assert_ne!(Some(seed), bad, "as intended");
                    Some(())
                });
            }));
            (seen, ended.is_err())
        };
        assert_eq!(run_all(Some(3)), (vec![1, 2, 3], true));
        assert_eq!(run_all(Some(3)), (vec![3], true));
        assert_eq!(run_all(None), (vec![3, 1, 2], false));
        assert_eq!(kept(&file, "another test"), [9]);
    }
}
