use std::time::Duration;

use super::{Action, Config, End, Event, Monitor, Told};
use crate::monitor::Monitor as _;

const START: Duration = Duration::from_secs(1);
const SENTINELS: usize = 3;

struct World {
    monitor: Monitor,
    now: Duration,
    actions: Vec<Action>,
}

fn bulks(kind: char, texts: &[&str]) -> Vec<u8> {
    let bulks: String = texts.iter().map(|text| format!("${}\r\n{text}\r\n", text.len())).collect();
    format!("{kind}{}\r\n{bulks}", texts.len()).into_bytes()
}

impl World {
    fn new() -> Self {
        let sentinels = (0..SENTINELS).map(|number| format!("s{number}:26379")).collect();
        let config = Config { name: "main".to_owned(), sentinels, ..Config::default() };
        let mut world = Self { monitor: Monitor::new(config), now: START, actions: Vec::new() };
        world.step(Event::Time);
        world
    }

    /// All three sentinels name `a:1`, which is a master.
    fn following() -> Self {
        let mut world = Self::new();
        for number in 0..SENTINELS {
            world.greet(number);
            world.names(number, "a");
        }
        world.step(Event::Connected(End::Node));
        world.role("master");
        assert_eq!(world.monitor.primary(), Some("a:1"));
        world.actions.clear();
        world
    }

    /// The same after all Sentinels were asked again and named the same primary.
    fn confirmed() -> Self {
        let mut world = Self::following();
        world.wait();
        for number in 0..SENTINELS {
            world.names(number, "a");
        }
        world.actions.clear();
        world
    }

    fn step(&mut self, event: Event<'_>) {
        let actions = self.monitor.step(event, self.now);
        self.actions.extend(actions);
    }

    fn hear(&mut self, end: End, bytes: &[u8]) {
        self.step(Event::Received(end, bytes));
    }

    fn greet(&mut self, number: usize) {
        self.step(Event::Connected(End::Sentinel(number)));
        self.hear(End::Sentinel(number), b"%1\r\n$5\r\nproto\r\n:3\r\n");
        self.hear(End::Sentinel(number), b">3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n");
    }

    fn names(&mut self, number: usize, host: &str) {
        self.hear(End::Sentinel(number), &bulks('*', &[host, "1"]));
    }

    fn role(&mut self, role: &str) {
        self.hear(End::Node, &bulks('*', &[role, "0"]));
    }

    /// Advances to the next timeout, at the latest the next query of each sentinel.
    fn wait(&mut self) {
        self.now += Duration::from_secs(1);
        self.step(Event::Time);
    }

    fn did(&self, action: &Action) -> bool {
        self.actions.contains(action)
    }

    fn sent(&self, end: End, word: &str) -> bool {
        self.actions.iter().any(|action| match action {
            Action::Send(to, bytes) => *to == end && String::from_utf8_lossy(bytes).contains(word),
            _ => false,
        })
    }
}

fn follow(host: &str) -> Action {
    Action::Follow(format!("{host}:1"))
}

#[test]
fn a_node_is_followed_once_most_name_it_and_it_is_a_master() {
    let mut world = World::new();
    for number in 0..SENTINELS {
        assert!(world.did(&Action::Connect(End::Sentinel(number), format!("s{number}:26379"))));
    }
    world.greet(0);
    assert!(world.sent(End::Sentinel(0), "HELLO") && world.sent(End::Sentinel(0), "SUBSCRIBE"));
    world.names(0, "a");
    assert!(!world.did(&Action::Connect(End::Node, "a:1".to_owned())), "no majority");
    world.greet(1);
    world.names(1, "a");
    assert!(world.did(&Action::Connect(End::Node, "a:1".to_owned())));
    world.step(Event::Connected(End::Node));
    assert!(world.sent(End::Node, "ROLE"));
    assert!(!world.did(&follow("a")));
    world.role("master");
    assert!(world.did(&follow("a")));
    assert!(!world.did(&Action::Leave));
}

#[test]
fn a_change_is_asked_of_all_at_once_and_the_old_primary_is_left_first() {
    let mut world = World::confirmed();
    let message = bulks('>', &["message", "+switch-master", "main a 1 b 1"]);
    world.hear(End::Sentinel(2), &message);
    for number in 0..SENTINELS {
        assert!(world.sent(End::Sentinel(number), "get-master-addr-by-name"), "{number}");
    }
    world.names(2, "b");
    assert!(!world.did(&Action::Leave), "no majority");
    world.names(0, "b");
    let places = |world: &World, action: &Action| {
        world.actions.iter().position(|one| one == action).unwrap_or(usize::MAX)
    };
    let left = places(&world, &Action::Leave);
    assert!(left < places(&world, &Action::Connect(End::Node, "b:1".to_owned())));
    assert_eq!(world.monitor.primary(), None);
    world.step(Event::Connected(End::Node));
    world.role("master");
    assert_eq!(world.monitor.primary(), Some("b:1"));
    let told = Told::Follows {
        name: "main".to_owned(),
        primary: "b:1".to_owned(),
        before: Some("a:1".to_owned()),
        named_by: 2,
        of: 3,
    };
    assert!(world.did(&Action::Tell(told)));
}

