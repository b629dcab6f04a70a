//! Whatever happens to connections, shards and records: nothing is served that was overwritten
//! before the bound.

use proptest::prelude::*;

use super::*;

const ITEMS: u32 = 8;

#[derive(Debug, Clone)]
enum Event {
    Write(u32),
    /// A read, whose answer arrives later.
    Ask(u32),
    Answer,
    Split(usize),
    Expire,
    Trim,
    Lose,
    Connect,
    Recreate,
    /// Time passes, in milliseconds.
    Pass(u16),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..ITEMS).prop_map(Event::Write),
        8 => (0..ITEMS).prop_map(Event::Ask),
        6 => Just(Event::Answer),
        1 => (1_usize..3).prop_map(Event::Split),
        1 => Just(Event::Expire),
        1 => Just(Event::Trim),
        1 => Just(Event::Lose),
        3 => Just(Event::Connect),
        1 => Just(Event::Recreate),
        6 => (1_u16..3_000).prop_map(Event::Pass),
    ]
}

/// Items by when they were written last, and what is on its way or stored: when its value was
/// overwritten must be known.
#[derive(Default)]
struct History {
    written_at: [Option<Duration>; ITEMS as usize],
    /// When the value that is stored was read at the origin.
    stored: [Option<Duration>; ITEMS as usize],
    answers: Vec<(Lease, u32, Duration)>,
}

impl History {
    fn apply(&mut self, world: &mut World, event: &Event) {
        match *event {
            Event::Write(item) => {
                world.origin.write("items", item);
                self.written_at[item as usize] = Some(world.now);
            }
            Event::Ask(item) => {
                let is_settling = world.is_settling(item);
                if let Some(lease) = world.lease(item) {
                    match is_settling || !world.is_followed("items") {
                        true => world.storage.release(lease),
                        false => self.answers.push((lease, item, world.now)),
                    }
                }
            }
            Event::Answer => {
                if let Some((lease, item, asked_at)) = self.answers.pop()
                    && world.fill(lease, item)
                {
                    self.stored[item as usize] = Some(asked_at);
                }
            }
            Event::Split(children) => world.origin.split("items", children, false),
            Event::Expire => world.origin.expire(),
            Event::Trim => world.origin.trim("items"),
            Event::Lose => world.lose(),
            Event::Connect if !world.connected => world.connect(),
            Event::Connect => {}
            Event::Recreate => {
                world.origin.create("items");
                // Its items are lost.
                self.written_at = [Some(world.now); ITEMS as usize];
            }
            Event::Pass(milliseconds) => world.run(Duration::from_millis(milliseconds.into())),
        }
    }

    /// A value is served for no longer than the bound after it was overwritten. That its table was
    /// created anew is seen with the next list.
    fn check(&self, world: &mut World) -> Result<(), TestCaseError> {
        for item in 0..ITEMS {
            let (Some(read_at), Some(written_at)) =
                (self.stored[item as usize], self.written_at[item as usize])
            else {
                continue;
            };
            let bound = SILENCE_MAX.max(REFRESH);
            if world.is_followed("items") && world.serves(item) && read_at < written_at {
                prop_assert!(world.now <= written_at + bound, "item {} at {:?}", item, world.now);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn nothing_is_served_that_was_overwritten_before_the_bound(
        events in prop::collection::vec(event(), 1..80),
        page in 1_usize..4,
    ) {
        let mut world = World::standing();
        world.origin.page = page;
        let mut history = History::default();
        for event in &events {
            history.apply(&mut world, event);
            history.check(&mut world)?;
        }
        // It becomes whole again, and what it serves then is right.
        if !world.connected {
            world.connect();
        }
        world.run(2 * REFRESH);
        prop_assert!(world.feed.is_open() && world.is_followed("items"));
        history.check(&mut world)?;
        history.answers.drain(..).for_each(|(lease, ..)| world.storage.release(lease));
    }
}
