//! Client requests: command, namespace, documents.

use super::bson::{Document, Element};
use super::command::{Command, Effect, Place, Scope};
use super::frame::{Body, Frame, Header};
use super::message::{Flags, Message, Sequences};
use super::reader::malformed;
use crate::Result;

#[cfg(test)]
mod tests;

/// A command.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The frame's header; a reply answers its `request_id`.
    pub header: Header,
    /// OP_MSG's flags; none for a legacy command.
    pub flags: Flags,
    /// Came as OP_QUERY, so the reply must be an OP_REPLY.
    pub legacy: bool,
    /// The command's name: its body's first element.
    pub name: &'a str,
    /// The command's row, or `None` when the table does not know it.
    pub command: Option<&'static Command>,
    /// The namespace that the command operates on.
    pub namespace: Namespace<'a>,
    /// The command itself.
    pub body: Document<'a>,
    sequences: Sequences<'a>,
}

/// A database and, where one is named, a collection of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Namespace<'a> {
    /// The database.
    pub database: &'a str,
    /// `None` when the command names none, or names it by UUID.
    pub collection: Option<&'a str>,
}

impl<'a> Namespace<'a> {
    /// Of `database.collection`; a collection's name may hold further dots.
    pub fn parse(text: &'a str) -> Self {
        match text.split_once('.') {
            Some((database, collection)) => Self { database, collection: Some(collection) },
            None => Self { database: text, collection: None },
        }
    }
}

impl<'a> Request<'a> {
    /// Reads the frame's command. `None` when the frame is not a command: a compressed one (inflate
    /// it first), a reply, a legacy find, or opaque.
    ///
    /// # Errors
    /// When the body names no command or no database, or is malformed before them.
    pub fn parse(frame: &Frame<'a>) -> Result<Option<Self>> {
        match frame.body() {
            Body::Msg(message) => Self::from_message(frame.header(), message).map(Some),
            Body::Query(query) => {
                let Some((database, body)) = query.command() else {
                    return Ok(None);
                };
                let first = first(&body)?;
                let parts = (Flags::default(), body, Sequences::none());
                Self::assemble(frame.header(), parts, first, database)
                    .map(|request| Some(Self { legacy: true, ..request }))
            }
            Body::Compressed(_) | Body::Reply(_) | Body::Opaque => Ok(None),
        }
    }

    /// Returns the effect of the command. One that is not in the table writes to everything.
    pub fn effect(&self) -> Effect {
        self.command.map_or(Effect::Write(Scope::Everything), |command| command.effect)
    }

    /// Whether a reply will come; without one the outcome of the command stays unknown.
    pub fn acknowledged(&self) -> bool {
        !self.flags.more_to_come()
    }

    /// The kind-1 sections.
    pub fn sequences(&self) -> Sequences<'a> {
        self.sequences
    }

    /// The documents of a list, wherever they stand: in the body's array `identifier` and in every
    /// kind-1 section of that name.
    pub fn documents(&self, identifier: &str) -> impl Iterator<Item = Result<Document<'a>>> {
        // A malformed body is one failing item, not an absent list.
        let (array, error) = match self.body.element(identifier) {
            Ok(element) => (element.and_then(|element| element.array()), None),
            Err(error) => (None, Some(Err(error))),
        };
        let inline = array.into_iter().flat_map(|array| array.documents());
        let sections = self
            .sequences
            .filter(move |sequence| sequence.identifier() == identifier.as_bytes())
            .flat_map(|sequence| sequence.documents())
            .map(Ok);
        error.into_iter().chain(inline).chain(sections)
    }

    fn from_message(header: Header, message: &Message<'a>) -> Result<Self> {
        let body = message.body();
        let first = first(&body)?;
        let Some(database) = body.element("$db")?.and_then(|element| element.str()) else {
            return Err(malformed(body.offset(), "a command with a string $db", "none"));
        };
        Self::assemble(header, (message.flags(), body, message.sequences()), first, database)
    }

    fn assemble(
        header: Header,
        (flags, body, sequences): (Flags, Document<'a>, Sequences<'a>),
        first: Element<'a>,
        database: &'a str,
    ) -> Result<Self> {
        let name = std::str::from_utf8(first.name())
            .map_err(|error| malformed(body.offset(), "a command's name in UTF-8", error))?;
        let command = Command::lookup(name);
        let namespace = namespace(command, &body, &first, database)?;
        Ok(Self { header, flags, legacy: false, name, command, namespace, body, sequences })
    }
}

fn first<'a>(body: &Document<'a>) -> Result<Element<'a>> {
    let none = || Err(malformed(body.offset(), "a command", "an empty document"));
    body.elements().next().unwrap_or_else(none)
}

fn namespace<'a>(
    command: Option<&'static Command>,
    body: &Document<'a>,
    first: &Element<'a>,
    database: &'a str,
) -> Result<Namespace<'a>> {
    let collection = match command.map(|command| command.place) {
        Some(Place::Collection) => first.str(),
        Some(Place::Field(field)) => body.element(field)?.and_then(|element| element.str()),
        Some(Place::Namespace) => {
            let whole = first.str().map(Namespace::parse);
            return Ok(whole.unwrap_or(Namespace { database, collection: None }));
        }
        Some(Place::Database) | None => None,
    };
    Ok(Namespace { database, collection })
}
