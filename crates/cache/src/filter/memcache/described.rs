//! What the log says of memcached messages.

use wire::memcache::Request as Message;

use super::Memcache;
use crate::filter::Described;

impl Described for Memcache {
    type Message<'a> = Message<'a>;

    fn command(&self, message: &Message<'_>) -> &'static str {
        message.name()
    }
}
