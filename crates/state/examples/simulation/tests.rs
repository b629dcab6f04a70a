use super::*;

/// A small world, so that it takes no time.
const SMALL: Size = Size {
    sites: 6,
    hosts: 30,
    functions: 1_200,
    slots: 200,
    day: 3_600,
    seconds: 360,
    window: 60,
};

#[test]
fn what_follows_the_sun_waits_little_longer_than_it_has_to() {
    let outcome = simulate(SMALL, Scenario::Diurnal);
    assert!(outcome.ratio() < 1.05, "{}", line(Scenario::Diurnal, &outcome));
}
