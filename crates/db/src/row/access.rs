//! Whether a user may execute a command.

use acl::Rules;

use super::{Flags, Row};

/// The first right that a user was found to lack, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Allowed,
    NoCommand,
    /// The key at this argument.
    NoKey(usize),
    /// The channel at this argument.
    NoChannel(usize),
}

impl Row {
    /// Returns whether a user with these rules may execute it with these arguments.
    #[inline]
    pub(crate) fn access(&self, rules: &Rules, args: &[&[u8]]) -> Access {
        if rules.is_unrestricted() { Access::Allowed } else { self.access_by(rules, args) }
    }

    fn access_by(&self, rules: &Rules, args: &[&[u8]]) -> Access {
        if !self.is(Flags::NO_AUTH) && !rules.may_execute(usize::from(self.place)) {
            return Access::NoCommand;
        }
        for (at, touch) in self.touched(args) {
            if !rules.may_touch(args[at], touch.reads(), touch.writes()) {
                return Access::NoKey(at);
            }
        }
        if self.name() == "subscribe"
            && let Some(at) = (1..args.len()).find(|&at| !rules.may_hear(args[at]))
        {
            return Access::NoChannel(at);
        }
        Access::Allowed
    }
}
