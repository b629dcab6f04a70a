//! SUBSCRIBE and UNSUBSCRIBE: needed to receive invalidations in RESP2. Nothing else is ever
//! published.

use crate::{call::Call, failure::Failure, outcome::Outcome};

/// Channels one client may subscribe to.
const CHANNELS_MAX: usize = 1_024;

pub(crate) fn subscribe(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    if call.connection.channels.len() + call.args.len() > CHANNELS_MAX {
        return Err(Failure::new(format!("ERR more than {CHANNELS_MAX} channels")));
    }
    for channel in &call.args[1..] {
        call.connection.channels.insert((*channel).into());
        tell(call, "subscribe", Some(channel));
    }
    Ok(Outcome::Done)
}

pub(crate) fn unsubscribe(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let channels: Vec<Box<[u8]>> = match &call.args[1..] {
        [] => call.connection.channels.iter().cloned().collect(),
        named => named.iter().map(|&channel| channel.into()).collect(),
    };
    if channels.is_empty() {
        tell(call, "unsubscribe", None);
    }
    for channel in channels {
        call.connection.channels.remove(&channel);
        tell(call, "unsubscribe", Some(&channel));
    }
    Ok(Outcome::Done)
}

fn tell(call: &mut Call<'_, '_>, what: &str, channel: Option<&[u8]>) {
    let count = call.connection.channels.len();
    call.connection.client.details.lock().subscriptions = count;
    call.reply.push(3);
    call.reply.text(what);
    call.reply.optional(channel);
    call.reply.count(count);
}
