//! Finds the command of a request, and checks whether the client may execute it.

use wire::resp::Version;

use super::Session;
use crate::{
    connection::Connection,
    failure::{Failure, NO_AUTH, NOT_IN_TRANSACTION},
    row::{Access, Flags, Row, Rows},
    server::Server,
};

impl Session {
    /// The row of the command, if it may be executed by this client now.
    pub(super) fn admit(
        &mut self,
        args: &[&[u8]],
        server: &Server,
    ) -> Result<&'static Row, Failure> {
        let row = self.resolve(&server.rows, args)?;
        let connection = &mut self.connection;
        connection.refresh(&server.acl);
        if !connection.identity.is_let_in() && !row.is(Flags::NO_AUTH) {
            return Err(NO_AUTH);
        }
        if connection.transaction.queue.is_some() && row.is(Flags::NO_MULTI) {
            return Err(NOT_IN_TRANSACTION);
        }
        permit(connection, row, args)?;
        let subscribed = !connection.channels.is_empty() && connection.version == Version::Resp2;
        if subscribed
            && !matches!(row.name(), "ping" | "subscribe" | "unsubscribe" | "quit" | "reset")
        {
            return Err(Failure::new(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
                 RESET are allowed in this context",
                row.name()
            )));
        }
        Ok(row)
    }

    /// The row of a request: mostly that of the one before.
    fn resolve(&mut self, rows: &Rows, args: &[&[u8]]) -> Result<&'static Row, Failure> {
        let again = |last: &&Row| {
            last.name().as_bytes().eq_ignore_ascii_case(args[0]) && last.spec.accepts(args.len())
        };
        if let Some(last) = self.last.filter(again) {
            return Ok(last);
        }
        let row = resolve(rows, args)?;
        // One word does not identify a sub-command.
        self.last =
            Some(row).filter(|row| args[0].len() == row.name().len() && row.subcommands == 0);
        Ok(row)
    }

    /// Checks again, when EXEC executes a queued command, whether it is permitted: the connection's
    /// user or its rights may have changed since it was queued.
    pub(super) fn permit_queued(&self, row: &'static Row, args: &[&[u8]]) -> Result<(), Failure> {
        let reason = match row.access(self.connection.identity.rules(), args) {
            Access::Allowed => return Ok(()),
            Access::NoCommand => "no permission to execute the command or subcommand",
            Access::NoKey(_) => "no permission to touch the specified keys",
            Access::NoChannel(_) => {
                "no permission to access one of the channels used as arguments to the command"
            }
        };
        Err(Failure::new(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC \
             call. This command is no longer allowed for the following reason: {reason}"
        )))
    }

    /// Whether the connection must log in before it may execute other commands.
    #[inline]
    pub fn must_log_in(&mut self, server: &Server) -> bool {
        !self.connection.identity.authenticated && {
            self.connection.refresh(&server.acl);
            !self.connection.identity.is_let_in()
        }
    }
}

/// Checks whether the connection's user may execute the command.
fn permit(connection: &Connection, row: &'static Row, args: &[&[u8]]) -> Result<(), Failure> {
    match row.access(connection.identity.rules(), args) {
        Access::Allowed => Ok(()),
        Access::NoCommand => Err(Failure::new(format!(
            "NOPERM this user has no permissions to run the '{}' command",
            row.name()
        ))),
        Access::NoKey(_) => Err(Failure(
            "NOPERM this user has no permissions to access one of the keys used as arguments"
                .into(),
        )),
        Access::NoChannel(_) => Err(Failure(
            "NOPERM this user has no permissions to access one of the channels used as arguments"
                .into(),
        )),
    }
}

/// The row of a request, if its number of arguments is acceptable.
fn resolve(rows: &Rows, args: &[&[u8]]) -> Result<&'static Row, Failure> {
    let row = rows.find(args).ok_or_else(|| unknown(rows, args))?;
    if row.spec.accepts(args.len()) { Ok(row) } else { Err(row.wrong_count()) }
}

/// Maximum length of an unknown command's name, and of its arguments, in the error.
const NAMED_BYTES_MAX: usize = 128;

fn unknown(rows: &Rows, args: &[&[u8]]) -> Failure {
    if let Some(container) = rows.lookup(args[0]) {
        let name = String::from_utf8_lossy(&args[1][..args[1].len().min(NAMED_BYTES_MAX)]);
        let container = container.name().to_ascii_uppercase();
        return Failure::new(format!("ERR unknown subcommand '{name}'. Try {container} HELP."));
    }
    let text = |bytes: &[u8], limit: usize| {
        String::from_utf8_lossy(&bytes[..bytes.len().min(limit)]).into_owned()
    };
    let mut shown = String::new();
    for argument in &args[1..] {
        if shown.len() >= NAMED_BYTES_MAX {
            break;
        }
        shown.push_str(&format!("'{}' ", text(argument, NAMED_BYTES_MAX - shown.len())));
    }
    let name = text(args[0], NAMED_BYTES_MAX);
    Failure::new(format!("ERR unknown command '{name}', with args beginning with: {shown}"))
}
