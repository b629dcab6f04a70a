//! Creates a view: one node names the primaries, each of them reports itself, and if no primary
//! reports a slot as its own, all are asked for the owner.

use super::{BTreeSet, Directory, Member, Missing, Node, SLOTS, Slot, SocketAddr, View, members};

/// What the primaries report about themselves.
#[derive(Debug)]
pub struct Look {
    found: Vec<Member>,
    /// The lowest of the latest epochs that they know.
    heard: u64,
    /// By slot, the place in `found`.
    owners: Vec<Option<usize>>,
    /// Slots that no node is known to own.
    unowned: Vec<Slot>,
}

/// Report of one primary about a slot that none reports as its own: true if it names another
/// primary as the owner, which denies it.
pub type Denied = (Slot, bool);

impl Look {
    /// Addresses of the primaries that must report themselves, from the reply of any node in
    /// `told`.
    #[must_use]
    pub fn primaries(told: &[Member]) -> Vec<SocketAddr> {
        let primaries = told.iter().filter(|member| member.primary && !member.failing);
        primaries.map(|member| member.address).collect()
    }

    /// Addresses of the nodes that one node has `told`; nodes that may have failed come last.
    #[must_use]
    pub fn seeds(told: &[Member]) -> Vec<SocketAddr> {
        let (gone, there): (Vec<&Member>, Vec<_>) = told.iter().partition(|one| one.failing);
        there.into_iter().chain(gone).map(|member| member.address).collect()
    }

    /// Applies the reports of [`Look::primaries`]: each about itself, with the latest epoch that it
    /// knows.
    ///
    /// # Errors
    /// None of them is a primary.
    pub fn new(told: &[Member], reports: Vec<(Option<Member>, u64)>) -> Result<Self, Missing> {
        let is_primary = |(own, latest): (Option<Member>, u64)| {
            own.filter(|own| own.primary).map(|own| (own, latest))
        };
        let (found, heard): (Vec<Member>, Vec<u64>) =
            reports.into_iter().filter_map(is_primary).unzip();
        let heard = heard.into_iter().min().ok_or(Missing::Primaries)?;
        let owners = members::owners(&found);
        // Slots of an unreachable node are not lost: one report of an owner is enough.
        let silent = |member: &&Member| !found.iter().any(|asked| asked.id == member.id);
        let silents: BTreeSet<Slot> = told.iter().filter(silent).flat_map(Member::owned).collect();
        let unowned = (0..SLOTS).filter(|&slot| owners.get(slot).is_some_and(Option::is_none));
        let unowned = unowned.filter_map(Slot::new).filter(|slot| !silents.contains(slot));
        let unowned = unowned.collect();
        Ok(Self { found, heard, owners, unowned })
    }

    /// The primaries that must be asked for all nodes they know; empty if every slot has an owner.
    #[must_use]
    pub fn asked(&self) -> Vec<SocketAddr> {
        let asked = self.found.iter().filter(|_| !self.unowned.is_empty());
        asked.map(|member| member.address).collect()
    }

    /// Report about the slots without an owner of a primary that knows these nodes.
    #[must_use]
    pub fn denied(&self, members: &[Member]) -> Vec<Denied> {
        let is_found = |owner: &Member| self.found.iter().any(|member| member.id == owner.id);
        let of = |&slot: &Slot| {
            let owner = members.iter().find(|member| member.owns(slot))?;
            Some((slot, !owner.myself && is_found(owner)))
        };
        self.unowned.iter().filter_map(of).collect()
    }

    /// The view, from the reports of all of [`Look::asked`]. A slot is lost if no node claims it,
    /// and no node reports it as owned by a node that was not asked.
    #[must_use]
    pub fn view(self, said: Vec<Denied>, directory: &mut Directory) -> View {
        let (denied, kept): (Vec<Denied>, Vec<_>) = said.into_iter().partition(|one| one.1);
        let slots = |said: Vec<Denied>| said.into_iter().map(|(slot, _)| slot).collect();
        let (denied, kept): (BTreeSet<Slot>, BTreeSet<Slot>) = (slots(denied), slots(kept));
        let numbers: Vec<Node> =
            self.found.iter().map(|member| directory.number(&member.id)).collect();
        let owner = |owner: Option<usize>| numbers.get(owner?).copied();
        let owners = self.owners.into_iter().map(owner).collect();
        let mut members = vec![None; directory.0.len()];
        for (number, member) in numbers.into_iter().zip(self.found) {
            if let Some(place) = members.get_mut(number.index()) {
                *place = Some(member);
            }
        }
        View { members, owners, lost: &denied - &kept, heard: self.heard }
    }
}
