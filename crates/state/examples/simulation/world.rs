//! Locations of hosts, and the use of slots by functions over time.

use std::{f64::consts::PI, time::Duration};

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use state::{Host, Node, delays::Matrix, slot::SLOTS};

/// Size of a world, and the duration of its simulation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) sites: usize,
    pub(crate) hosts: usize,
    pub(crate) functions: usize,
    pub(crate) slots: usize,
    /// Once around the earth, in seconds.
    pub(crate) day: u32,
    pub(crate) seconds: u32,
    /// Time for which a placement found with hindsight stays the same, in seconds.
    pub(crate) window: u32,
}

impl Default for Size {
    fn default() -> Self {
        let (sites, hosts, functions, slots) = (40, 1_000, 100_000, SLOTS);
        Self { sites, hosts, functions, slots, day: 86_400, seconds: 660, window: 60 }
    }
}

/// The access pattern of a group of functions whose state shares a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// In each place as busy as its hour has it.
    Sun,
    /// Two places take turns at periods of 2 s to 5 min: around the placer's reaction, its
    /// cool-down, and what it expects a pattern to last.
    Turns,
    /// Three places take turns, in an order drawn anew each time.
    Wanders,
    /// Quiet, and now and then twenty times as busy for some seconds, somewhere else.
    Crowds,
    /// Goes away as soon as its state has come: it knows where the slot is.
    Flees,
}

impl Kind {
    /// Those that do not know where the slot is come first.
    const HARD: [Self; 4] = [Self::Turns, Self::Wanders, Self::Crowds, Self::Flees];
    const UNKNOWING: usize = 3;

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sun => "sun",
            Self::Turns => "turns",
            Self::Wanders => "wanders",
            Self::Crowds => "crowds",
            Self::Flees => "flees",
        }
    }
}

/// Functions that share a slot: a chain or a tenant, deployed together.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) kind: Kind,
    /// The hosts of its functions, and their maximum number of accesses per second there.
    pub(crate) places: Vec<(Host, f64)>,
    /// Of turns, in seconds.
    period: u32,
    /// Start of its turns, in seconds.
    phase: u32,
    pub(crate) bytes: u64,
}

/// The earth.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) size: Size,
    /// Round trips as they are.
    pub(crate) delays: Matrix,
    /// By host, as a part of a turn of the earth.
    longitudes: Vec<f64>,
    /// By slot.
    pub(crate) groups: Vec<Group>,
}

/// An access on the host itself.
const LOCAL_US: f64 = 50.0;
/// Between hosts of one site.
const SITE_US: f64 = 300.0;
/// Between sites side by side, and for each radian between them: there and back by fibre, half as
/// far again as the great circle.
const NEAR_US: f64 = 1_000.0;
const RADIAN_US: f64 = 6_371.0 * 2.0 * 5.0 * 1.5;
/// At night a place is this busy.
const NIGHT: f64 = 0.1;

impl World {
    /// A world in which a share of the groups is `hard` to follow.
    pub(crate) fn new(size: Size, hard: f64, seed: u64) -> Self {
        let mut random = Pcg64::seed_from_u64(seed);
        let sites: Vec<(f64, f64)> = (0..size.sites)
            .map(|_| (random.random_range(0.0..1.0), random.random_range(-0.9..0.9)))
            .collect();
        let site = |host: usize| host * size.sites / size.hosts;
        let delays = delays(&sites, size.hosts, &site, &mut random);
        let mut groups: Vec<Group> =
            (0..size.slots).map(|_| group(size, hard, &mut random)).collect();
        for _ in 0..size.functions {
            let group = random.random_range(0..size.slots);
            // Most are small: a tail like that of keys in use.
            let accesses = 2.0 / random.random_range(1e-4_f64..1.0).sqrt();
            let places = &mut groups[group].places;
            let place = random.random_range(0..places.len());
            places[place].1 += accesses;
        }
        for group in &mut groups {
            group.places.retain(|&(_, rate)| rate > 0.0);
        }
        let longitudes = (0..size.hosts).map(|host| sites[site(host)].0).collect();
        Self { size, delays, longitudes, groups }
    }

