//! Which command a client means, and whether it may give it.

use std::sync::Arc;

use wire::resp::Version;

use super::Session;
use crate::{
    acl::{Access, DEFAULT, Rules},
    command::{Command, Flags, table},
    failure::{Failure, NO_AUTH, NOT_IN_TRANSACTION},
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
        if self.generation != server.acl.generation() {
            self.refresh(server);
        }
        if !self.authenticated && !command.flags.has(Flags::NO_AUTH) {
            return Err(NO_AUTH);
        }
        self.permit(command, args)?;
        if self.transaction.is_some() && command.flags.has(Flags::NO_MULTI) {
            return Err(NOT_IN_TRANSACTION);
        }
        let subscribed = !self.channels.is_empty() && self.version == Version::Resp2;
        if subscribed
            && !matches!(command.name, "ping" | "subscribe" | "unsubscribe" | "quit" | "reset")
        {
            return Err(Failure::new(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
                 RESET are allowed in this context",
                command.name
            )));
        }
        Ok(command)
    }

    /// The row of a request: mostly that of the one before.
    fn resolve(&mut self, args: &[&[u8]]) -> Result<&'static Command, Failure> {
        let again = |last: &&Command| {
            last.name.as_bytes().eq_ignore_ascii_case(args[0]) && last.accepts(args.len())
        };
        if let Some(last) = self.last.filter(again) {
            return Ok(last);
        }
        let command = resolve(args)?;
        // Of a sub-command one word does not say all.
        self.last = Some(command)
            .filter(|row| args[0].len() == row.name.len() && row.subcommands.is_empty());
        Ok(command)
    }

    pub(super) fn permit(&self, command: &'static Command, args: &[&[u8]]) -> Result<(), Failure> {
        match self.rules.access(command, args) {
            Access::Allowed => Ok(()),
            Access::NoCommand => Err(Failure::new(format!(
                "NOPERM this user has no permissions to run the '{}' command",
                command.name
            ))),
            Access::NoKey(_) => Err(Failure(
                "NOPERM this user has no permissions to access one of the keys used as arguments".into(),
            )),
            Access::NoChannel => Err(Failure(
                "NOPERM this user has no permissions to access one of the channels used as arguments".into(),
            )),
        }
    }

    /// Looks up again what its user may do.
    fn refresh(&mut self, server: &Server) {
        self.generation = server.acl.generation();
        match server.acl.find(&self.user) {
            Some(rules) => {
                self.authenticated |= self.user == DEFAULT && rules.needs_no_password();
                self.rules = rules;
            }
            None => {
                self.rules = Arc::new(Rules::nothing());
                self.authenticated = false;
                self.closing = true;
            }
        }
    }

    /// It is `user` from now on.
    pub(crate) fn become_user(&mut self, user: &str, rules: Arc<Rules>) {
        self.user = user.to_owned();
        self.rules = rules;
        self.authenticated = true;
        self.client.details.lock().user = user.to_owned();
    }
}

/// The row of a request, if its number of arguments is acceptable.
pub(crate) fn resolve(args: &[&[u8]]) -> Result<&'static Command, Failure> {
    let Some(mut command) = table::lookup(args[0]) else { return Err(unknown(args)) };
    if !command.subcommands.is_empty() && args.len() > 1 {
        let found = table::subcommand(command, args[1]);
        command = found.ok_or_else(|| {
            let name = String::from_utf8_lossy(&args[1][..args[1].len().min(NAMED_BYTES_MAX)]);
            let container = command.name.to_ascii_uppercase();
            Failure::new(format!("ERR unknown subcommand '{name}'. Try {container} HELP."))
        })?;
    }
    if !command.accepts(args.len()) {
        return Err(Failure::new(format!(
            "ERR wrong number of arguments for '{}' command",
            command.name
        )));
    }
    Ok(command)
}

/// How much of an unknown command, and of its arguments, is repeated in the answer.
const NAMED_BYTES_MAX: usize = 128;

fn unknown(args: &[&[u8]]) -> Failure {
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
