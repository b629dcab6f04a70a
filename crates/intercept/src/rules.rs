//! A plan as text: the nftables table, and the routing that TPROXY needs beside it.

use std::fmt::Write;

use crate::{Local, Mode, Plan};

impl Plan {
    /// The table, as `nft -f` takes it. An older one of the same name is replaced in the same step.
    #[must_use]
    pub fn rules(&self) -> String {
        let mut text = replacement_of(self.name.as_str());
        writeln!(text, "table inet {} {{", self.name).expect(INFALLIBLE);
        if !self.local.as_ref().is_some_and(|local| local.only) {
            let hook = match self.mode {
                Mode::Redirect => "type nat hook prerouting priority dstnat",
                Mode::Tproxy => "type filter hook prerouting priority mangle",
            };
            chain(&mut text, "passing", hook, &self.passing());
        }
        if let Some(Local { cache_user, .. }) = &self.local {
            // Connections of the cache to the database.
            let others = format!("meta skuid != {}", quoted_unless_number(cache_user.as_str()));
            let hook = "type nat hook output priority -100";
            chain(&mut text, "local", hook, &[self.rule(&others)]);
        }
        text.push_str("}\n");
        text
    }

    /// The `ip` commands that take marked packets in, without `ip` itself; none but for TPROXY.
    #[must_use]
    pub fn routing(&self) -> Vec<String> {
        if self.mode == Mode::Redirect {
            return Vec::new();
        }
        let family = self.family();
        let everything = if self.to.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
        let mark = self.mark;
        vec![
            format!("{family} route replace local {everything} dev lo table {mark}"),
            format!("{family} rule add fwmark {mark} lookup {mark}"),
        ]
    }

    /// Its family of addresses, as `ip` takes it.
    #[must_use]
    pub fn family(&self) -> &'static str {
        if self.to.is_ipv4() { "-4" } else { "-6" }
    }

    fn passing(&self) -> Vec<String> {
        let incoming = self.incoming();
        let mut rules = vec![self.rule(&incoming)];
        if self.mode == Mode::Tproxy {
            // Packets of connections that the cache has accepted stay with it.
            let taken = format!("{incoming} socket transparent 1");
            rules.insert(0, format!("{taken} meta mark set {} accept", self.mark));
        }
        rules
    }

    fn incoming(&self) -> String {
        if self.interfaces.is_empty() {
            return "iifname != \"lo\"".to_owned();
        }
        let names: Vec<_> = self.interfaces.iter().map(|name| format!("\"{name}\"")).collect();
        format!("iifname {{ {} }}", names.join(", "))
    }

    /// One rule: source, destination and action.
    fn rule(&self, whose: &str) -> String {
        let family = if self.to.is_ipv4() { "ip" } else { "ip6" };
        let destination = if self.origins.is_empty() {
            format!("meta nfproto {}", if self.to.is_ipv4() { "ipv4" } else { "ipv6" })
        } else {
            let origins: Vec<_> = self.origins.iter().map(ToString::to_string).collect();
            format!("{family} daddr {{ {} }}", origins.join(", "))
        };
        let target = self.to;
        let target_port = target.port();
        let action = match (self.mode, target.ip().is_unspecified() || target.ip().is_loopback()) {
            // To the address of the interface the connection comes in on, or to loopback.
            (Mode::Redirect, true) => format!("redirect to :{target_port}"),
            (Mode::Redirect, false) => format!("dnat {family} to {target}"),
            (Mode::Tproxy, _) => {
                let to = if target.ip().is_unspecified() {
                    format!(":{target_port}")
                } else {
                    target.to_string()
                };
                format!("tproxy {family} to {to} meta mark set {} accept", self.mark)
            }
        };
        let port = self.port;
        // Connections to this machine itself are not diverted. Only new connections are diverted:
        // the cache has no state of an established one.
        format!(
            "{whose} fib daddr type != local {destination} tcp dport {port} \
             tcp flags & (syn | ack) == syn counter {action}"
        )
    }
}

/// The table of this name is deleted, whether or not it is there.
#[must_use]
pub fn replacement_of(name: &str) -> String {
    // Deleting what is absent is an error, so it is made first.
    format!("table inet {name}\ndelete table inet {name}\n")
}

fn chain(text: &mut String, name: &str, hook: &str, rules: &[String]) {
    let rules = rules.join("\n\t\t");
    write!(text, "\tchain {name} {{\n\t\t{hook}; policy accept;\n\t\t{rules}\n\t}}\n")
        .expect(INFALLIBLE);
}

fn quoted_unless_number(user: &str) -> String {
    if user.bytes().all(|byte| byte.is_ascii_digit()) {
        user.to_owned()
    } else {
        format!("\"{user}\"")
    }
}

const INFALLIBLE: &str = "a string takes everything";
