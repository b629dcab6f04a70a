//! Messages to a switch that does not reply are resent until it does, with exponential backoff.

use std::{net::SocketAddr, time::Duration};

use switch::agent::{Agent, Config, Memory};
use wire::netcache::{Flags, Key, Message, Op};

const KEY: Key = *b"the only key....";

#[test]
fn resends_double_their_pause_up_to_a_limit_and_begin_anew_with_the_next_write() {
    let [controller, switch, client]: [SocketAddr; 3] =
        [50_001, 50_000, 4_000].map(|port| ([10, 0, 0, 1], port).into());
    let config = Config::default();
    let (mut store, mut now) = (Memory::default(), Duration::from_secs(1));
    let mut agent = Agent::new(config, controller, switch, 1, now);
    let mut tell = |agent: &mut Agent, from, message: Message<'_>, now| {
        agent.receive(from, &message, &mut store, now);
        std::iter::from_fn(|| agent.poll_output()).collect::<Vec<_>>()
    };
    tell(&mut agent, controller, Message { version: 1, ..Message::new(Op::Lease, 1, KEY) }, now);
    let ask = Message { version: 5, ..Message::new(Op::Fetch, 0, KEY) };
    let fetched = tell(&mut agent, controller, ask, now);
    let sequence = Message::decode(&fetched[0].1).expect("our own").sequence;
    let installed = Message { version: 5, ..Message::new(Op::Installed, sequence, KEY) };
    tell(&mut agent, controller, installed, now);
    for tag in [6, 7] {
        let put =
            Message { version: tag, value: b"x", ..Message::new(Op::PutCached, tag as u32, KEY) };
        assert_eq!(tell(&mut agent, client, put, now).len(), 2, "an answer and an update");
        let mut pauses = Vec::new();
        for _ in 0..10 {
            let again = agent.poll_timeout().expect("an update is not acknowledged");
            pauses.push((again - now).as_millis());
            now = again;
            agent.handle_timeout(&mut Memory::default(), now);
            assert_eq!(agent.poll_output().expect("once more").0, switch);
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 160, 160, 160, 160]);
        let flags = Flags::CACHED;
        let ack = Message { version: tag, flags, ..Message::new(Op::UpdateAck, 0, KEY) };
        tell(&mut agent, switch, ack, now);
        assert!(agent.poll_timeout().is_none_or(|at| at > now + config.resend_max));
    }
}
