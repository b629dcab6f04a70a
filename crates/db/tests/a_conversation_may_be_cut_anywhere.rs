//! A client's input may arrive in any chunks: the replies are the same, and requests beyond the
//! output limit are executed once there is room.

#[expect(dead_code, reason = "shared by several tests")]
mod machine;

use std::time::Duration;

use db::{
    conversation::{Bounds, Conversation, OUTPUT_BYTES_MIN, Turn},
    latency::CommandLatencies,
    lookups::Lookups,
};
use machine::{Machine, Setup};
use store::elastic::Sync;

/// A client with a database of its own.
struct Client {
    machine: Machine,
    conversation: Conversation,
    bounds: Bounds,
    done: u64,
}

impl Client {
    fn new() -> Self {
        let setup = Setup { shards: 3, memory_bytes: 256 << 20, sync: Sync::Never, seed: 1 };
        let machine = Machine::new(setup);
        let conversation = Conversation::new(machine.client().session);
        let bounds = Bounds::of(&machine.server);
        Self { machine, conversation, bounds, done: 0 }
    }

    fn say(&mut self, bytes: &[u8]) -> Result<(), wire::Error> {
        let Self { machine, conversation, bounds, done } = self;
        let mut turn = Turn {
            server: &machine.server,
            shards: &machine.shards,
            is_alone: true,
            lookups: &Lookups::default(),
            latencies: &CommandLatencies::default(),
            bounds,
            touched: &mut [false; 3],
            done,
            at_once: &mut 0,
            clock: &|| Duration::ZERO,
            began: Duration::from_secs(7),
            now: machine.now,
        };
        match bytes {
            b"" => conversation.proceed(&mut turn),
            bytes => conversation.receive(bytes, &mut turn),
        }
    }

    /// Takes all output.
    fn hear(&mut self) -> Vec<u8> {
        let released = self.conversation.release(|_, _| Ok::<_, ()>(true));
        let (output, end) = released.expect("no failure");
        let bytes = output.next(end).to_vec();
        output.advance(bytes.len());
        output.clear();
        bytes
    }
}

const REQUESTS: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\nINCR a\r\n*2\r\n$3\r\nGET\r\n$1\r\nb\r\n\
                          MULTI\r\n*3\r\n$6\r\nAPPEND\r\n$1\r\na\r\n$2\r\n\r\n\r\nGET a\r\nEXEC\r\nPING\r\n";
const REPLIES: &[u8] =
    b"+OK\r\n:2\r\n$-1\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:3\r\n$3\r\n2\r\n\r\n+PONG\r\n";

#[test]
fn replies_are_the_same_wherever_the_requests_are_cut() {
    for cut in 0..REQUESTS.len() {
        for second in [cut, cut + 1, cut + 3] {
            let second = second.min(REQUESTS.len());
            let mut client = Client::new();
            for part in [&REQUESTS[..cut], &REQUESTS[cut..second], &REQUESTS[second..]] {
                client.say(part).expect("requests");
            }
            let replies = client.hear();
            assert_eq!(replies.escape_ascii().to_string(), REPLIES.escape_ascii().to_string());
            assert_eq!(client.done, 8, "cut at {cut} and {second}");
        }
    }
}

#[test]
fn a_client_that_reads_nothing_is_not_served_until_it_does() {
    let mut client = Client::new();
    let value = "v".repeat(OUTPUT_BYTES_MIN);
    client.say(format!("SET a {value}\r\n").as_bytes()).expect("a request");
    client.hear();
    let count = 200;
    client.say("GET a\r\n".repeat(count).as_bytes()).expect("requests");
    assert!(!client.conversation.may_execute() && client.done < 1 + count as u64);
    let mut heard = client.hear().len();
    while client.conversation.may_execute() && client.done < 1 + count as u64 {
        client.say(b"").expect("requests");
        heard += client.hear().len();
    }
    assert_eq!(heard, count * (value.len() + "$16384\r\n\r\n".len()));
}

#[test]
fn what_is_no_request_ends_the_conversation_after_the_replies_before_it() {
    let mut client = Client::new();
    client.say(b"PING\r\n*x\r\nPING\r\n").expect_err("no request");
    client.say(b"PING\r\n").expect("ignored");
    let replies = client.hear();
    let expected = b"+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n";
    assert_eq!(replies.escape_ascii().to_string(), expected.escape_ascii().to_string());
    assert!(client.conversation.is_ending());
}

#[test]
fn commands_end_when_their_answers_are_written() {
    let mut client = Client::new();
    client.say(b"PING\r\nSET a 1\r\nGET a\r\nGE").expect("requests");
    assert_eq!(client.conversation.take_prompt(), None);
    client.hear();
    assert_eq!(client.conversation.take_prompt(), Some((3, Duration::from_secs(7))));
    assert_eq!(client.conversation.take_prompt(), None);
}
