//! The fence of a lease at one node, in the node's commands. Why it keeps two placers from acting
//! at the same time: [`crate::lease`].

use wire::resp::Reply;

use crate::{
    clients,
    lease::{CHANNELS, Token},
    query::{Query, done, list, unexpected, words},
};

/// Other fences at a node besides the one that is raised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Others {
    /// A fence with this higher token.
    Higher(Token),
    /// Only these channels of fences, all lower or not readable; none if the list is empty.
    Lower(Vec<String>),
}

/// Makes a connection the subscriber of `channel`: to be sent in this order, each after the reply
/// to the one before. The connection has the name of the channel, by which [`close`] finds it.
#[must_use]
pub fn subscribe(channel: &str) -> [Query<'_, ()>; 2] {
    [
        Query::new(words!["CLIENT", "SETNAME", channel], done),
        Query::new(words!["SUBSCRIBE", channel], done),
    ]
}

/// Other fences at a node where `token` has its subscriber on `channel`.
#[must_use]
pub fn others(token: Token, channel: &str) -> Query<'_, Others> {
    Query::new(words!["PUBSUB", "CHANNELS", format!("{CHANNELS}*")], move |reply| {
        let channels = list(reply)?;
        let others = channels.iter().filter_map(Reply::text).filter(|other| other != channel);
        let others: Vec<String> = others.collect();
        let tokens = others.iter().filter_map(|other| Token::read(other));
        let highest = tokens.map(|(other, _)| other).max().filter(|highest| *highest > token);
        Ok(highest.map_or(Others::Lower(others), Others::Higher))
    })
}

/// Commands that close the subscribers of these channels.
#[must_use]
pub fn close(channels: &[String]) -> Query<'_, Vec<Query<'static, ()>>> {
    let is_meant = |name: &str| channels.iter().any(|channel| channel == name);
    clients::closing("pubsub", move |client| client.field("name=").is_some_and(is_meant))
}

/// Whether `channel` has its subscriber.
#[must_use]
pub fn stands(channel: &str) -> Query<'_, bool> {
    Query::new(words!["PUBSUB", "NUMSUB", channel], |reply| match list(reply)?.last() {
        Some(&Reply::Integer(subscribers)) => Ok(subscribers == 1),
        other => Err(unexpected("a number of subscribers", other.unwrap_or(&Reply::Null))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_learns_of_higher_ones_and_has_lower_ones_closed() {
        let token = |number| Token { number, holder: 9 };
        let own = token(5).channel("a");
        let told = |channels: &[&str]| {
            let channels = channels.iter().map(|name| Reply::Bytes(name.as_bytes().to_vec()));
            others(token(5), &own).read(Reply::List(channels.collect())).expect("channels")
        };
        let (lower, higher) = (token(4).channel("b"), token(6).channel("c"));
        assert_eq!(told(&[&own]), Others::Lower(vec![]));
        assert_eq!(told(&[&lower, &own]), Others::Lower(vec![lower.clone()]));
        assert_eq!(told(&[&lower, &higher, &own]), Others::Higher(token(6)));
        let odd = "enroute:lease:odd";
        assert_eq!(told(&[odd]), Others::Lower(vec![odd.to_owned()]));
    }
}
