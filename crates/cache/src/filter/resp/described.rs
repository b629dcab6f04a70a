//! Names of Redis messages for the log.

use wire::resp::{Request as Message, command};

use super::Resp;
use crate::filter::Described;

impl Described for Resp {
    type Message<'a> = Message<'a>;

    fn command(&self, message: &Message<'_>) -> &'static str {
        command::find(message).map_or("", |command| command.name)
    }
}