#[test]
fn a_message_about_another_name_asks_nothing() {
    let mut world = World::confirmed();
    world.hear(End::Sentinel(0), &bulks('>', &["message", "+switch-master", "other a 1 b 1"]));
    assert_eq!(world.actions, []);
}

#[test]
fn one_sentinel_that_lies_changes_nothing() {
    let mut world = World::following();
    for _ in 0..20 {
        world.wait();
        world.names(0, "liar");
        world.names(1, "a");
        world.names(2, "a");
        world.role("master");
        world
            .hear(End::Sentinel(0), &bulks('>', &["message", "+switch-master", "main a 1 liar 1"]));
    }
    assert_eq!(world.monitor.primary(), Some("a:1"));
    assert!(!world.did(&Action::Leave));
}

#[test]
fn a_replica_is_never_followed_and_asked_until_it_is_promoted() {
    let mut world = World::following();
    world.wait();
    world.names(0, "b");
    world.names(1, "b");
    world.step(Event::Connected(End::Node));
    for _ in 0..3 {
        world.role("slave");
        assert_eq!(world.monitor.primary(), None);
        world.wait();
    }
    let told = |action: &&Action| matches!(action, Action::Tell(Told::NotPrimary { .. }));
    assert_eq!(world.actions.iter().filter(told).count(), 1, "it is logged once");
    world.role("master");
    assert_eq!(world.monitor.primary(), Some("b:1"));
}

#[test]
fn a_primary_that_was_demoted_is_left_although_it_is_named() {
    let mut world = World::following();
    world.wait();
    world.role("slave");
    assert!(world.did(&Action::Leave));
    assert_eq!(world.monitor.primary(), None);
}

#[test]
fn while_sentinels_are_gone_the_primary_stays() {
    let mut world = World::following();
    for number in 0..SENTINELS {
        world.step(Event::Lost(End::Sentinel(number), "refused"));
    }
    for _ in 0..10 {
        world.wait();
        world.role("master");
        for number in 0..SENTINELS {
            world.step(Event::Lost(End::Sentinel(number), "refused"));
        }
    }
    assert!(!world.did(&Action::Leave));
    assert_eq!(world.monitor.primary(), Some("a:1"));
    let told = |action: &&Action| matches!(action, Action::Tell(Told::Answering { .. }));
    assert_eq!(world.actions.iter().filter(told).count(), 1, "{:?}", world.actions);
    let trouble = |action: &&Action| matches!(action, Action::Tell(Told::Trouble { .. }));
    assert_eq!(world.actions.iter().filter(trouble).count(), SENTINELS);
    // The interval between attempts grows up to the limit.
    let connects = |action: &&Action| matches!(action, Action::Connect(End::Sentinel(0), _));
    let tries = world.actions.iter().filter(connects).count();
    assert!((3..=6).contains(&tries), "{tries} attempts within 10 s");
}

#[test]
fn a_minority_that_is_left_moves_no_one() {
    let mut world = World::following();
    world.step(Event::Lost(End::Sentinel(0), "refused"));
    world.step(Event::Lost(End::Sentinel(1), "refused"));
    world.wait();
    world.names(2, "b");
    assert!(!world.did(&Action::Leave));
}

#[test]
fn a_silent_sentinel_is_given_up() {
    let mut world = World::following();
    world.wait();
    let silence = Config::default().pace.silence_max;
    assert!(world.monitor.poll_timeout() <= world.now + silence);
    world.now += silence;
    world.step(Event::Time);
    assert!(world.did(&Action::Close(End::Sentinel(0))));
    assert!(world.did(&Action::Close(End::Node)));
    assert_eq!(world.monitor.primary(), Some("a:1"));
}

#[test]
fn a_node_that_does_not_tell_its_role_is_used_and_it_is_said() {
    let mut world = World::new();
    for number in 0..2 {
        world.greet(number);
        world.names(number, "a");
    }
    world.step(Event::Connected(End::Node));
    world.hear(End::Node, b"-NOAUTH Authentication required.\r\n");
    assert!(world.did(&follow("a")));
    let told = |action: &&Action| matches!(action, Action::Tell(Told::Unverified { .. }));
    assert_eq!(world.actions.iter().filter(told).count(), 1);
}

#[test]
fn a_sentinel_that_refuses_the_login_is_named_and_asked_again_later() {
    let mut world = World::new();
    world.step(Event::Connected(End::Sentinel(0)));
    world.hear(
        End::Sentinel(0),
        b"-NOAUTH HELLO must be called with the client already\r\n-NOAUTH x\r\n",
    );
    assert!(world.did(&Action::Close(End::Sentinel(0))));
    let told = |action: &&Action| matches!(action, Action::Tell(Told::Trouble { .. }));
    assert_eq!(world.actions.iter().filter(told).count(), 1);
}
