//! Positions, kept in sorted sets.

use super::super::Effect::{Read, Write};
use super::super::{Categories, Command, Effect, Flags, Keys};
use super::{R, WM};

pub(super) const COMMANDS: &[Command] = &[
    row("geoadd", -5, Write, Keys::FIRST, WM),
    row("geodist", -4, Read, Keys::FIRST, R),
    row("geohash", -2, Read, Keys::FIRST, R),
    row("geopos", -2, Read, Keys::FIRST, R),
    // A write even without STORE: the server may not run it on a replica either.
    row("georadius", -6, Write, Keys::GeoStore, WM),
    row("georadius_ro", -6, Read, Keys::FIRST, R),
    row("georadiusbymember", -5, Write, Keys::GeoStore, WM),
    row("georadiusbymember_ro", -5, Read, Keys::FIRST, R),
    row("geosearch", -7, Read, Keys::FIRST, R),
    row("geosearchstore", -8, Write, Keys::FIRST_TWO, WM),
];

const fn row(name: &'static str, arity: i8, effect: Effect, keys: Keys, flags: Flags) -> Command {
    Command::new(name, arity, effect, keys, flags).within(Categories::GEO)
}
