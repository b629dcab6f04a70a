//! Frames too long to be held or inflated, understood from the command at their start.

use smallvec::SmallVec;
use wire::{
    Result,
    mongo::{
        command::Effect,
        compressed::{self, Compressed},
        frame::{self, Limits},
        request::Request as Command,
    },
};

use super::{
    Mongo, Tag,
    client::{self, in_transaction},
    flags, header,
    transaction::Extent,
};
use crate::{
    filter::{Flow, Reply, Request, Write},
    key::Scope,
    principal::{Login, Standing},
    stats::WhyNot,
};

/// Longest frame that a compressed one is inflated to as a whole.
const INFLATED_BYTES_MAX: usize = 1 << 20;
/// Number of bytes inflated of a longer message.
const INFLATED_BEGINNING_BYTES: usize = 64 << 10;

const GET_MORE: i32 = 2005;

/// Contents of a compressed frame.
#[derive(Debug)]
pub(super) enum Inflated {
    /// All of it.
    Whole(Vec<u8>),
    /// Only the beginning, because the contents are long.
    Beginning(Vec<u8>),
}

impl Inflated {
    pub(super) fn of(compressed: &Compressed<'_>, limits: &Limits) -> Result<Self> {
        if compressed.inflated_bytes() > INFLATED_BYTES_MAX.min(limits.inflated_bytes_max) {
            compressed.check_inflated_bytes(limits)?;
            let beginning = compressed.inflate_beginning(limits, INFLATED_BEGINNING_BYTES);
            return Ok(Self::Beginning(beginning));
        }
        let mut inflated = Vec::new();
        compressed.inflate(limits, &mut inflated)?;
        Ok(Self::Whole(inflated))
    }
}

impl Mongo {
    /// Names the flow of a frame that begins with `bytes`, as they came.
    pub(super) fn name_incoming<'m>(
        &mut self,
        bytes: &[u8],
        standing: &mut Standing,
    ) -> Request<'m, Tag> {
        let limits = &self.settings.limits;
        match compressed::beginning(bytes, limits, INFLATED_BEGINNING_BYTES) {
            Some(inflated) => self.name_beginning(&inflated, standing),
            None => self.name_beginning(bytes, standing),
        }
    }

    /// Names the flow of a frame that begins with `bytes`, header included and uncompressed.
    pub(super) fn name_beginning<'m>(
        &mut self,
        bytes: &[u8],
        standing: &mut Standing,
    ) -> Request<'m, Tag> {
        let header = header(bytes, bytes.len());
        let mut tag = Tag { request_id: header.request_id, ..Tag::default() };
        let unanswered =
            header.opcode == frame::opcode::MSG && flags(bytes) & super::replies::MORE_TO_COME != 0;
        let command = frame::beginning(bytes);
        let command = command.as_deref().and_then(|whole| {
            let (frame, _) = frame::decode(whole, &self.settings.limits).ok().flatten()?;
            Command::parse(&frame).ok().flatten()
        });
        let accepted = standing.login() == Login::Accepted;
        let flow = match &command {
            Some(command) => {
                tag.exhaust = command.flags.exhaust_allowed();
                let harmless = !matches!(
                    command.effect(),
                    Effect::Pipeline | Effect::Write(_) | Effect::TransactionEnd
                );
                match accepted || (harmless && !in_transaction(command)) {
                    true => self.flow_of_beginning(command, standing),
                    false => Flow::NeedsLogin,
                }
            }
            None if accepted => Flow::Write(Write::to(Scope::Origin(self.origin))),
            None => Flow::NeedsLogin,
        };
        let answered = matches!(
            header.opcode,
            frame::opcode::MSG | frame::opcode::COMPRESSED | frame::opcode::QUERY | GET_MORE
        );
        let reply = match (unanswered, answered) {
            (true, _) => Reply::Never,
            (false, true) => Reply::Plain,
            (false, false) => client::unanswered(header.opcode),
        };
        let mut request = Request { reply, ..Request::new(flow, tag) };
        if let (Flow::Write(write), Some(command)) = (&mut request.flow, &command) {
            write.name = command.command.map_or("", |row| row.name);
        }
        request
    }

    fn flow_of_beginning<'m>(
        &mut self,
        command: &Command<'_>,
        standing: &mut Standing,
    ) -> Flow<'m> {
        let effect = command.effect();
        if in_transaction(command) {
            self.settings.transactions.note(command, self.user(), &Extent::everything());
            return Flow::Write(Write::to_all(SmallVec::new()));
        }
        let everything = || Flow::Write(Write::to(Scope::Origin(self.origin)));
        match effect {
            Effect::Read { .. } | Effect::Cursor => Flow::Bypass(WhyNot::NotByKey),
            Effect::Write(_) => match (command.name, command.namespace.collection) {
                ("insert" | "update" | "delete" | "findAndModify" | "findandmodify", Some(_)) => {
                    Flow::Write(Write::to_all(self.collection_of(command)))
                }
                _ => everything(),
            },
            Effect::Session | Effect::Other => Flow::Coordination,
            // No login is that long: the identity of the connection is not followed.
            Effect::Authentication | Effect::Handshake => {
                self.identity.lose_track();
                standing.begin_again(Login::Unknown);
                Flow::Coordination
            }
            Effect::Pipeline | Effect::TransactionEnd => everything(),
        }
    }
}
