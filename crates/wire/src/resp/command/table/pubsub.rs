//! Publish and subscribe.

use super::super::Effect::{Other, PubSub};
use super::super::{Command, Flags, Keys};
use super::{ALWAYS, F, NONE, OWN};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("psubscribe", -2, PubSub, Keys::None, OWN.and(Flags::PUBSUB)),
    Command::new("publish", 3, Other, Keys::None, ALWAYS.and(F).and(Flags::PUBSUB)),
    Command::new("pubsub", -2, Other, Keys::None, NONE).containing(PUBSUB),
    Command::new("punsubscribe", -1, PubSub, Keys::None, OWN.and(Flags::PUBSUB)),
    Command::new("spublish", 3, Other, Keys::None, ALWAYS.and(F).and(Flags::PUBSUB)),
    Command::new("ssubscribe", -2, PubSub, Keys::None, OWN.and(Flags::PUBSUB)),
    Command::new("subscribe", -2, PubSub, Keys::None, OWN.and(Flags::PUBSUB)),
    Command::new("sunsubscribe", -1, PubSub, Keys::None, OWN.and(Flags::PUBSUB)),
    Command::new("unsubscribe", -1, PubSub, Keys::None, OWN.and(Flags::PUBSUB)),
];

const PUBSUB: &[Command] = &[
    Command::new("pubsub|channels", -2, Other, Keys::None, ALWAYS.and(Flags::PUBSUB)),
    Command::new("pubsub|help", 2, Other, Keys::None, ALWAYS),
    Command::new("pubsub|numpat", 2, Other, Keys::None, ALWAYS.and(Flags::PUBSUB)),
    Command::new("pubsub|numsub", -2, Other, Keys::None, ALWAYS.and(Flags::PUBSUB)),
    Command::new("pubsub|shardchannels", -2, Other, Keys::None, ALWAYS.and(Flags::PUBSUB)),
    Command::new("pubsub|shardnumsub", -2, Other, Keys::None, ALWAYS.and(Flags::PUBSUB)),
];
