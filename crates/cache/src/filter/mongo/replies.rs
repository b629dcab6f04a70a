//! Matching replies to requests, and login results.

use wire::{
    Result,
    mongo::{
        frame::{self, HEADER_BYTES, opcode},
        handshake::{self, Compression},
    },
};

use super::{
    Mongo, Tag,
    frames::{flags, header, inflate, whole},
    identity, server,
};
use crate::principal::Standing;

impl Mongo {
    pub(super) fn settle(
        &mut self,
        tag: &Tag,
        reply: &[u8],
        speculative: bool,
        standing: &mut Standing,
    ) {
        let Some(step) = &tag.step else { return };
        let told = server::read(reply, &self.settings.limits, |response| {
            identity::Told::by(&response.body, response.ok, speculative)
        });
        if let Some(login) = self.identity.settle(step, told.unwrap_or_default()) {
            standing.begin_again(login);
        }
    }

    /// Writes a greeting with the addresses of the cache in place of those of the members.
    pub(super) fn readdress(&self, reply: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let limits = &self.settings.limits;
        let (me, primary) = server::read(reply, limits, |greeting| {
            let text = |name| Some(greeting.body.element(name).ok()??.str()?.to_owned());
            (text("me"), text("primary"))
        })
        .unwrap_or_default();
        let address = |member: &str| {
            let advertise = self.settings.advertise.as_ref()?;
            Some(advertise.of(member, me.as_deref(), primary.as_deref()))
        };
        handshake::rewrite(&whole(reply, limits)?, &address, Compression::Keep, out)
    }

    /// Reads the start of a reply: its length, and whether it answers the request of `tag`. None
    /// asks for more bytes.
    pub(super) fn begin_reply(&mut self, bytes: &[u8], tag: Option<&Tag>) -> Result<Option<usize>> {
        const FLAGS_END: usize = HEADER_BYTES + 4;
        let limits = &self.settings.limits;
        let Some(length) = frame::frame_bytes(bytes, limits)? else { return Ok(None) };
        let Some(head) = bytes.get(..FLAGS_END) else { return Ok(None) };
        let header = header(head, length);
        // Some servers answer requests that need no answer. The reply is forwarded, as without the
        // cache, and is not matched to another request.
        let awaited = |tag: &Tag| if self.reply_continues { self.reply_id } else { tag.request_id };
        let Some(tag) = tag.filter(|tag| header.response_to == awaited(tag)) else {
            self.reply_answers = false;
            return Ok(Some(length));
        };
        self.reply_answers = true;
        self.reply_id = header.request_id;
        self.reply_continues = match header.opcode {
            opcode::MSG => flags(head) & MORE_TO_COME != 0,
            // The reply contains whether more replies follow.
            opcode::COMPRESSED if tag.exhaust => {
                let Some((frame, _)) = frame::decode(bytes, limits)? else { return Ok(None) };
                match inflate(&frame, limits)? {
                    Some(inflated) => flags(&inflated) & MORE_TO_COME != 0,
                    None => false,
                }
            }
            _ => false,
        };
        Ok(Some(length))
    }
}

/// OP_MSG flag: another reply follows unasked.
pub(super) const MORE_TO_COME: u32 = 1 << 1;
