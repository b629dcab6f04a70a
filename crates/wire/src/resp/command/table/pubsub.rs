//! Publish and subscribe.

use super::super::Effect::{Other, PubSub};
use super::super::{Command, Keys};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("psubscribe", -2, PubSub, Keys::None),
    Command::new("publish", 3, Other, Keys::None),
    Command::new("pubsub", -2, Other, Keys::None).containing(PUBSUB),
    Command::new("punsubscribe", -1, PubSub, Keys::None),
    Command::new("spublish", 3, Other, Keys::None),
    Command::new("ssubscribe", -2, PubSub, Keys::None),
    Command::new("subscribe", -2, PubSub, Keys::None),
    Command::new("sunsubscribe", -1, PubSub, Keys::None),
    Command::new("unsubscribe", -1, PubSub, Keys::None),
];

const PUBSUB: &[Command] = &[
    Command::new("pubsub|channels", -2, Other, Keys::None),
    Command::new("pubsub|help", 2, Other, Keys::None),
    Command::new("pubsub|numpat", 2, Other, Keys::None),
    Command::new("pubsub|numsub", -2, Other, Keys::None),
    Command::new("pubsub|shardchannels", -2, Other, Keys::None),
    Command::new("pubsub|shardnumsub", -2, Other, Keys::None),
];
