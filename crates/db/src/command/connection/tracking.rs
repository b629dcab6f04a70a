//! CLIENT TRACKING, CACHING, GETREDIR, TRACKINGINFO.

use std::sync::atomic::Ordering::Relaxed;

use crate::{
    call::Call,
    connection::{Mode, Tracking},
    failure::{Failure, SYNTAX},
    number::integer,
    outcome::Outcome,
};

/// Prefixes one client may name.
const PREFIXES_MAX: usize = 1_024;

/// Options of CLIENT TRACKING.
#[derive(Default)]
struct Options {
    redirect: u64,
    broadcast: bool,
    opt_in: bool,
    opt_out: bool,
    no_loop: bool,
    prefixes: Vec<Box<[u8]>>,
}

impl Options {
    fn parse(call: &Call<'_, '_>) -> Result<Self, Failure> {
        let mut options = Self::default();
        let mut rest = &call.args[3..];
        while let [word, after @ ..] = rest {
            rest = after;
            match (word.to_ascii_uppercase().as_slice(), after) {
                (b"REDIRECT", [id, after @ ..]) => {
                    if options.redirect != 0 {
                        return Err(Failure(
                            "ERR A client can only redirect to a single other client".into(),
                        ));
                    }
                    options.redirect = integer(id)? as u64;
                    if call.server.clients.find(options.redirect).is_none() {
                        return Err(Failure(
                            "ERR The client ID you want redirect to does not exist".into(),
                        ));
                    }
                    rest = after;
                }
                (b"PREFIX", [prefix, after @ ..]) => {
                    options.prefixes.push((*prefix).into());
                    rest = after;
                }
                (b"BCAST", _) => options.broadcast = true,
                (b"OPTIN", _) => options.opt_in = true,
                (b"OPTOUT", _) => options.opt_out = true,
                (b"NOLOOP", _) => options.no_loop = true,
                _ => return Err(SYNTAX),
            }
        }
        Ok(options)
    }

    fn mode(&self, present: &Tracking) -> Result<Mode, Failure> {
        let refuse = |text: &'static str| Err(Failure(text.into()));
        if !self.broadcast && !self.prefixes.is_empty() {
            return refuse("ERR PREFIX option requires BCAST mode to be enabled");
        }
        if present.mode.is_some_and(|mode| (mode == Mode::Broadcast) != self.broadcast) {
            return refuse(
                "ERR You can't switch BCAST mode on/off before disabling tracking for this client, \
                 and then re-enabling it with a different mode.",
            );
        }
        if self.broadcast && (self.opt_in || self.opt_out) {
            return refuse("ERR OPTIN and OPTOUT are not compatible with BCAST");
        }
        if self.opt_in && self.opt_out {
            return refuse("ERR You can't specify both OPTIN mode and OPTOUT mode");
        }
        let switches = self.opt_in && present.mode == Some(Mode::OptOut)
            || self.opt_out && present.mode == Some(Mode::OptIn);
        if switches {
            return refuse(
                "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, \
                 and then re-enabling it with a different mode.",
            );
        }
        Ok(match () {
            () if self.broadcast => Mode::Broadcast,
            () if self.opt_in => Mode::OptIn,
            () if self.opt_out => Mode::OptOut,
            () => Mode::All,
        })
    }

    /// Prefixes must not overlap, or one change would be reported twice.
    fn check_prefixes(&self, present: &Tracking) -> Result<(), Failure> {
        if self.prefixes.len() + present.prefixes.len() > PREFIXES_MAX {
            return Err(Failure::new(format!("ERR more than {PREFIXES_MAX} prefixes")));
        }
        let text = |prefix: &[u8]| String::from_utf8_lossy(prefix).into_owned();
        for (index, new) in self.prefixes.iter().enumerate() {
            let overlaps = |old: &[u8]| old.starts_with(new) || new.starts_with(old);
            if let Some(old) = present.prefixes.iter().find(|old| overlaps(old)) {
                return Err(Failure::new(format!(
                    "ERR Prefix '{}' overlaps with an existing prefix '{}'. Prefixes for a single \
                     client must not overlap.",
                    text(new),
                    text(old)
                )));
            }
            if let Some(other) = self.prefixes[index + 1..].iter().find(|old| overlaps(old)) {
                return Err(Failure::new(format!(
                    "ERR Prefix '{}' overlaps with another provided prefix '{}'. Prefixes for a \
                     single client must not overlap.",
                    text(new),
                    text(other)
                )));
            }
        }
        Ok(())
    }
}

