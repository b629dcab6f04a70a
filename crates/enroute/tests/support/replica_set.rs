//! A replica set in memory; the test decides which member is the primary.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ServerConfig;

use super::replica::{Kind, Replica};

/// The replica set as a member reports it.
#[derive(Debug, Clone)]
pub struct Membership {
    /// The member's name in the set.
    pub me: String,
    pub hosts: Vec<String>,
    pub primary: Option<String>,
    pub election: u8,
}

impl Membership {
    pub fn is_primary(&self) -> bool {
        self.primary.as_ref() == Some(&self.me)
    }
}

/// A set named `rs`. It has no primary before the first election.
pub struct ReplicaSet {
    members: Vec<Replica>,
    hosts: Vec<String>,
    election: u8,
    primary: usize,
}

impl ReplicaSet {
    /// This number of members.
    pub fn start(count: usize) -> Self {
        Self::start_with(count, None, |address| address.to_string())
    }

    /// As `start`, with TLS. `announced` makes a member's announced name from its address.
    pub fn start_with(
        count: usize,
        tls: Option<&Arc<ServerConfig>>,
        announced: impl Fn(SocketAddr) -> String,
    ) -> Self {
        let member = |_| Replica::start_with(Kind::Primary, tls.cloned());
        let members: Vec<_> = (0..count).map(member).collect();
        let hosts: Vec<_> = members.iter().map(|member| announced(member.address())).collect();
        let set = Self { members, hosts, election: 0, primary: 0 };
        set.tell(|_| true, None);
        set
    }

    /// The address of the origin for the cache.
    pub fn origin(&self, options: &str) -> String {
        format!("mongodb://{}/?replicaSet=rs{options}", self.hosts.join(","))
    }

    pub fn member(&self, number: usize) -> &Replica {
        &self.members[number]
    }

    /// The address by which the other members know one.
    pub fn host(&self, number: usize) -> &str {
        &self.hosts[number]
    }

    /// Copies the records of one member to all others.
    pub fn replicate(&self, from: usize) {
        let records = self.members[from].records();
        self.members.iter().for_each(|member| member.has(records.clone()));
    }

    /// Makes a member the primary. The members for which `hear` is true learn of it, and roll back
    /// what it does not have.
    pub fn elect(&mut self, primary: usize, hear: impl Fn(usize) -> bool) {
        (self.election, self.primary) = (self.election + 1, primary);
        let records: BTreeMap<_, _> = self.members[primary].records();
        for (number, member) in self.members.iter().enumerate() {
            if hear(number) {
                member.has(records.clone());
            }
        }
        self.tell(|number| number == primary || hear(number), Some(primary));
    }

    /// Makes another member the primary, which has all acknowledged writes.
    pub fn hand_over(&mut self, primary: usize) {
        // From here on nothing is written.
        self.tell(|_| true, None);
        self.replicate(self.primary);
        self.elect(primary, |_| true);
    }

    fn tell(&self, hears: impl Fn(usize) -> bool, primary: Option<usize>) {
        for (number, member) in self.members.iter().enumerate().filter(|(at, _)| hears(*at)) {
            member.belongs(Membership {
                me: self.hosts[number].clone(),
                hosts: self.hosts.clone(),
                primary: primary.map(|at| self.hosts[at].clone()),
                election: self.election,
            });
        }
    }
}
