//! Names of MongoDB messages for the log.

use wire::mongo::request::Request as Command;

use super::{Message, Mongo, frames::whole, large::Inflated};
use crate::filter::Described;

impl Described for Mongo {
    type Message<'a> = Message<'a>;

    fn command(&self, message: &Message<'_>) -> &'static str {
        let bytes = match &message.inflated {
            None => message.original,
            Some(Inflated::Whole(inflated)) => inflated,
            Some(Inflated::Beginning(_)) => return "",
        };
        let frame = whole(bytes, &self.settings.limits).ok();
        let command = frame.as_ref().and_then(|frame| Command::parse(frame).ok().flatten());
        command.and_then(|command| command.command).map_or("", |row| row.name)
    }
}
