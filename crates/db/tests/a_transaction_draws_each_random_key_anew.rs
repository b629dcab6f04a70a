//! Each RANDOMKEY draws its own key, also in one transaction.

#[expect(dead_code, reason = "shared by several tests")]
mod machine;

use std::collections::BTreeSet;

use machine::{Machine, Setup};
use store::elastic::Sync;
use wire::resp::{Limits, frame, request::write_command};

#[test]
fn a_transaction_draws_each_random_key_anew() {
    let setup = Setup { shards: 2, memory_bytes: 256 << 20, sync: Sync::Never, seed: 1 };
    let machine = Machine::new(setup);
    let mut client = machine.client();
    let mut said = Vec::new();
    for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        write_command(&mut said, &["SET", key, "1"]);
    }
    write_command(&mut said, &["MULTI"]);
    (0..20).for_each(|_| write_command(&mut said, &["RANDOMKEY"]));
    write_command(&mut said, &["EXEC"]);
    client.say(&said);
    while client.is_busy() {
        client.turn(&machine, false);
        machine.rest();
    }
    let heard = client.heard(&machine);
    let last = heard.windows(3).rposition(|three| three == b"*20").expect("an answer to EXEC");
    let (answer, _) =
        frame::decode(&heard[last..], &Limits::default()).expect("a reply").expect("a whole one");
    let drawn: BTreeSet<_> =
        answer.elements().map(|key| key.payload().map(<[u8]>::to_vec)).collect();
    assert!(drawn.len() > 1, "all draws gave {drawn:?}");
}
