//! Settings shared by all MongoDB connections to one origin.

use std::{str::FromStr, sync::Arc};

use wire::mongo::frame::Limits;

use super::{Access, Transactions};
use crate::{filter::Greetings, rules::LiveRules};

/// Settings shared by all connections to one origin.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Name of the origin; keys of different origins never meet.
    pub origin: String,
    /// Mixed into the hashes of keys; random for each process, the same for all its listeners.
    pub secret: u64,
    /// Limits of the codec.
    pub limits: Limits,
    /// The namespaces (`database.collection`) that may be stored, and for how long.
    pub namespaces: Arc<LiveRules>,
    /// Documents that a write states are stored ([`crate::storage::Population::OnWrite`]).
    pub on_write: bool,
    /// Fields other than `_id` that are unique, by the namespaces they are unique in.
    pub unique_fields: Vec<UniqueField>,
    /// The addresses that drivers are given instead of the members' own. `None` leaves the members'
    /// addresses: the client was diverted and uses the address of the origin.
    pub advertise: Option<Advertised>,
    /// The origin's last handshake reply, used while it cannot be reached, for as long as an entry.
    pub greetings: Arc<Greetings>,
    /// Collections that open transactions have written.
    pub transactions: Arc<Transactions>,
    /// How to ask the origin for a user's rights.
    pub access: Arc<Access>,
}

impl Settings {
    /// The same for the origin of another address.
    #[must_use]
    pub fn at(&self, origin: String) -> Self {
        Self {
            origin,
            // The greeting of another origin must not be used here.
            greetings: Arc::default(),
            access: Arc::default(),
            ..self.clone()
        }
    }
}

/// The addresses that drivers get in place of those of the members of a replica set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertised {
    /// In place of the member that answers.
    pub own: String,
    /// In place of the primary.
    pub primary: String,
    /// In place of every other member.
    pub secondary: String,
}

impl Advertised {
    /// One address for all members.
    #[must_use]
    pub fn only(address: String) -> Self {
        Self { own: address.clone(), primary: address.clone(), secondary: address }
    }

    /// The address in place of `member`, in a greeting of `me` that names `primary`.
    pub(super) fn of(&self, member: &str, me: Option<&str>, primary: Option<&str>) -> String {
        let address = match Some(member) {
            member if member == me => &self.own,
            member if member == primary => &self.primary,
            _ => &self.secondary,
        };
        address.clone()
    }
}

/// A field that has a unique index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueField {
    /// `database.collection`.
    pub namespace: String,
    /// The field's name; not a path.
    pub field: String,
}

/// `database.collection.field`.
impl FromStr for UniqueField {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once('.').filter(|(namespace, field)| {
            namespace.split_once('.').is_some_and(|(database, collection)| {
                !database.is_empty() && !collection.is_empty() && !field.is_empty()
            })
        });
        let (namespace, field) = parts.ok_or_else(|| {
            format!("`{text}`: expected database.collection.field, for example shop.users.email")
        })?;
        Ok(Self { namespace: namespace.to_owned(), field: field.to_owned() })
    }
}
