//! Lines about a view for `enroute state doctor` and `status`.

use super::{Claim, Claims, Node, Slot, View};

impl View {
    /// Open slots, one line each.
    #[must_use]
    pub fn findings(&self, claims: &Claims) -> Vec<String> {
        let lost = self.lost.iter().map(|slot| format!("slot {} has no owner", slot.number()));
        let claims = claims.iter().flat_map(|(slot, claims)| {
            let said = claims.iter().filter(|(_, claim)| *claim != Claim::Holding(0));
            said.map(|(node, claim)| self.finding(*slot, *node, claim))
        });
        lost.chain(claims).collect()
    }

    fn finding(&self, slot: Slot, node: Node, claim: &Claim) -> String {
        let at = |node: Node| {
            self.member(node).map_or_else(
                |_| "a node that left the cluster".to_owned(),
                |member| member.address.to_string(),
            )
        };
        let what = match claim {
            Claim::Migrating(to) => format!("is open: moving from {} to {}", at(node), at(*to)),
            Claim::Importing(from, keys) => {
                format!(
                    "is open: moving to {} from {}, {keys} keys have arrived",
                    at(node),
                    at(*from)
                )
            }
            Claim::Holding(keys) => {
                format!("has {keys} keys at {}, which does not own it", at(node))
            }
        };
        format!("slot {} {what}", slot.number())
    }

    /// The primaries, one line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let line = |member: &crate::members::Member| {
            let open = member.migrating.len() + member.importing.len();
            let open = if open > 0 { format!(", {open} open") } else { String::new() };
            format!("node {}: {} slots{open}", member.address, member.owned().count())
        };
        self.primaries().map(|(_, member)| line(member)).collect()
    }
}
