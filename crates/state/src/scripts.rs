//! The Lua scripts that change a slot. A node executes each without interruption.
//!
//! Every [`Script`] starts with a check that the sender's fence stands at the node
//! ([`crate::lease`]); the type cannot be created without it.

use wire::resp::Reply;

use crate::{
    query::{Meaning, Query, Why, Word, done, words},
    slot::Slot,
};

/// A script that is executed only behind the fence of its sender.
#[derive(Debug, Clone, Copy)]
pub struct Script {
    name: &'static str,
    /// The first argument is [`crate::lease::Token::channel`].
    text: &'static str,
}

/// A script with its arguments and the meaning of its reply.
pub struct Call<'a, T> {
    script: Script,
    words: Vec<Word<'a>>,
    meaning: Meaning<'a, T>,
}

impl<'a, T: 'a> Call<'a, T> {
    pub(crate) fn new(
        script: Script,
        words: Vec<Word<'a>>,
        meaning: impl FnOnce(Reply) -> Result<T, Why> + 'a,
    ) -> Self {
        Self { script, words, meaning: Box::new(meaning) }
    }

    /// The command that executes it if the fence of this channel stands at the node. [`ASKING`]
    /// comes before it on the same connection.
    #[must_use]
    pub fn behind(self, channel: &'a str) -> Query<'a, T> {
        let mut words = words!["EVAL", self.script.text, 0, channel];
        words.extend(self.words);
        Query::new(words, self.meaning).named(self.script.name)
    }
}

/// Without this command a node that does not own a slot denies a script access to its keys.
pub const ASKING: &str = "ASKING";

/// Error code of a node at which the fence does not stand.
pub(crate) const FENCED: &str = "FENCED ";

