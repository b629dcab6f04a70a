//! Which command a client means, and whether it may give it.

use wire::resp::Version;

use super::Session;
use crate::{
    acl::{Access, User},
    command::{Command, table},
    failure::{Failure, NO_AUTH, NOT_IN_TRANSACTION},
    row::Flags,
    server::Server,
};

impl Session {
    /// The row of the command, if it may be executed by this client now.
    pub(super) fn admit(
        &mut self,
        args: &[&[u8]],
        server: &Server,
    ) -> Result<&'static Command, Failure> {
        let command = self.resolve(args)?;
        self.refresh(server);
        if !self.authenticated && !self.is_open && !command.row.is(Flags::NO_AUTH) {
            return Err(NO_AUTH);
        }
        if self.transaction.is_some() && command.row.is(Flags::NO_MULTI) {
            return Err(NOT_IN_TRANSACTION);
        }
        self.permit(command, args)?;
        let subscribed = !self.channels.is_empty() && self.version == Version::Resp2;
        if subscribed
            && !matches!(command.name(), "ping" | "subscribe" | "unsubscribe" | "quit" | "reset")
        {
            return Err(Failure::new(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
                 RESET are allowed in this context",
                command.name()
            )));
        }
        Ok(command)
    }

    /// The row of a request: mostly that of the one before.
    fn resolve(&mut self, args: &[&[u8]]) -> Result<&'static Command, Failure> {
        let again = |last: &&Command| {
            last.name().as_bytes().eq_ignore_ascii_case(args[0])
                && last.row.spec.accepts(args.len())
        };
        if let Some(last) = self.last.filter(again) {
            return Ok(last);
        }
        let command = resolve(args)?;
        // Of a sub-command one word does not say all.
        self.last = Some(command)
            .filter(|row| args[0].len() == row.name().len() && row.subcommands.is_empty());
        Ok(command)
    }

    fn permit(&self, command: &'static Command, args: &[&[u8]]) -> Result<(), Failure> {
        match self.rights.rules.access(&command.row, args) {
            Access::Allowed => Ok(()),
            Access::NoCommand => Err(Failure::new(format!(
                "NOPERM this user has no permissions to run the '{}' command",
                command.name()
            ))),
            Access::NoKey(_) => Err(Failure(
                "NOPERM this user has no permissions to access one of the keys used as arguments".into(),
            )),
            Access::NoChannel(_) => Err(Failure(
                "NOPERM this user has no permissions to access one of the channels used as arguments".into(),
            )),
        }
    }

    /// May a command that EXEC comes to be executed still? Between its queueing and now its user may have
    /// changed, or been changed.
    pub(super) fn permit_queued(
        &self,
        command: &'static Command,
        args: &[&[u8]],
    ) -> Result<(), Failure> {
        let reason = match self.rights.rules.access(&command.row, args) {
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

    /// Must it log in before anything else is done for it?
    #[inline]
    pub fn must_log_in(&mut self, server: &Server) -> bool {
        !self.authenticated && {
            self.refresh(server);
            !self.is_open
        }
    }

    /// Looks up again what its user may do, if any user has changed.
    #[inline]
    pub(super) fn refresh(&mut self, server: &Server) {
        let generation = server.acl.generation();
        if self.generation != generation {
            self.look_up(server, generation);
        }
    }

    #[cold]
    fn look_up(&mut self, server: &Server, generation: u64) {
        self.generation = generation;
        self.is_open = server.acl.is_open();
        match server.acl.find(&self.user).filter(|user| user.is(&self.rights)) {
            Some(user) => self.rights = user,
            // Its user was removed; one of the same name that came after is another.
            None => {
                self.rights = server.acl.nobody();
                self.authenticated = false;
                self.closing = true;
            }
        }
    }

    /// It is this user from now on.
    pub(crate) fn become_user(&mut self, name: &str, user: User) {
        self.user = name.to_owned();
        self.rights = user;
        self.authenticated = true;
        self.client.details.lock().user = name.to_owned();
    }
}

/// The row of a request; none if it is unknown, or its sub-command is.
pub(crate) fn find(args: &[&[u8]]) -> Option<&'static Command> {
    let row = table::lookup(args[0])?;
    match args {
        [_, own, ..] if !row.subcommands.is_empty() => table::subcommand(row, own),
        _ => Some(row),
    }
}

pub(crate) fn wrong_count(command: &Command) -> Failure {
    Failure::new(format!("ERR wrong number of arguments for '{}' command", command.name()))
}

/// The row of a request, if its number of arguments is acceptable.
fn resolve(args: &[&[u8]]) -> Result<&'static Command, Failure> {
    let command = find(args).ok_or_else(|| unknown(args))?;
    if command.row.spec.accepts(args.len()) { Ok(command) } else { Err(wrong_count(command)) }
}

/// How much of an unknown command, and of its arguments, is repeated in the answer.
const NAMED_BYTES_MAX: usize = 128;

fn unknown(args: &[&[u8]]) -> Failure {
    if let Some(container) = table::lookup(args[0]) {
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