    /// The node at which `group` waits least as it is in second `at`; `elsewhere` if it is empty.
    pub(crate) fn best(&self, group: &Group, elsewhere: Node, at: u32, hours: &[f64]) -> Node {
        let mut costs = vec![0.0; self.size.hosts];
        for (place, &(host, _)) in group.places.iter().enumerate() {
            let rate = self.rate(group, place, elsewhere, at, hours);
            for (cost, delay) in costs.iter_mut().zip(self.delays.from(host)) {
                *cost += rate * f64::from(*delay);
            }
        }
        let best = costs.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        best.filter(|_| !group.places.is_empty()).map_or(elsewhere, |best| Node(best.0 as u16))
    }

    /// Returns the load of each host in second `at`, by its hour.
    pub(crate) fn hours(&self, at: u32) -> Vec<f64> {
        let day = f64::from(at) / f64::from(self.size.day);
        let busy = |longitude: &f64| ((day + longitude) * 2.0 * PI).cos().max(0.0);
        self.longitudes.iter().map(|place| NIGHT + (1.0 - NIGHT) * busy(place)).collect()
    }

    /// Accesses a second that `group` makes at its place number `place` in second `at`, while its
    /// slot is at `owner`; `hours` are those of that second.
    pub(crate) fn rate(
        &self,
        group: &Group,
        place: usize,
        owner: Node,
        at: u32,
        hours: &[f64],
    ) -> f64 {
        let (host, peak) = group.places[place];
        let count = group.places.len() as u32;
        let turn = (at + group.phase) / group.period;
        let all = || group.places.iter().map(|(_, rate)| rate).sum::<f64>();
        let here = |is: bool| if is { all() } else { 0.0 };
        match group.kind {
            Kind::Sun => peak * hours[usize::from(host.0)],
            Kind::Turns => here(turn % count.min(2) == place as u32),
            Kind::Wanders => here(mixed(turn, group.phase) % count == place as u32),
            Kind::Crowds => {
                let crowd =
                    mixed(turn, group.phase).is_multiple_of(8) && turn % count == place as u32;
                peak * if crowd { 20.0 } else { 1.0 }
            }
            Kind::Flees => {
                let first = group.places.iter().position(|&(host, _)| host.0 != owner.0);
                here(first.unwrap_or_default() == place)
            }
        }
    }
}

fn group(size: Size, hard: f64, random: &mut Pcg64) -> Group {
    let is_hard = random.random_bool(hard);
    // In a world that is all hard some know where their state is, and go elsewhere.
    let kinds = if hard < 1.0 { Kind::UNKNOWING } else { Kind::HARD.len() };
    let kind = if is_hard { Kind::HARD[random.random_range(0..kinds)] } else { Kind::Sun };
    let count = if is_hard { 3 } else { random.random_range(1..=4) };
    let places =
        (0..count).map(|_| (Host(random.random_range(0..size.hosts) as u16), 0.0)).collect();
    let periods = [2, 3, 5, 8, 11, 12, 17, 23, 30, 45, 60, 120, 300];
    Group {
        kind,
        places,
        period: periods[random.random_range(0..periods.len())],
        phase: random.random_range(0..300),
        bytes: random.random_range(0..1 << 20),
    }
}

fn delays(
    sites: &[(f64, f64)],
    hosts: usize,
    site: &impl Fn(usize) -> usize,
    random: &mut impl Rng,
) -> Matrix {
    let mut delays = Matrix::unknown(hosts, hosts);
    for host in 0..hosts {
        for node in 0..hosts {
            let us = if host == node {
                LOCAL_US
            } else if site(host) == site(node) {
                SITE_US
            } else {
                NEAR_US + RADIAN_US * angle(sites[site(host)], sites[site(node)])
            };
            // Each direction and pair has its own detours.
            let us = us * if host == node { 1.0 } else { random.random_range(0.8..1.3) };
            delays.set(Host(host as u16), Node(node as u16), Duration::from_secs_f64(us / 1e6));
        }
    }
    delays
}

/// Between two places on the earth; the longitude is a part of a turn, the latitude in radians.
fn angle((a, north_a): (f64, f64), (b, north_b): (f64, f64)) -> f64 {
    let cos =
        north_a.sin() * north_b.sin() + north_a.cos() * north_b.cos() * ((a - b) * 2.0 * PI).cos();
    cos.clamp(-1.0, 1.0).acos()
}

/// The same for the same two numbers, and else anything.
fn mixed(one: u32, other: u32) -> u32 {
    let mut mixed = one.wrapping_mul(0x9E37_79B1) ^ other.wrapping_mul(0x85EB_CA77);
    mixed = (mixed ^ mixed >> 15).wrapping_mul(0x2C1B_3C6D);
    mixed ^ mixed >> 13
}
