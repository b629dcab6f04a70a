//! What a server says of itself in its reply to `hello`.

use wire::{Result, mongo::bson::Document};

/// Number of members of a replica set that are asked; MongoDB's own limit.
const MEMBERS_MAX: usize = 50;

/// What a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Primary,
    Secondary,
    /// An arbiter, a hidden member, or one that is starting, recovering or not yet part of a set.
    Other,
    Mongos,
    Standalone,
}

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Primary => "a primary",
            Self::Secondary => "a secondary",
            Self::Other => "a member that is neither primary nor secondary",
            Self::Mongos => "a mongos",
            Self::Standalone => "a standalone server",
        }
    }
}

/// An ObjectId that grows with every election of a replica set.
pub(super) type Election = [u8; 12];

/// The reply to `hello`, as far as it says who is the primary.
#[derive(Debug, Clone)]
pub(super) struct Hello {
    pub(super) role: Role,
    pub(super) set_name: Option<String>,
    pub(super) set_version: Option<i64>,
    pub(super) election: Option<Election>,
    /// From this version of the protocol on (MongoDB 6.0), elections are compared before versions.
    pub(super) elections_first: bool,
    /// All members that hold data or vote.
    pub(super) members: Vec<String>,
    /// Its own address, as the configuration of the set has it.
    pub(super) me: Option<String>,
    /// `topologyVersion`: with it the next question can wait for a change.
    pub(super) version: Option<Vec<u8>>,
}

impl Hello {
    /// Reads a reply that is ok.
    ///
    /// # Errors
    /// It is malformed.
    pub(super) fn read(body: &Document<'_>) -> Result<Self> {
        const ELECTIONS_FIRST: i64 = 17;
        let element = |name| body.element(name);
        let text = |name| -> Result<Option<String>> {
            Ok(element(name)?.and_then(|text| text.str()).map(str::to_ascii_lowercase))
        };
        let is = |name| -> Result<bool> { Ok(element(name)?.is_some_and(|flag| flag.is_true())) };
        let mut members = Vec::new();
        for name in ["hosts", "passives", "arbiters"] {
            let Some(list) = element(name)?.and_then(|list| list.array()) else { continue };
            for member in list.elements() {
                members.extend(member?.str().map(str::to_ascii_lowercase));
            }
        }
        members.truncate(MEMBERS_MAX);
        // The name of the set is case-sensitive.
        let set_name = element("setName")?.and_then(|name| name.str()).map(str::to_owned);
        let role = if element("msg")?.and_then(|text| text.str()) == Some("isdbgrid") {
            Role::Mongos
        } else if set_name.is_none() {
            if is("isreplicaset")? { Role::Other } else { Role::Standalone }
        } else if is("isWritablePrimary")? || is("ismaster")? {
            Role::Primary
        } else if is("secondary")? && !is("hidden")? {
            Role::Secondary
        } else {
            Role::Other
        };
        let wire_version = element("maxWireVersion")?.and_then(|version| version.integer());
        let election = element("electionId")?.and_then(|id| id.value().try_into().ok());
        let version = element("topologyVersion")?.and_then(|version| version.document());
        Ok(Self {
            role,
            set_name,
            set_version: element("setVersion")?.and_then(|version| version.integer()),
            election,
            elections_first: wire_version.is_some_and(|version| version >= ELECTIONS_FIRST),
            members,
            me: text("me")?,
            version: version.map(|version| version.bytes().to_vec()),
        })
    }
}

/// The newest election and configuration of a replica set that a primary has stated.
#[derive(Debug, Default)]
pub(super) struct History {
    election: Option<Election>,
    set_version: Option<i64>,
}

impl History {
    /// Takes note of a primary; false if another one is newer.
    pub(super) fn admits(&mut self, hello: &Hello) -> bool {
        let Hello { election, set_version, .. } = *hello;
        if hello.elections_first {
            let newest = (self.election, self.set_version);
            if (election, set_version) < newest {
                return false;
            }
            (self.election, self.set_version) = (election, set_version);
            return true;
        }
        if set_version.is_some() && election.is_some() {
            let known = self.set_version.is_some() && self.election.is_some();
            if known && (set_version, election) < (self.set_version, self.election) {
                return false;
            }
            self.election = election;
        }
        self.set_version = self.set_version.max(set_version);
        true
    }
}
