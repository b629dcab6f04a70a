//! The connections of a node (`CLIENT LIST`), and closing them.

use crate::query::{Query, text, words};

/// One line of `CLIENT LIST`.
pub(crate) struct Client<'a>(&'a str);

impl<'a> Client<'a> {
    /// The value of a field; its name ends with `=`.
    pub(crate) fn field(&self, name: &str) -> Option<&'a str> {
        self.0.split(' ').find_map(|field| field.strip_prefix(name))
    }
}

/// Commands that close those connections of `kind` (`normal`, `pubsub`) that `is_meant`. A refusal
/// states that a connection has ended already.
pub(crate) fn closing<'a>(
    kind: &'static str,
    is_meant: impl Fn(&Client<'_>) -> bool + 'a,
) -> Query<'a, Vec<Query<'static, ()>>> {
    Query::new(words!["CLIENT", "LIST", "TYPE", kind], move |reply| {
        let clients = text(&reply)?;
        let clients = clients.lines().map(Client).filter(|client| is_meant(client));
        Ok(clients.filter_map(|client| Some(close(client.field("id=")?.to_owned()))).collect())
    })
}

fn close(id: String) -> Query<'static, ()> {
    Query::new(words!["CLIENT", "KILL", "ID", id], |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use wire::resp::Reply;

    use super::*;

    #[test]
    fn connections_are_closed_by_their_ids() {
        let clients =
            "id=7 addr=[::1]:1 name=a cmd=select user=x\nid=8 name= cmd=auth\nid=9 cmd=get\n";
        let query = closing("normal", |client| client.field("cmd=") != Some("get"));
        assert_eq!(query.words(), words!["CLIENT", "LIST", "TYPE", "normal"]);
        let found = query.read(Reply::Bytes(clients.into())).expect("a list");
        let words: Vec<_> = found.iter().map(Query::words).collect();
        let kill = |id: &'static str| words!["CLIENT", "KILL", "ID", id];
        assert_eq!(words, [kill("7"), kill("8")]);
    }
}
