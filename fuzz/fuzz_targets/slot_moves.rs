//! Arbitrary bytes as the cluster's replies to a mover of slots: the note in a slot, the names of
//! fences, and the state of open slots.
#![no_main]

use std::net::{Ipv4Addr, SocketAddr};

use libfuzzer_sys::fuzz_target;
use state::{
    lease::Token,
    members::{self, owners},
    note::{self, Note},
    slot::{SLOTS, Slot},
};

fuzz_target!(|bytes: &[u8]| {
    // A slot, then the elements of a list, separated by zero bytes.
    if let [high, low, list @ ..] = bytes {
        let number = usize::from(u16::from_be_bytes([*high, *low])) % SLOTS;
        let slot = Slot::new(number).expect("it is one");
        let elements: Vec<&[u8]> = list.split(|byte| *byte == 0).collect();
        match Note::read(slot, elements.iter().copied()) {
            Ok(note) => assert_eq!(note.expect("there is an element").elements(), elements),
            Err(error) => {
                let said = error.to_string();
                let place = format!("note {}, element ", note::key(slot));
                assert!(said.starts_with(&place), "an error without its place: {said}");
                assert!(said.contains("expected ") && said.contains("found "), "{said}");
            }
        }
    }
    let text = String::from_utf8_lossy(bytes);
    if let Some((token, name)) = Token::read(&text) {
        let channel = token.channel(name);
        let (same, _) = Token::read(&channel).expect("a channel of ours");
        assert_eq!(same, token);
    }
    let asked = SocketAddr::from((Ipv4Addr::LOCALHOST, 6379));
    let found = members::read(&text, asked);
    assert!(owners(&found).iter().flatten().all(|&owner| owner < found.len()));
});
