//! What differs between two configurations, and what of it a running cache takes over.

use super::{Document, LimitsDocument, ListenerDocument, StorageDocument};

/// The names of the fields in which two tables differ, behind the name of the table. The compiler
/// reports a field that is missing here.
macro_rules! differing {
    ($name:expr, $one:expr, $other:expr, $table:ident: $($field:ident)+) => {{
        let ($table { $($field),+ }, other): (&$table, &$table) = ($one, $other);
        let fields = [$((stringify!($field), *$field != other.$field)),+];
        let differing = fields.into_iter().filter(|(_, differs)| *differs);
        differing.map(|(field, _)| format!("{}{field}", $name)).collect::<Vec<_>>()
    }};
}

impl Document {
    /// The names of all options in which `other` differs.
    pub(crate) fn changes(&self, other: &Self) -> Vec<String> {
        let mut names = differing!("", self, other, Document:
            workers drain_timeout storage limits admin listeners edge);
        // Of these, single options are named.
        names.retain(|name| !["storage", "limits", "listeners"].contains(&name.as_str()));
        names.extend(differing!("[storage] ", &self.storage, &other.storage, StorageDocument:
            capacity memory value_max ttl authorization_lease replacement population
            hot_threshold hot_period quarantine verify observe));
        names.extend(differing!("[limits] ", &self.limits, &other.limits, LimitsDocument:
            connections_max pipeline_max buffered_bytes_max frame_bytes_max coalesce_wait_max
            connect_timeout));
        let (listeners, others) = (&self.listeners, &other.listeners);
        for (number, listener) in listeners.iter().enumerate() {
            let title = listener.title();
            match counterpart(listeners, number, others) {
                Some(other) => {
                    names.extend(
                        differing!(format!("{title} "), listener, other, ListenerDocument:
                    listen origin include exclude ttl memory_min memory_max unique_fields advertise cluster transparent
                    scripts unknown_expiry feed sentinel credentials_file credentials_url cache_queries
                    tls origin_tls),
                    );
                }
                None => names.push(title),
            }
        }
        let is_new = |number: &usize| counterpart(others, *number, listeners).is_none();
        names.extend((0..others.len()).filter(is_new).map(|number| others[number].title()));
        names
    }

    /// The same with what a running cache takes over from `wanted` without a restart.
    pub(crate) fn adopting(&self, wanted: &Self) -> Self {
        let mut next = self.clone();
        next.storage.capacity = wanted.storage.capacity;
        next.storage.memory = wanted.storage.memory;
        next.storage.ttl = wanted.storage.ttl;
        next.storage.authorization_lease = wanted.storage.authorization_lease;
        next.storage.verify = wanted.storage.verify;
        next.limits.connections_max = wanted.limits.connections_max;
        next.limits.pipeline_max = wanted.limits.pipeline_max;
        next.limits.buffered_bytes_max = wanted.limits.buffered_bytes_max;
        next.limits.coalesce_wait_max = wanted.limits.coalesce_wait_max;
        for (number, listener) in next.listeners.iter_mut().enumerate() {
            if let Some(wanted) = counterpart(&self.listeners, number, &wanted.listeners) {
                listener.include.clone_from(&wanted.include);
                listener.exclude.clone_from(&wanted.exclude);
                listener.ttl.clone_from(&wanted.ttl);
                listener.memory_min = wanted.memory_min;
                listener.memory_max = wanted.memory_max;
                listener.credentials_file.clone_from(&wanted.credentials_file);
            }
        }
        next
    }
}

/// The listener among `others` at the address and with the server names of listener `number`. Of
/// those alike, which are at port 0, each has its own.
fn counterpart<'a>(
    listeners: &[ListenerDocument],
    number: usize,
    others: &'a [ListenerDocument],
) -> Option<&'a ListenerDocument> {
    let (before, rest) = listeners.split_at(number);
    let listener = rest.first()?;
    let is_alike =
        |one: &&ListenerDocument| one.listen == listener.listen && one.names() == listener.names();
    others.iter().filter(is_alike).nth(before.iter().filter(is_alike).count())
}

impl ListenerDocument {
    fn title(&self) -> String {
        format!("[[listener]] {}", self.listen)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Document;

    fn document(top: &str, listeners: &[(u16, &str)]) -> Document {
        let listeners = listeners.iter().map(|(port, more)| {
            format!(
                "[[listener]]\nlisten = \"redis://h:{port}\"\norigin = \"redis://db\"\n{more}\n"
            )
        });
        Document::parse(&(top.to_owned() + &listeners.collect::<String>()), "x").unwrap()
    }

    #[test]
    fn every_change_is_named_and_what_needs_no_restart_is_taken_over() {
        let running = document("workers = 1\n[storage]\nttl = \"5s\"\n", &[(1, ""), (2, "")]);
        let exclude = "exclude = [\"a*\"]\nscripts = \"declared-keys\"";
        let wanted = document(
            "[storage]\nttl = \"1s\"\nquarantine = \"1s\"\n[limits]\nconnections_max = 7\n",
            &[(2, exclude), (3, "")],
        );
        let next = running.adopting(&wanted);
        assert_eq!(
            running.changes(&next),
            ["[storage] ttl", "[limits] connections_max", "[[listener]] redis://h:2 exclude"]
        );
        assert_eq!(
            next.changes(&wanted),
            [
                "workers",
                "[storage] quarantine",
                "[[listener]] redis://h:1",
                "[[listener]] redis://h:2 scripts",
                "[[listener]] redis://h:3",
            ]
        );
        assert_eq!(next.listeners[1].exclude, ["a*"]);
    }

    #[test]
    fn listeners_at_port_0_are_told_apart_by_their_order() {
        let running = document("", &[(0, ""), (0, "")]);
        let wanted = document("", &[(0, ""), (0, "exclude = [\"a*\"]")]);
        let next = running.adopting(&wanted);
        assert_eq!(running.changes(&next), ["[[listener]] redis://h:0 exclude"]);
        assert_eq!(next, wanted);
    }
}