macro_rules! script {
    ($(#[$doc:meta])* $name:ident, $body:literal) => {
        $(#[$doc])*
        pub(crate) const $name: Script = Script { name: stringify!($name), text: concat!(
            "local lease = table.remove(ARGV, 1) \
             if redis.call('PUBSUB', 'NUMSUB', lease)[2] == 0 then \
               return redis.error_reply('FENCED ' .. lease .. ' does not stand here') \
             end ",
            $body
        ) };
    };
}

script! {
    /// The slot comes from another node. Slot, source.
    IMPORT,
    "return redis.call('CLUSTER', 'SETSLOT', ARGV[1], 'IMPORTING', ARGV[2])"
}

script! {
    /// At first no client is redirected to the target, whether or not the node serves clients. A
    /// note can be read and created only while the slot is not open; DEL allows a node without free
    /// memory to write.
    TURN,
    "local slot, note, turn, to, third = unpack(ARGV) \
     redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', third) \
     redis.call('CLUSTER', 'SETSLOT', slot, 'STABLE') \
     local noted, wrote = redis.pcall('LRANGE', note, 0, -1), {} \
     if #noted > 0 then wrote = redis.pcall('LSET', note, 0, turn) \
     elseif not noted.err then \
       redis.pcall('DEL', note) \
       wrote = redis.pcall('RPUSH', note, turn, turn) \
     end \
     local failed = noted.err and noted or type(wrote) == 'table' and wrote.err and wrote \
     local sends = (failed or #noted > 0) and third or to \
     redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', sends) \
     return failed or noted"
}

script! {
    /// The redirection of clients to a third node is on disk before MIGRATE begins: a source that
    /// is killed during MIGRATE has all keys afterwards and knows of nothing else. Without keys
    /// there is no batch. Without a third node, clients may write keys at the target that must not
    /// be dropped, so the note names no batch. When no key is left, there is no note either: a node
    /// that learns over the bus that it has lost the slot would drop the note, find it in its log
    /// after a restart, and treat the slot as one that it imports.
    MOVE,
    "local slot, note, turn, next, to, third = unpack(ARGV) \
     if redis.call('LINDEX', note, 0) ~= turn then return redis.error_reply('ERR not its turn') end \
     local keys = {} \
     for _, key in ipairs(redis.call('CLUSTER', 'GETKEYSINSLOT', slot, ARGV[7])) do \
       if key ~= note then keys[#keys + 1] = key end \
     end \
     if #keys == 0 then redis.call('DEL', note) return 0 end \
     redis.call('LTRIM', note, 0, 0) \
     redis.call('RPUSH', note, third ~= to and turn or '', unpack(keys)) \
     redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', third) \
     redis.call('CLUSTER', 'SAVECONFIG') \
     local words = {unpack(ARGV, 8)} \
     words[#words + 1] = note \
     for _, key in ipairs(keys) do words[#words + 1] = key end \
     local said, left = redis.pcall('MIGRATE', unpack(words)), {} \
     redis.call('CLUSTER', 'SETSLOT', slot, 'STABLE') \
     redis.call('DEL', note) \
     if said.err then \
       for _, key in ipairs(keys) do \
        if redis.call('EXISTS', key) == 1 then left[#left + 1] = key end \
       end \
       redis.call('RPUSH', note, turn, #left > 0 and turn or next, unpack(left)) \
       redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', third) \
       return said \
     end \
     local rest = redis.call('CLUSTER', 'COUNTKEYSINSLOT', slot) \
     if rest > 0 then redis.call('RPUSH', note, next, next) end \
     redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to) \
     return rest"
}

script! {
    /// Redirects clients to the target again. Slot, note, turn, next turn, target.
    SEND,
    "local slot, note, turn, next, to = unpack(ARGV) \
     if redis.call('LINDEX', note, 0) ~= turn then return redis.error_reply('ERR not its turn') end \
     redis.call('DEL', note) \
     redis.call('CLUSTER', 'SETSLOT', slot, 'STABLE') \
     redis.call('RPUSH', note, next, next) \
     redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to) \
     return redis.status_reply('OK')"
}

script! {
    /// The note was sent ahead of its batch: without it, no key of the batch has arrived.
    SETTLE,
    "local noted = redis.call('LRANGE', ARGV[1], 0, -1) \
     if noted[2] ~= ARGV[2] then return redis.status_reply('OK') end \
     local keys = #ARGV > 2 and ARGV or noted \
     for i = 3, #keys do redis.call('DEL', keys[i]) end \
     redis.call('DEL', ARGV[1]) \
     return redis.status_reply('OK')"
}

script! {
    /// While the node waits for an answer of the other, a claim of the other may be outstanding.
    /// Without an owner, the script only checks this.
    OWN,
    "local note, slot, other, owner = unpack(ARGV) \
     local sent = string.match(redis.call('CLUSTER', 'NODES'), other .. ' %S+ %S+ %S+ (%d+) ') \
     if sent and sent ~= '0' then return 0 end \
     if not owner then return 1 end \
     redis.pcall('DEL', note) \
     return redis.call('CLUSTER', 'SETSLOT', slot, 'NODE', owner)"
}

script! {
    /// The slot is not open. Note, slot.
    STABLE,
    "redis.pcall('DEL', ARGV[1]) \
     return redis.call('CLUSTER', 'SETSLOT', ARGV[2], 'STABLE')"
}

script! {
    /// Values can be read only while the slot is importing; then no client is served there.
    READ,
    "redis.call('CLUSTER', 'SETSLOT', ARGV[1], 'IMPORTING', ARGV[2]) \
     local values = {} \
     for i = 3, #ARGV do \
       values[#values + 1] = redis.call('DUMP', ARGV[i]) \
       values[#values + 1] = redis.call('PEXPIRETIME', ARGV[i]) \
     end \
     redis.call('CLUSTER', 'SETSLOT', ARGV[1], 'STABLE') \
     return values"
}

script! {
    /// A key that exists already is newer, because no client is redirected to the target for it any
    /// more. The slot is migrating again afterwards in any case; otherwise a request for a key that
    /// was not returned yet would find none.
    RESTORE,
    "redis.call('CLUSTER', 'SETSLOT', ARGV[1], 'STABLE') \
     local refusal = false \
     for i = 3, #ARGV, 3 do \
       local said = redis.pcall('RESTORE', ARGV[i], ARGV[i + 2], ARGV[i + 1], 'ABSTTL') \
       if said.err and not string.find(said.err, 'BUSYKEY') then refusal = said end \
     end \
     redis.call('CLUSTER', 'SETSLOT', ARGV[1], 'MIGRATING', ARGV[2]) \
     return refusal or redis.status_reply('OK')"
}

script! {
    /// Some of the keys of a slot, the note among them. Slot, number of keys.
    KEYS,
    "return redis.call('CLUSTER', 'GETKEYSINSLOT', ARGV[1], ARGV[2])"
}

script! {
    /// The target drops keys that the source has taken. Slot, source, keys.
    DROP,
    "redis.call('CLUSTER', 'SETSLOT', ARGV[1], 'IMPORTING', ARGV[2]) \
     for i = 3, #ARGV do redis.call('DEL', ARGV[i]) end \
     return redis.status_reply('OK')"
}

script! {
    /// New owners of slots, for a node that is neither source nor target. Pairs of slot and owner.
    TELL,
    "for i = 1, #ARGV, 2 do \
       redis.pcall('CLUSTER', 'SETSLOT', ARGV[i], 'NODE', ARGV[i + 1]) \
     end \
     return redis.status_reply('OK')"
}

script! {
    /// The engine moves a slot (Valkey 9). Slot, target.
    MIGRATE_SLOT,
    "return redis.call('CLUSTER', 'MIGRATESLOTS', 'SLOTSRANGE', ARGV[1], ARGV[1], 'NODE', ARGV[2])"
}

/// Names the new owners of slots to a node that is neither source nor target.
#[must_use]
pub fn tell<'a>(owners: &[(Slot, &'a str)]) -> Call<'a, ()> {
    let words = owners.iter().flat_map(|&(slot, owner)| words![slot, owner]);
    Call::new(TELL, words.collect(), done)
}
