//! The nodes that own slots, as the listeners that have them as their origins.

use wire::resp::Frame;

use super::{Address, Addresses, number, parse, text};

/// A node that owns slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The origin of the listener with this host and port.
    Listener(String, u16),
    /// The origin of no listener, as `host:port`.
    Stranger(String),
}

impl Addresses {
    /// The listener whose origin is configured as this `host:port`.
    pub(crate) fn listener(&self, node: &str) -> Option<Owner> {
        let node = parse(node)?;
        self.known.iter().find(|[of, _]| *of == node).map(|[_, ours]| ours.into())
    }

    /// The owners in a reply to `CLUSTER SLOTS`; none without addresses of nodes.
    pub(crate) fn owners(&self, slots: &Frame<'_>) -> Vec<Owner> {
        let mut owners = Vec::new();
        for range in slots.elements().filter(|_| !self.is_empty()) {
            // First and last slot, owner, replicas.
            let Some(node) = range.elements().nth(2) else { continue };
            let owner = self.owner(&node.elements().collect::<Vec<_>>());
            if !owners.contains(&owner) {
                owners.push(owner);
            }
        }
        owners
    }

    fn owner(&self, node: &[Frame<'_>]) -> Owner {
        match (self.slots_node(node), node) {
            (Some(listener), _) => listener.into(),
            (None, [host, port, ..]) => {
                Owner::Stranger(format!("{}:{}", text(host), number(port).unwrap_or_default()))
            }
            (None, _) => Owner::Stranger(String::new()),
        }
    }
}

impl From<&Address> for Owner {
    fn from(listener: &Address) -> Self {
        Self::Listener(listener.host.clone(), listener.port)
    }
}
