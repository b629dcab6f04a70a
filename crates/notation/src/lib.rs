//! Parsers for the notations of options, files and commands: quantities, places and patterns.
//!
//! **What it is.** One parser for each notation, so that a duration, an address or a pattern means
//! the same in `--option`, in a configuration file and in a command of the database.
//!
//! **What it is not.** Not the options themselves: limits, defaults and names belong to the
//! configuration of each service. Not a protocol: numbers inside of messages belong to `wire`.
//!
//! **Read first:** [`parse_duration`], [`parse_size`], [`glob::matches`].
#![forbid(unsafe_code)]

/// Reads values that parse themselves from the strings of a file.
macro_rules! read_from_text {
    ($($name:ty),*) => {$(
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(source)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

mod address;
pub mod glob;
mod position;
mod quantity;

pub use address::{
    Address, AddressTls, DatabaseUrl, Deployment, FoundBy, KeyHash, KeyPlace, OriginUrl, Scheme,
    Sentinels, Server, Servers,
};
pub use position::place;
pub use quantity::{
    Bytes, Share, Time, parse_cut, parse_duration, parse_loss, parse_rate, parse_redis_size,
    parse_size,
};
