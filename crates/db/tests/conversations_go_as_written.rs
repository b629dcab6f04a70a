//! Scripted input of clients and expected output: `testdata/conversations/`.

#[path = "conversation/harness.rs"]
mod conversation;
#[expect(dead_code, reason = "shared by several tests")]
mod machine;
#[path = "../../wire/tests/resp/notation.rs"]
mod notation;

#[test]
fn conversations_go_as_written() {
    conversation::hold_all();
}
