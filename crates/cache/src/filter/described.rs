//! Names of messages for the log. They affect no decision.

/// Names for people.
pub trait Described {
    /// One complete message of the client.
    type Message<'a>;

    /// The command of a message; "" if it is not known.
    fn command(&self, message: &Self::Message<'_>) -> &'static str;
}
