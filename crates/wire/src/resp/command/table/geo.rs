//! Positions, kept in sorted sets.

use super::super::Effect::{Read, Write};
use super::super::{Command, Keys};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("geoadd", -5, Write, Keys::FIRST),
    Command::new("geodist", -4, Read, Keys::FIRST),
    Command::new("geohash", -2, Read, Keys::FIRST),
    Command::new("geopos", -2, Read, Keys::FIRST),
    // A write even without STORE: the server may not run it on a replica either.
    Command::new("georadius", -6, Write, Keys::GeoStore),
    Command::new("georadius_ro", -6, Read, Keys::FIRST),
    Command::new("georadiusbymember", -5, Write, Keys::GeoStore),
    Command::new("georadiusbymember_ro", -5, Read, Keys::FIRST),
    Command::new("geosearch", -7, Read, Keys::FIRST),
    Command::new("geosearchstore", -8, Write, Keys::FIRST_TWO),
];
