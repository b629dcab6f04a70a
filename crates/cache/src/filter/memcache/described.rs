//! Names of memcached messages for the log.

use wire::memcache::Request as Message;

use super::Memcache;
use crate::filter::Described;

impl Described for Memcache {
    type Message<'a> = Message<'a>;

    fn command(&self, message: &Message<'_>) -> &'static str {
        message.name()
    }
}
