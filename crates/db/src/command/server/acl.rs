//! ACL: users, looked at and changed.

use std::str;

use acl::DEFAULT;
use wire::resp::command::Categories;

use crate::{
    call::Call,
    failure::{Failure, SYNTAX},
    number::integer,
    outcome::Outcome,
    row::{Access, Row},
};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn whoami(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let user = call.connection.identity.user.clone();
    call.reply.text(&user);
    Ok(Outcome::Done)
}

pub(crate) fn users(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let names = call.server.acl.names();
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.text(name));
    Ok(Outcome::Done)
}

pub(crate) fn list(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let lines = call.server.acl.lines();
    call.reply.array(lines.len());
    lines.iter().for_each(|line| call.reply.text(line));
    Ok(Outcome::Done)
}

pub(crate) fn setuser(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let name = text(call.args[2]);
    if name.is_empty() || name.contains(char::is_whitespace) || name.contains('\0') {
        return Err(Failure("ERR Usernames can't contain spaces or null characters".into()));
    }
    let rules: Result<Vec<&str>, _> =
        call.args[3..].iter().map(|rule| str::from_utf8(rule)).collect();
    let rules = rules.map_err(|_| SYNTAX)?;
    call.server.acl.set(&name, &rules)?;
    call.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn deluser(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let names: Vec<String> = call.args[2..].iter().map(|name| text(name)).collect();
    if names.iter().any(|name| name == DEFAULT) {
        return Err(Failure("ERR The 'default' user cannot be removed".into()));
    }
    let removed = names.iter().filter(|name| call.server.acl.remove(name)).count();
    for client in call.server.clients.all() {
        let gone = names.contains(&client.details.lock().user);
        if gone && client.id == call.connection.client.id {
            call.connection.closing = true;
        } else if gone {
            client.kill();
        }
    }
    call.reply.count(removed);
    Ok(Outcome::Done)
}

pub(crate) fn getuser(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let Some(user) = call.server.acl.find(&text(call.args[2])) else {
        call.reply.null();
        return Ok(Outcome::Done);
    };
    let rules = user.rules;
    let reply = &mut call.reply;
    reply.map(6);
    reply.text("flags");
    let mut flags = vec![if rules.enabled { "on" } else { "off" }];
    if rules.without_password {
        flags.push("nopass");
    }
    flags.extend(rules.payload);
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.text(flag));
    reply.text("passwords");
    reply.array(rules.passwords.len());
    rules.passwords.iter().for_each(|password| reply.text(password));
    reply.text("commands");
    reply.text(&rules.command_rules());
    reply.text("keys");
    reply.text(&rules.key_rules().join(" "));
    reply.text("channels");
    let channels: Vec<String> =
        rules.channels.iter().map(|channel| format!("&{channel}")).collect();
    reply.text(&channels.join(" "));
    reply.text("selectors");
    reply.array(0);
    Ok(Outcome::Done)
}

pub(crate) fn cat(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    match &call.args[2..] {
        [] => {
            call.reply.array(Categories::all().len());
            Categories::all().for_each(|category| call.reply.text(category));
        }
        [category] => {
            let named = text(category);
            let category = Categories::named(&named.to_ascii_lowercase())
                .ok_or_else(|| Failure::new(format!("ERR Unknown category '{named}'")))?;
            let within = |row: &&Row| row.spec.categories().contains(category);
            let within: Vec<_> = call.server.rows.all().iter().filter(within).collect();
            call.reply.array(within.len());
            within.iter().for_each(|row| call.reply.text(row.name()));
        }
        _ => return Err(SYNTAX),
    }
    Ok(Outcome::Done)
}

pub(crate) fn dryrun(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let name = text(call.args[2]);
    let user = call.server.acl.find(&name);
    let user = user.ok_or_else(|| Failure::new(format!("ERR User '{name}' not found")))?;
    let args = &call.args[3..];
    let Some(row) = call.server.rows.find(args) else {
        return Err(Failure::new(format!("ERR Command '{}' not found", text(args[0]))));
    };
    if !row.spec.accepts(args.len()) {
        return Err(row.wrong_count());
    }
    let answer = match row.access(&user.rules, args) {
        Access::Allowed => {
            call.reply.ok();
            return Ok(Outcome::Done);
        }
        Access::NoCommand => {
            format!("This user has no permissions to run the '{}' command", row.name())
        }
        Access::NoKey(at) => {
            format!("This user has no permissions to access the '{}' key", text(args[at]))
        }
        Access::NoChannel(at) => {
            format!("This user has no permissions to access the '{}' channel", text(args[at]))
        }
    };
    call.reply.text(&answer);
    Ok(Outcome::Done)
}

/// Bits of a password made up without a number.
const PASSWORD_BITS: i64 = 256;

pub(crate) fn genpass(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let bits = match &call.args[2..] {
        [] => Some(PASSWORD_BITS),
        [bits] => Some(integer(bits)?),
        _ => return Err(SYNTAX),
    };
    let bits = bits.filter(|bits| (1..=4_096).contains(bits)).ok_or_else(|| {
        Failure("ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096".into())
    })?;
    let digits = (bits as usize).div_ceil(4);
    let random = call.server.host.random_bytes(digits.div_ceil(2));
    let password: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    call.reply.text(&password[..digits]);
    Ok(Outcome::Done)
}

const NO_FILE: &str = "ERR This instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a configuration file set) in order to store users in the configuration.";

pub(crate) fn load(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let read = call.server.host.read_users();
    let read =
        read.map_err(|error| Failure::new(format!("ERR cannot read the ACL file: {error}")))?;
    call.server.acl.load(&read.ok_or(Failure(NO_FILE.into()))?)?;
    call.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn save(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let lines: String = call.server.acl.lines().iter().map(|line| format!("{line}\n")).collect();
    let written = call.server.host.write_users(&lines);
    let written =
        written.map_err(|error| Failure::new(format!("ERR cannot write the ACL file: {error}")))?;
    if !written {
        return Err(Failure(NO_FILE.into()));
    }
    call.reply.ok();
    Ok(Outcome::Done)
}
