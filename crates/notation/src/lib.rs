//! Parsers for the notations of options, files and commands: quantities and patterns.
//!
//! **What it is.** One parser for each notation, so that a duration, a size or a pattern means the
//! same in `--option`, in a configuration file and in a command of the database.
//!
//! **What it is not.** Not the options themselves: limits, defaults and names belong to the
//! configuration of each service. Not a protocol: numbers inside of messages belong to `wire`.
//!
//! **Read first:** [`parse_duration`], [`parse_size`], [`glob::matches`].
#![forbid(unsafe_code)]

pub mod glob;
mod position;
mod quantity;

pub use position::place;
pub use quantity::{
    parse_cut, parse_duration, parse_loss, parse_rate, parse_redis_size, parse_size,
};
