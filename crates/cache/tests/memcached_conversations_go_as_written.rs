//! Scripted conversations of memcached clients and servers through the cache:
//! `testdata/conversations/memcached/`.

#[path = "conversation/harness.rs"]
mod conversation;
#[path = "conversation/memcached.rs"]
mod memcached;

#[test]
fn memcached_conversations_go_as_written() {
    conversation::hold_all::<memcached::Memcached>("memcached");
}