pub(crate) fn tracking(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let on = match call.args[2] {
        word if word.eq_ignore_ascii_case(b"ON") => true,
        word if word.eq_ignore_ascii_case(b"OFF") => false,
        _ => return Err(SYNTAX),
    };
    let options = Options::parse(call)?;
    if on {
        turn_on(call, options)?;
    } else {
        turn_off(call);
    }
    call.reply.ok();
    Ok(Outcome::Done)
}

fn turn_on(call: &mut Call<'_, '_>, mut options: Options) -> Result<(), Failure> {
    let present = &call.connection.tracking;
    let mode = options.mode(present)?;
    options.check_prefixes(present)?;
    let (client, no_loop) = (call.connection.client.id, options.no_loop);
    if mode == Mode::Broadcast {
        if options.prefixes.is_empty() && present.prefixes.is_empty() {
            options.prefixes.push(Box::default());
        }
        for shard in call.keys.held() {
            for prefix in &options.prefixes {
                shard.tracking.broadcast(client, prefix, no_loop);
            }
        }
    }
    let tracking = &mut call.connection.tracking;
    (tracking.mode, tracking.no_loop) = (Some(mode), no_loop);
    tracking.prefixes.append(&mut options.prefixes);
    let client = &call.connection.client;
    client.tracking.store(true, Relaxed);
    client.redirect.store(options.redirect, Relaxed);
    client.redirect_broken.store(false, Relaxed);
    client.details.lock().broadcasts = mode == Mode::Broadcast;
    Ok(())
}

fn turn_off(call: &mut Call<'_, '_>) {
    for shard in call.keys.held() {
        shard.tracking.forget(call.connection.client.id);
    }
    let client = std::sync::Arc::clone(&call.connection.client);
    call.connection.tracking.reset(&client);
}

pub(crate) fn caching(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let tracking = &mut call.connection.tracking;
    let yes = match call.args[2] {
        word if word.eq_ignore_ascii_case(b"YES") => true,
        word if word.eq_ignore_ascii_case(b"NO") => false,
        _ => return Err(SYNTAX),
    };
    match (tracking.mode, yes) {
        (Some(Mode::OptIn), true) | (Some(Mode::OptOut), false) => tracking.caching = Some(yes),
        (Some(Mode::OptOut), true) => {
            return Err(Failure(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."
                    .into(),
            ));
        }
        (Some(Mode::OptIn), false) => {
            return Err(Failure(
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."
                    .into(),
            ));
        }
        _ => {
            return Err(Failure(
                "ERR CLIENT CACHING can be called only when the client is in tracking mode with \
                 OPTIN or OPTOUT mode enabled"
                    .into(),
            ));
        }
    }
    call.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn getredir(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let redirect = match call.connection.tracking.mode {
        None => -1,
        Some(_) => call.connection.client.redirect.load(Relaxed) as i64,
    };
    call.reply.integer(redirect);
    Ok(Outcome::Done)
}

pub(crate) fn trackinginfo(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let tracking = &call.connection.tracking;
    let client = &call.connection.client;
    let mut flags = Vec::new();
    for (is, name) in [
        (tracking.mode.is_none(), "off"),
        (tracking.mode.is_some(), "on"),
        (tracking.mode == Some(Mode::Broadcast), "bcast"),
        (tracking.mode == Some(Mode::OptIn), "optin"),
        (tracking.mode == Some(Mode::OptIn) && tracking.caching == Some(true), "caching-yes"),
        (tracking.mode == Some(Mode::OptOut), "optout"),
        (tracking.mode == Some(Mode::OptOut) && tracking.caching == Some(false), "caching-no"),
        (tracking.no_loop, "noloop"),
        (client.redirect_broken.load(Relaxed), "broken_redirect"),
    ] {
        if is {
            flags.push(name);
        }
    }
    let reply = &mut call.reply;
    reply.map(3);
    reply.text("flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.text(flag));
    reply.text("redirect");
    reply.integer(match tracking.mode {
        None => -1,
        Some(_) => client.redirect.load(Relaxed) as i64,
    });
    reply.text("prefixes");
    reply.array(tracking.prefixes.len());
    tracking.prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(Outcome::Done)
}
