//! Explains why a read is a hit or not: how a filter interprets the request, and what storage has
//! for it. Nothing is forwarded, stored or counted, and no value is shown.
//!
//! The read is explained for a connection that has logged in, outside a transaction. Reasons that
//! depend on more (WATCH, causal reads, rights that the origin has not reported yet) are counted in
//! `why-not`.

use std::{fmt, sync::Arc, time::Duration};

use wire::{
    mongo::json,
    resp::{Version, request},
};

use crate::{
    filter::{Filter, Flow, Read, Scratch, memcache, mongo, resp},
    key::{Key, Namespace},
    principal::{Identity, Standing},
    rules::{Pattern, Rules},
    stats::WhyNot,
    storage::{Inspection, Refusal, Stored, shards::Shards},
};

mod meaning;

/// The protocol of a listener, as its sessions use it.
#[derive(Debug, Clone, Copy)]
pub enum Speaker<'a> {
    /// MongoDB.
    Mongo(&'a Arc<mongo::Settings>),
    /// Redis or Valkey.
    Resp(&'a Arc<resp::Settings>),
    /// memcached.
    Memcache(&'a Arc<memcache::Settings>),
}

/// A read to be explained.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The command and its arguments. MongoDB: `find`, `database.collection`, filter and, if
    /// wanted, projection, both as JSON.
    pub words: &'a [String],
    /// Redis: the database that the connection has selected.
    pub database: u32,
}

/// The storage that is looked at.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// All of it.
    pub shards: &'a Shards,
    /// Longest time for which a write that bypasses the cache stays unseen.
    pub bound: Duration,
    /// Whether the origin reports such writes.
    pub fed: bool,
    /// Time now.
    pub now: Duration,
}

impl fmt::Debug for Place<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Place").finish_non_exhaustive()
    }
}

/// A form of the read, and the variant under which its answers are stored.
struct Form {
    name: &'static str,
    variant: Vec<u8>,
}

impl Speaker<'_> {
    /// Explains `asked`, in lines.
    ///
    /// # Errors
    /// It is not a read of the protocol: what is expected.
    pub fn explain(self, asked: Asked<'_>, place: Place<'_>) -> Result<String, String> {
        match self {
            Self::Resp(settings) => {
                let bytes = redis_request(asked.words)?;
                let filter = |version| resp::Resp::in_state(settings, asked.database, version);
                let mut forms = Vec::new();
                for (name, version) in [("RESP2", Version::Resp2), ("RESP3", Version::Resp3)] {
                    let variant =
                        judge(filter(version), &bytes, place.now, |flow, _| match flow {
                            Flow::Read(read) => read.variant.to_vec(),
                            _ => Vec::new(),
                        })?;
                    forms.push(Form { name, variant });
                }
                judge(filter(Version::Resp2), &bytes, place.now, |flow, rules| {
                    lines((flow, rules), &forms, place, |_| meaning::redis())
                })?
            }
            Self::Mongo(settings) => {
                let bytes = find_request(asked.words)?;
                let filter = mongo::Mongo::new(Arc::clone(settings));
                judge(filter, &bytes, place.now, |flow, rules| {
                    let forms = match flow {
                        Flow::Read(read) => mongo_forms(read.variant),
                        _ => Vec::new(),
                    };
                    lines((flow, rules), &forms, place, |read| {
                        meaning::mongo(by_field(settings, read))
                    })
                })?
            }
            Self::Memcache(settings) => {
                let bytes = memcached_request(asked.words)?;
                let filter = memcache::Memcache::new(Arc::clone(settings));
                judge(filter, &bytes, place.now, |flow, rules| {
                    let form = match flow {
                        Flow::Read(read) => read.variant,
                        _ => &[],
                    };
                    let forms = [Form { name: "", variant: form.to_vec() }];
                    lines((flow, rules), &forms, place, |_| meaning::memcached())
                })?
            }
        }
    }
}

