//! Push messages to a client.

use wire::resp::Version;

use super::Session;
use crate::{clients::Message, reply::Reply};

impl Session {
    /// Writes pending messages for this client.
    #[inline]
    pub fn hear(&mut self, out: &mut Vec<u8>) {
        for message in self.connection.client.take_messages() {
            let mut reply = Reply::new(out, self.connection.version);
            let resp3 = self.connection.version == Version::Resp3;
            match message {
                Message::RedirectBroken(target) if resp3 => {
                    reply.push(2);
                    reply.text("tracking-redir-broken");
                    reply.integer(target as i64);
                }
                Message::Stale { keys, .. } if resp3 => {
                    reply.push(2);
                    reply.text("invalidate");
                    stale(&mut reply, keys.as_deref());
                }
                Message::Stale { keys, redirected: true, .. }
                    if !self.connection.channels.is_empty() =>
                {
                    reply.array(3);
                    reply.text("message");
                    reply.text("__redis__:invalidate");
                    stale(&mut reply, keys.as_deref());
                }
                _ => {}
            }
        }
    }
}

fn stale(reply: &mut Reply<'_>, keys: Option<&[Box<[u8]>]>) {
    match keys {
        Some(keys) => {
            reply.array(keys.len());
            keys.iter().for_each(|key| reply.bulk(key));
        }
        None => reply.null(),
    }
}
