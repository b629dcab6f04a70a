//! `BatchGetItem`: stored items are combined with those of the origin.
//!
//! The origin is asked for the missing items alone. The signature of a request covers its body, so
//! that this request is signed again: with the secret of the client, for the time that the client
//! has stated. Not those of version 4A, whose signatures need randomness.

use std::{sync::Arc, time::Duration};

use wire::{
    dynamodb::{
        Message,
        batch::{BatchGetItem, KEYS_MAX, Table, TableNames, are_plain},
        reply::{self, Failure, write_error},
        request,
    },
    http1::Framing,
};

use super::{
    DynamoDb, Tag,
    client::{Signed, table_of, write_region},
};
use crate::{
    filter::{Answers, Flow, ReadMany, Request, Scratch},
    key::Key,
    principal::Standing,
    stats::WhyNot,
};

/// The first byte of variants of `BatchGetItem`: the right to it is not the right to `GetItem`.
/// Larger than the longest name of a region.
const MANY: u8 = b'b';

/// Headers that would not be true of the request for a part.
const OF_THE_BODY: [&str; 8] = [
    "content-digest",
    "content-md5",
    "digest",
    "expect",
    "x-amz-checksum-crc32",
    "x-amz-checksum-crc32c",
    "x-amz-checksum-sha1",
    "x-amz-checksum-sha256",
];

/// Places of a table's variant and of its keys in the scratch space.
struct Placed {
    variant: std::ops::Range<usize>,
    keys: Vec<std::ops::Range<usize>>,
}

impl DynamoDb {
    /// A read of several items.
    pub(super) fn get_many<'m>(
        &mut self,
        message: &Message<'_>,
        scratch: &'m mut Scratch,
        standing: &mut Standing,
        now: Duration,
    ) -> Request<'m, Tag> {
        let bypass = |why| Request::new(Flow::Bypass(why), Tag::Other);
        let Some(Signed { region, by_key_pair }) = self.identify(message, standing, now) else {
            return bypass(WhyNot::Unproven);
        };
        if by_key_pair {
            return bypass(WhyNot::Option);
        }
        let Some(batch) = BatchGetItem::parse(&message.body) else {
            return bypass(WhyNot::Option);
        };
        if let Some(why) = self.why_not(message, &batch, region) {
            return bypass(why);
        }
        let Some(placed) = place(&batch, region, scratch) else {
            return bypass(WhyNot::Expression);
        };
        let tables = Arc::new(TableNames::of(&batch));
        let (mut keys, mut answers) = (Vec::new(), Vec::new());
        for (table, Placed { variant, keys: places }) in batch.tables.iter().zip(placed) {
            let namespace = self.table(table.name.0.as_bytes());
            let variant = scratch.get(variant).unwrap_or_default();
            for place in places {
                let key = scratch.get(place).unwrap_or_default();
                answers.push((variant, table_of(key)));
                keys.push(Key::new(namespace, key));
            }
        }
        let mut sorted: Vec<&[u8]> = keys.iter().map(|key| key.bytes).collect();
        sorted.sort_unstable();
        if keys.len() != batch.keys() || sorted.windows(2).any(|two| two.first() == two.last()) {
            // One that the origin refuses, as it does if a key is there twice.
            return bypass(WhyNot::NotByKey);
        }
        let answers = Answers::Each(answers);
        Request::new(Flow::ReadMany(ReadMany { keys, answers }), Tag::Many(tables))
    }

    /// Why such a request passes, as far as its keys and projections do not tell.
    fn why_not(
        &self,
        message: &Message<'_>,
        batch: &BatchGetItem<'_>,
        region: &str,
    ) -> Option<WhyNot> {
        let head = &message.request.head;
        // A part of it is sent with its length, and the reply to that is read here.
        let is_plain = message.request.framing != Framing::Chunked && head.takes_known_codings();
        let stays = |name: &str| !OF_THE_BODY.iter().any(|other| name.eq_ignore_ascii_case(other));
        if !is_plain || !head.headers.iter().all(|(name, _)| stays(name)) || batch.wants_capacity()
        {
            return Some(WhyNot::Option);
        }
        if batch.tables.iter().any(Table::is_consistent) {
            return Some(WhyNot::ReadConcern);
        }
        if !(1..=KEYS_MAX).contains(&batch.keys()) || !are_plain(&batch.tables) {
            return Some(WhyNot::NotByKey);
        }
        let any = batch.tables.iter().any(|table| self.excludes(&table.name.0, region));
        any.then_some(WhyNot::Excluded)
    }

    /// Writes the request for those `keys` of a request alone.
    pub(super) fn ask_for<'k>(
        &mut self,
        original: &[u8],
        keys: impl Iterator<Item = &'k [u8]>,
        out: &mut Vec<u8>,
    ) {
        let decoded = request::decode(original, &self.settings.limits).ok().flatten();
        let Some((Message { request, body }, _)) = decoded else { return };
        let mut part = Vec::new();
        if let Some(batch) = BatchGetItem::parse(&body) {
            batch.write_part(keys, &mut part);
        }
        self.verifier.write_with_body(&request, &part, &self.credentials, out);
    }

    /// The parts of a reply; `None` if it is an error.
    pub(super) fn parts<'k>(
        &self,
        tables: &TableNames,
        keys: impl Iterator<Item = &'k [u8]>,
        reply: &[u8],
    ) -> Option<Vec<Vec<u8>>> {
        let limits = &self.settings.limits;
        let reply = reply::Reply::parse(reply, limits);
        let is_error = reply.as_ref().is_some_and(|reply| reply.head.status != 200);
        let answer = reply.as_ref().and_then(|reply| reply.answer(limits));
        // What cannot be read must not pass for the answer to the whole request.
        let (content, _) = answer.unwrap_or_default();
        (!is_error).then(|| tables.split(&content, keys))
    }

    /// Replaces the parts in `out` by the reply of which they are parts.
    pub(super) fn combine(&mut self, tables: &TableNames, out: &mut Vec<u8>) {
        let parts = out.get(self.combined_at..).unwrap_or_default();
        let body = tables.combine(parts);
        out.truncate(self.combined_at);
        let id = self.settings.request_id();
        match body {
            Some(body) => {
                reply::write("200 OK", reply::checksum(&body), &body, id, false, out);
            }
            None => write_error(Failure::Unavailable, UNREADABLE, id, out),
        }
    }
}

/// Error for a reply that cannot be combined with stored items.
const UNREADABLE: &str = "the origin's reply to BatchGetItem could not be read: expected an object with Responses and \
                          the items that were asked for; send the request again";

/// Writes the variants of all tables and their keys; `None` if a projection is not understood. A
/// key that is none is left out.
fn place(batch: &BatchGetItem<'_>, region: &str, scratch: &mut Scratch) -> Option<Vec<Placed>> {
    let tables = batch.tables.iter().map(|table| {
        let start = scratch.len();
        scratch.push(MANY);
        write_region(region, scratch);
        table.write_projection(scratch)?;
        let variant = start..scratch.len();
        let keys = (0..table.keys()).filter_map(|number| {
            let start = scratch.len();
            table.write_key(number, scratch).then_some(start..scratch.len())
        });
        let keys = keys.collect();
        Some(Placed { variant, keys })
    });
    tables.collect()
}
