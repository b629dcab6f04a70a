//! With `always`, the reply that a key is absent is sent only after its removal or expiry is
//! durable, whichever client removed it or set its expiry.

#[expect(dead_code, reason = "shared by several tests")]
mod machine;

use std::time::Duration;

use machine::{Client, Machine, Setup, Turn};
use store::elastic::Sync;

fn say(client: &mut Client, machine: &Machine, command: &str) {
    client.say(format!("{command}\r\n").as_bytes());
    while !matches!(client.turn(machine, false), Turn::Answered(_)) {
        machine.rest();
    }
}

/// One client sends `one`, and some time later another client sends `other`.
fn is_kept_back(one: &str, other: &str) {
    let setup = Setup { shards: 1, memory_bytes: 256 << 20, sync: Sync::Always, seed: 1 };
    let mut machine = Machine::new(setup);
    let (mut first, mut second) = (machine.client(), machine.client());
    say(&mut first, &machine, "SET key value");
    machine.flush();
    machine.rest();
    say(&mut first, &machine, one);
    machine.now += Duration::from_millis(60);
    say(&mut second, &machine, other);
    assert!(second.heard(&machine).is_empty(), "{other} after {one}");
    machine.flush();
    assert!(!second.heard(&machine).is_empty(), "{other} after {one}");
}

#[test]
fn an_absence_is_told_when_a_crash_cannot_undo_it() {
    for one in ["DEL key", "PEXPIRE key 50"] {
        for other in ["GET key", "EXISTS key", "DEL key"] {
            is_kept_back(one, other);
        }
    }
}