/// Whether a read finds its record by a field other than `_id`.
fn by_field(settings: &mongo::Settings, read: Option<&Read<'_>>) -> bool {
    read.is_some_and(|read| {
        let (database, collection) = (read.place.0.as_bytes(), read.place.1.as_bytes());
        let namespace = Namespace::new(settings.secret, &settings.origin, database, collection);
        read.key.namespace != namespace
    })
}

fn redis_request(words: &[String]) -> Result<Vec<u8>, String> {
    if words.is_empty() {
        return Err("no request: expected a command that reads, as in GET user:42".to_owned());
    }
    let mut bytes = Vec::new();
    request::write_command(&mut bytes, words);
    Ok(bytes)
}

fn find_request(words: &[String]) -> Result<Vec<u8>, String> {
    match words {
        [find, namespace, filter, rest @ ..] if find == "find" && rest.len() <= 1 => {
            json::find(namespace, filter, rest.first().map(String::as_str))
        }
        _ => Err("expected find DATABASE.COLLECTION FILTER [PROJECTION], as in \
                  find shop.items '{\"_id\": 42}'"
            .to_owned()),
    }
}

fn memcached_request(words: &[String]) -> Result<Vec<u8>, String> {
    // Any other command could change what the connections of the listener share.
    let reads = words.first().is_some_and(|verb| matches!(verb.as_str(), "get" | "gets" | "mg"));
    let is_line = words.iter().all(|word| !word.contains(['\r', '\n', ' ']) && !word.is_empty());
    if !reads || words.len() < 2 || !is_line {
        return Err("expected get, gets or mg and a key, as in get user:42".to_owned());
    }
    Ok([words.join(" ").as_bytes(), b"\r\n"].concat())
}

/// A client can state read concern and preference or leave them out; a driver that is connected to
/// one server directly states a preference by itself.
fn mongo_forms(variant: &[u8]) -> Vec<Form> {
    let projection = variant.get(2..).unwrap_or_default();
    [
        ("primary", [0, 0]),
        ("primary preferred", [0, 1]),
        ("read concern local", [1, 0]),
        ("read concern local, primary preferred", [1, 1]),
        ("read concern available", [2, 0]),
        ("read concern available, primary preferred", [2, 1]),
    ]
    .map(|(name, options)| Form { name, variant: [&options, projection].concat() })
    .into()
}

