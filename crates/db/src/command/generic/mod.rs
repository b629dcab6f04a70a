//! Commands on keys of any type.

pub(super) mod delete;
pub(super) mod expire;
pub(super) mod flush;
pub(super) mod object;
pub(super) mod rename;
pub(super) mod scan;
pub(super) mod ttl;

use crate::{
    failure::{DATABASE_RANGE, Failure},
    keyspace::DATABASES,
    number::integer,
};

/// Returns the database that an argument names.
pub(crate) fn database(argument: &[u8]) -> Result<u8, Failure> {
    let index = u8::try_from(integer(argument)?).ok().filter(|&index| index < DATABASES);
    index.ok_or(DATABASE_RANGE)
}

/// The same; `None` if the argument names no database.
pub(crate) fn database_of(argument: &[u8]) -> Option<u8> {
    database(argument).ok()
}
