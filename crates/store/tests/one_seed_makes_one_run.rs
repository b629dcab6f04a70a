//! Two runs from one seed send the same commands to the device and have the same result, also
//! across a clear, so that a failing seed can be reproduced.

#[expect(unreachable_pub, dead_code, reason = "shared by several tests")]
mod elastic;

use elastic::Run;
use store::Faults;
use store::elastic::Stats;

fn end(seed: u64) -> (u64, Stats) {
    let mut run = Run::new(seed, Faults::default()).expect("opens");
    run.run(6000);
    (run.device.calls(), run.store.stats())
}

#[test]
fn whatever_the_seed() {
    for seed in 6_000_000..6_000_040 {
        assert_eq!(end(seed), end(seed), "seed {seed}");
    }
}