/// Lets `filter` name the flow of a request.
fn judge<F: Filter, T>(
    mut filter: F,
    bytes: &[u8],
    now: Duration,
    see: impl FnOnce(&Flow<'_>, &Rules) -> T,
) -> Result<T, String> {
    let mut standing = Standing::new(Duration::ZERO);
    standing.presume(true);
    let mut scratch = Scratch::new();
    let (message, _) = match filter.message(bytes) {
        Ok(Some(message)) => message,
        Ok(None) => return Err("the request is longer than a request that is read".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let rules = filter.rules().current();
    let request = filter.request(&message, &mut scratch, &mut standing, now);
    let seen = request.map(|request| see(&request.flow, &rules));
    seen.map_err(|error| error.to_string())
}

/// Describes a flow by the rules of its listener; `dropped_by` names the writes that drop the entry
/// of a read.
fn lines(
    (flow, rules): (&Flow<'_>, &Rules),
    forms: &[Form],
    place: Place<'_>,
    dropped_by: impl Fn(Option<&Read<'_>>) -> &'static str,
) -> Result<String, String> {
    match flow {
        Flow::Read(read) => {
            let held = |stored: &Stored| {
                forms.iter().filter(|form| form.variant == stored.variant).collect()
            };
            let ttl = rules.ttl_of(&read.subject());
            Ok(described(read.key, ttl, held, place)
                + &footer(dropped_by(Some(read)), ttl.0, place))
        }
        Flow::ReadMany(read) => {
            let form = Form { name: "", variant: Vec::new() };
            let (mut text, mut ttl_max) = (String::new(), Duration::ZERO);
            for (number, &key) in read.keys.iter().enumerate() {
                let held = |stored: &Stored| {
                    let unrestricted = stored.identity == Identity::Unrestricted;
                    let single = read.single(number, key, unrestricted);
                    if stored.variant == single.variant { vec![&form] } else { Vec::new() }
                };
                let ttl = rules.ttl_of(&read.single(number, key, true).subject());
                ttl_max = ttl_max.max(ttl.0);
                let described = described(key, ttl, held, place);
                text.push_str(&format!("key {}\n{described}", number + 1));
            }
            Ok(text + &footer(dropped_by(None), ttl_max, place))
        }
        Flow::Bypass(reason) => Ok(format!(
            "result: never a hit ({}): {}\n",
            reason.name(),
            meaning::of(*reason, place.fed)
        )),
        Flow::Write(_) | Flow::NeedsLogin | Flow::NeedsReplies | Flow::Coordination => {
            Err("expected a command that reads data, as in GET user:42".to_owned())
        }
    }
}

/// What storage says of one key; `forms` gives the forms of the read that an answer is stored for.
fn described<'f>(
    key: Key<'_>,
    (ttl, rule): (Duration, Option<&Pattern>),
    forms: impl Fn(&Stored) -> Vec<&'f Form>,
    place: Place<'_>,
) -> String {
    let Inspection { refusal, filling, stored, leaves_at } = place.shards.inspect(key, place.now);
    let mut text = String::new();
    let (mut answers, mut others) = (Vec::new(), 0);
    for answer in &stored {
        let forms = forms(answer);
        let proven = answer.proven_until.is_none_or(|until| place.now < until);
        if forms.is_empty() || !proven {
            others += 1;
            continue;
        }
        let names = forms.iter().map(|form| form.name).filter(|name| !name.is_empty());
        answers.push((answer, names.collect::<Vec<_>>()));
    }
    let result = match (refusal, answers.is_empty()) {
        (Some(Refusal::Closed(closed)), _) => missed(Refusal::Closed(closed).into(), place),
        (_, false) => "hit, for the clients below\n".to_owned(),
        (Some(refusal), true) => missed(refusal.into(), place),
        (None, true) => missed(WhyNot::NotStored, place),
    };
    text.push_str(&format!("result: {result}"));
    for (answer, names) in answers {
        let form =
            if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
        text.push_str(&format!("stored for: {}{form}", answer.identity));
        if let Some(until) = answer.proven_until {
            text.push_str(&format!(
                "; their right to it is proven for {} more",
                seconds(until.saturating_sub(place.now))
            ));
        }
        text.push('\n');
    }
    if others > 0 {
        text.push_str(&format!("other answers of the key: {others}\n"));
    }
    if let Some(leaves_at) = leaves_at {
        // Earlier than that, it would have left already.
        let since = leaves_at.saturating_sub(ttl);
        text.push_str(&format!(
            "age: at most {}; dropped in {} at the latest\n",
            seconds(place.now.saturating_sub(since)),
            seconds(leaves_at.saturating_sub(place.now))
        ));
    }
    let by = rule.map_or("[storage]".to_owned(), |pattern| format!("the rule for {pattern}"));
    text.push_str(&format!("ttl: {}, by {by}\n", seconds(ttl)));
    if filling {
        text.push_str("under way: a read whose reply will be stored unless a write comes first\n");
    }
    text
}

fn missed(reason: WhyNot, place: Place<'_>) -> String {
    format!("miss ({}): {}\n", reason.name(), meaning::of(reason, place.fed))
}

fn footer(dropped_by: &str, ttl: Duration, place: Place<'_>) -> String {
    let bound = place.bound.min(ttl);
    let why = if place.fed { "the feed reports writes that bypass the cache" } else { "ttl" };
    format!("staleness bound: {} ({why})\ndropped by: {dropped_by}\n", seconds(bound))
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests;
