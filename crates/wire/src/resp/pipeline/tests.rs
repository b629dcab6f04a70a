use proptest::prelude::*;

use super::*;
use crate::resp::{frame, response, scanner::tests::REPLIES};

fn pipeline(commands: usize) -> Pipeline {
    let mut pipeline = Pipeline::new(commands, &Limits::default());
    for _ in 0..commands {
        pipeline.command(&["PING"]).unwrap();
    }
    pipeline
}

/// Replies to `count` commands; the input comes in chunks of these sizes, repeated.
fn replies(bytes: &[u8], sizes: &[usize], count: usize) -> Vec<Reply> {
    let (mut pipeline, mut replies, mut rest) = (pipeline(count), Vec::new(), bytes);
    for size in sizes.iter().cycle() {
        let (chunk, after) = rest.split_at(rest.len().min(*size));
        pipeline.room(chunk.len()).extend_from_slice(chunk);
        while let Some(reply) = pipeline.reply().unwrap() {
            replies.push(reply);
        }
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    assert_eq!(pipeline.outstanding(), count - replies.len());
    replies
}

#[test]
fn commands_leave_in_order_and_once() {
    let mut pipeline = Pipeline::new(2, &Limits::default());
    pipeline.command(&["GET", "k"]).unwrap();
    pipeline.command(&[b"DEL".as_slice(), b"\r\n"]).unwrap();
    let written = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*2\r\n$3\r\nDEL\r\n$2\r\n\r\n\r\n";
    assert_eq!(pipeline.take_output(), written);
    assert!(pipeline.take_output().is_empty());
}

#[test]
fn no_more_commands_wait_than_are_allowed() {
    let mut pipeline = pipeline(2);
    let written = pipeline.take_output();
    assert!(pipeline.is_full() && !written.is_empty());
    let error = pipeline.command(&["PING"]).unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: 2, got: 3, .. }), "{error}");
    assert!(pipeline.take_output().is_empty());
    pipeline.room(0).extend_from_slice(b"+PONG\r\n");
    assert!(pipeline.reply().unwrap().is_some());
    pipeline.command(&["PING"]).unwrap();
}

#[test]
fn a_reply_without_a_command_is_an_error_and_a_message_is_not() {
    let mut pipeline = pipeline(1);
    assert_eq!(pipeline.reply().unwrap(), None);
    pipeline.room(0).extend_from_slice(b":1\r\n*1\r\n+message\r\n");
    assert_eq!(pipeline.reply().unwrap(), Some(Reply::Integer(1)));
    let error = pipeline.reply().unwrap_err().to_string();
    assert!(error.contains("no command") && error.contains("*1\\r\\n+message"), "{error}");
    let message = Reply::List(vec![Reply::Bytes(b"message".to_vec())]);
    assert_eq!(pipeline.message().unwrap(), Some(message));
    assert_eq!(pipeline.reply().unwrap(), None);
}

#[test]
fn a_reply_past_the_limit_is_refused_before_it_has_come() {
    let limits = Limits { reply_bytes_max: 100, ..Limits::default() };
    let mut pipeline = Pipeline::new(1, &limits);
    pipeline.command(&["GET", "k"]).unwrap();
    pipeline.room(0).extend_from_slice(b"$101\r\n");
    assert!(matches!(pipeline.reply(), Err(Error::TooLarge { limit: 100, .. })));
}

#[test]
fn a_long_string_keeps_its_buffer_and_what_follows_it_stays() {
    for length in [OWN_BUFFER_BYTES_MIN - 1, OWN_BUFFER_BYTES_MIN, 5 * OWN_BUFFER_BYTES_MIN] {
        let string: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let mut bytes = Vec::new();
        response::write_integer(&mut bytes, 7);
        response::write_bulk(&mut bytes, &string);
        response::write_integer(&mut bytes, -2);
        response::write_bulk(&mut bytes, &string);
        let string = Reply::Bytes(string);
        let expected = [Reply::Integer(7), string.clone(), Reply::Integer(-2), string];
        for sizes in [[bytes.len()], [1000], [4096]] {
            assert_eq!(replies(&bytes, &sizes, 4), expected, "{length} in {sizes:?}");
        }
    }
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_replies(
        picked in proptest::collection::vec(0..REPLIES.len(), 1..20),
        sizes in proptest::collection::vec(1..9_usize, 1..8),
    ) {
        let expected: Vec<Reply> = picked
            .iter()
            .map(|&at| Reply::from(&frame::decode(REPLIES[at].0, &Limits::default()).unwrap().unwrap().0))
            .collect();
        let bytes: Vec<u8> = picked.iter().flat_map(|&at| REPLIES[at].0).copied().collect();
        prop_assert_eq!(replies(&bytes, &sizes, picked.len()), expected);
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), size in 1..9_usize) {
        let mut pipeline = pipeline(100);
        for chunk in bytes.chunks(size) {
            pipeline.room(0).extend_from_slice(chunk);
            while let Ok(Some(_)) = pipeline.reply() {}
        }
    }
}
