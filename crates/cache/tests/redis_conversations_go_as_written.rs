//! Scripted conversations of Redis clients and servers through the cache:
//! `testdata/conversations/redis/`.

#[path = "conversation/harness.rs"]
mod conversation;
#[path = "conversation/redis.rs"]
mod redis;

#[test]
fn redis_conversations_go_as_written() {
    conversation::hold_all::<redis::Redis>("redis");
}
