//! Strings.

use crate::{
    failure::{Failure, NOT_AN_INTEGER},
    number,
};

pub(super) mod append;
pub(super) mod get;
pub(super) mod getex;
pub(super) mod increment;
pub(super) mod lcs;
pub(super) mod mset;
pub(super) mod range;
pub(super) mod set;

/// A time after which a key ends, as options say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
    AtSeconds,
    AtMilliseconds,
}

impl Unit {
    /// The unit an option of SET or GETEX names.
    pub(super) fn of(option: &[u8]) -> Option<Self> {
        const UNITS: [(&[u8], Unit); 4] = [
            (b"EX", Unit::Seconds),
            (b"PX", Unit::Milliseconds),
            (b"EXAT", Unit::AtSeconds),
            (b"PXAT", Unit::AtMilliseconds),
        ];
        UNITS.iter().find(|(name, _)| option.eq_ignore_ascii_case(name)).map(|&(_, unit)| unit)
    }

    /// The end, in milliseconds since the Unix epoch, that `argument` means for `command`.
    pub(super) fn expires_at(
        self,
        argument: &[u8],
        now_ms: u64,
        command: &str,
    ) -> Result<u64, Failure> {
        let count = number::parse_integer(argument).ok_or(NOT_AN_INTEGER)?;
        let wrong = || Failure::new(format!("ERR invalid expire time in '{command}' command"));
        if count <= 0 {
            return Err(wrong());
        }
        let scaled = match self {
            Self::Seconds | Self::AtSeconds => count.checked_mul(1_000),
            Self::Milliseconds | Self::AtMilliseconds => Some(count),
        };
        let base = match self {
            Self::Seconds | Self::Milliseconds => now_ms as i64,
            Self::AtSeconds | Self::AtMilliseconds => 0,
        };
        let at = scaled.and_then(|scaled| scaled.checked_add(base)).ok_or_else(wrong)?;
        Ok(at as u64)
    }
}
