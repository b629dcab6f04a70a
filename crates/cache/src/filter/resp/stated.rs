//! Values that writes state: with population `on-write` they are stored when the origin has
//! accepted them.

use std::time::Duration;

use smallvec::smallvec;
use wire::resp::{Command, Request as Message};

use super::Resp;
use crate::{filter::States, key::Key};

impl Resp {
    /// The values that a command gives to its keys, in their order.
    pub(super) fn stated_by<'m>(
        &self,
        command: &Command,
        message: &'m Message<'_>,
    ) -> Option<Box<[States<'m>]>> {
        match command.name {
            "set" => self.stated(message).map(|states| Box::from([states])),
            "mset" => Some(self.all_stated(message)),
            _ => None,
        }
    }

    /// Returns the value that `SET key value [EX seconds | PX milliseconds]` stores; with other
    /// options the outcome depends on the old value.
    fn stated<'m>(&self, message: &'m Message<'_>) -> Option<States<'m>> {
        let key = message.argument(1).filter(|key| self.rules.allow(key))?;
        let value = message.argument(2)?;
        let lives = match (message.len(), message.argument(3), message.argument(4)) {
            (3, ..) => None,
            (5, Some(unit), Some(count)) => {
                let count: u32 = std::str::from_utf8(count).ok()?.parse().ok()?;
                if unit.eq_ignore_ascii_case(b"EX") {
                    Some(Duration::from_secs(count.into()))
                } else if unit.eq_ignore_ascii_case(b"PX") {
                    Some(Duration::from_millis(count.into()))
                } else {
                    return None;
                }
            }
            _ => return None,
        };
        Some(self.states(key, value, lives))
    }

    /// The values that `MSET key value [key value ...]` gives; with none where one of the keys is
    /// excluded.
    fn all_stated<'m>(&self, message: &'m Message<'_>) -> Box<[States<'m>]> {
        let mut words = message.arguments().skip(1);
        let pairs = std::iter::from_fn(|| Some((words.next()?, words.next()?)));
        let allowed = pairs
            .map_while(|(key, value)| self.rules.allow(key).then(|| self.states(key, value, None)));
        allowed.collect()
    }

    fn states<'m>(&self, key: &'m [u8], value: &[u8], lives: Option<Duration>) -> States<'m> {
        let answer = [b"$", value].concat();
        let (key, variants) = (Key::new(self.namespace, key), smallvec![&b""[..]]);
        States { key, place: ("", ""), variants, answer, lives }
    }
}
