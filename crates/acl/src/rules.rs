//! The rules of one user: `on`, `>password`, `~pattern`, `+command`, `-@category` and their kin.

use std::fmt;

use notation::glob;
use sha2::{Digest, Sha256};
use wire::resp::command::Categories;

use crate::{Commands, Error};

/// Rights of one user.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The user can log in.
    pub enabled: bool,
    /// Every password is accepted.
    pub without_password: bool,
    /// SHA-256, in hexadecimal digits; in the order they were added.
    pub passwords: Vec<String>,
    /// Every key, regardless of the patterns.
    all_keys: bool,
    keys: Vec<KeyPattern>,
    /// The `sanitize-payload` setting, if given. It has no effect.
    pub payload: Option<&'static str>,
    /// Patterns of the channels it may use.
    pub channels: Vec<String>,
    known: Commands,
    /// Whether each of them is allowed.
    allowed: Vec<bool>,
    /// The rules about commands since the last that named all.
    commands: Vec<String>,
    /// Everything is allowed, so no lookup is needed.
    unrestricted: bool,
}

/// Keys a user may touch, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyPattern {
    read: bool,
    write: bool,
    pattern: String,
}

impl fmt::Display for KeyPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.read, self.write) {
            (true, true) => write!(out, "~{}", self.pattern),
            (true, false) => write!(out, "%R~{}", self.pattern),
            _ => write!(out, "%W~{}", self.pattern),
        }
    }
}

/// A password as it is kept.
fn hash(password: &[u8]) -> String {
    Sha256::digest(password).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Rules {
    /// Everything, without a password.
    pub(crate) fn everything(known: &Commands) -> Self {
        let mut rules = Self::nothing(known);
        for rule in ["on", "nopass", "~*", "&*", "+@all"] {
            rules.apply(rule).expect("a rule");
        }
        rules
    }

    /// Rights of a new user: none.
    pub(crate) fn nothing(known: &Commands) -> Self {
        Self {
            enabled: false,
            without_password: false,
            passwords: Vec::new(),
            all_keys: false,
            keys: Vec::new(),
            payload: None,
            channels: Vec::new(),
            known: Commands::clone(known),
            allowed: vec![false; known.len()],
            commands: vec!["-@all".to_owned()],
            unrestricted: false,
        }
    }

    /// Whether clients become this user without a login.
    pub fn needs_no_password(&self) -> bool {
        self.enabled && self.without_password
    }

    /// Whether this is a password of the user and the user is enabled.
    pub(crate) fn accepts(&self, password: &[u8]) -> bool {
        self.enabled && (self.without_password || self.passwords.contains(&hash(password)))
    }

    /// Whether the user may execute every command, with every key and channel.
    #[inline]
    pub fn is_unrestricted(&self) -> bool {
        self.unrestricted
    }

    /// Whether the user may execute the command at this place.
    pub fn may_execute(&self, place: usize) -> bool {
        self.allowed.get(place).is_some_and(|&allowed| allowed)
    }

    /// Whether every key is allowed.
    pub fn has_all_keys(&self) -> bool {
        self.all_keys
    }

    /// Whether the user may use a key in this way.
    ///
    /// A single pattern must allow all of it, as in Redis: read access by one and write access by
    /// another do not combine.
    pub fn may_touch(&self, key: &[u8], reads: bool, writes: bool) -> bool {
        self.all_keys
            || self.keys.iter().any(|pattern| {
                (pattern.read || !reads)
                    && (pattern.write || !writes)
                    && glob::matches(pattern.pattern.as_bytes(), key)
            })
    }

    /// Whether the user may use the channel.
    pub fn may_hear(&self, channel: &[u8]) -> bool {
        self.channels.iter().any(|pattern| glob::matches(pattern.as_bytes(), channel))
    }

    /// Applies one rule.
    pub(crate) fn apply(&mut self, rule: &str) -> Result<(), Error> {
        self.change(rule).map_err(|why| Error::Rule { rule: rule.to_owned(), why })?;
        let all_channels = self.channels.iter().any(|channel| channel == "*");
        self.unrestricted =
            self.all_keys && all_channels && self.allowed.iter().all(|&allowed| allowed);
        Ok(())
    }

    fn change(&mut self, rule: &str) -> Result<(), &'static str> {
        let folded = rule.to_ascii_lowercase();
        match folded.as_str() {
            "on" => self.enabled = true,
            "off" => self.enabled = false,
            "nopass" => {
                self.without_password = true;
                self.passwords.clear();
            }
            "resetpass" => {
                self.without_password = false;
                self.passwords.clear();
            }
            "allkeys" | "~*" => {
                self.all_keys = true;
                self.keys.clear();
            }
            "resetkeys" => {
                self.all_keys = false;
                self.keys.clear();
            }
            "allchannels" => self.change("&*")?,
            "resetchannels" => self.channels.clear(),
            "allcommands" => self.change("+@all")?,
            "nocommands" => self.change("-@all")?,
            "reset" => *self = Self { payload: Some(SANITIZE), ..Self::nothing(&self.known) },
            SANITIZE => self.payload = Some(SANITIZE),
            SKIP_SANITIZE => self.payload = Some(SKIP_SANITIZE),
            _ => self.change_by_sign(rule)?,
        }
        Ok(())
    }

    fn change_by_sign(&mut self, rule: &str) -> Result<(), &'static str> {
        let Some(sign) = rule.chars().next() else { return Err(SYNTAX) };
        let rest = &rule[sign.len_utf8()..];
        match sign {
            '>' => self.add_password(hash(rest.as_bytes())),
            '#' if is_hash(rest) => self.add_password(rest.to_owned()),
            '<' => self.remove_password(&hash(rest.as_bytes()))?,
            '!' if is_hash(rest) => self.remove_password(rest)?,
            '#' | '!' => {
                return Err(
                    "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters",
                );
            }
            '~' | '%' if self.all_keys => {
                return Err(
                    "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns",
                );
            }
            '~' => self.add_keys(true, true, rest)?,
            '%' => {
                let (how, pattern) = rest.split_once('~').ok_or(SYNTAX)?;
                let how = how.to_ascii_uppercase();
                if how.is_empty() || !how.chars().all(|each| matches!(each, 'R' | 'W')) {
                    return Err(SYNTAX);
                }
                self.add_keys(how.contains('R'), how.contains('W'), pattern)?;
            }
            '&' => {
                if self.channels.iter().any(|channel| channel == "*") && rest != "*" {
                    return Err(
                        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels",
                    );
                }
                if rest.contains(char::is_whitespace) {
                    return Err(SYNTAX);
                }
                if rest == "*" {
                    self.channels.clear();
                }
                if !self.channels.iter().any(|channel| channel == rest) {
                    self.channels.push(rest.to_owned());
                }
            }
            '+' | '-' => self.change_commands(sign == '+', rest)?,
            _ => return Err(SYNTAX),
        }
        Ok(())
    }

    fn add_password(&mut self, hash: String) {
        self.without_password = false;
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
    }

    fn remove_password(&mut self, hash: &str) -> Result<(), &'static str> {
        let at = self.passwords.iter().position(|present| present == hash);
        let at = at.ok_or("The password you are trying to remove from the user does not exist")?;
        self.passwords.remove(at);
        Ok(())
    }

    fn add_keys(&mut self, read: bool, write: bool, pattern: &str) -> Result<(), &'static str> {
        // It would be another rule in the file of users.
        if pattern.contains(char::is_whitespace) {
            return Err(SYNTAX);
        }
        match self.keys.iter_mut().find(|keys| keys.pattern == pattern) {
            Some(keys) => (keys.read, keys.write) = (keys.read | read, keys.write | write),
            None => self.keys.push(KeyPattern { read, write, pattern: pattern.to_owned() }),
        }
        Ok(())
    }

    fn change_commands(&mut self, allow: bool, what: &str) -> Result<(), &'static str> {
        let what = what.to_ascii_lowercase();
        let mut found = false;
        match what.strip_prefix('@') {
            Some("all") => {
                self.allowed.fill(allow);
                self.commands.clear();
                found = true;
            }
            Some(category) => {
                let within = Categories::named(category).ok_or(UNKNOWN)?;
                found = true;
                for (allowed, row) in self.allowed.iter_mut().zip(&*self.known) {
                    if row.categories().contains(within) {
                        *allowed = allow;
                    }
                }
            }
            None => {
                let container = format!("{what}|");
                for (allowed, row) in self.allowed.iter_mut().zip(&*self.known) {
                    if row.name == what || row.name.starts_with(&container) {
                        *allowed = allow;
                        found = true;
                    }
                }
            }
        }
        if !found {
            return Err(UNKNOWN);
        }
        let signs = [format!("+{what}"), format!("-{what}")];
        self.commands.retain(|rule| !signs.contains(rule));
        self.commands.push(signs[usize::from(!allow)].clone());
        Ok(())
    }
}

const SYNTAX: &str = "Syntax error";
const UNKNOWN: &str = "Unknown command or category name in ACL";
const SANITIZE: &str = "sanitize-payload";
const SKIP_SANITIZE: &str = "skip-sanitize-payload";

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl fmt::Display for Rules {
    /// Writes the rules in the form of ACL LIST and of the users file.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.enabled { "on" } else { "off" })?;
        if self.without_password {
            out.write_str(" nopass")?;
        }
        for password in &self.passwords {
            write!(out, " #{password}")?;
        }
        if let Some(word) = self.payload {
            write!(out, " {word}")?;
        }
        for keys in self.key_rules() {
            write!(out, " {keys}")?;
        }
        if !self.channels.iter().any(|channel| channel == "*") {
            out.write_str(" resetchannels")?;
        }
        for channel in &self.channels {
            write!(out, " &{channel}")?;
        }
        write!(out, " {}", self.command_rules())
    }
}

impl Rules {
    /// The rules about keys.
    pub fn key_rules(&self) -> Vec<String> {
        let all = self.all_keys.then(|| "~*".to_owned());
        all.into_iter().chain(self.keys.iter().map(ToString::to_string)).collect()
    }

    /// The rules about commands in one line.
    pub fn command_rules(&self) -> String {
        let begins = self.commands.first().is_some_and(|rule| rule.ends_with("@all"));
        let rules = self.commands.join(" ");
        if begins { rules } else { format!("-@all {rules}") }
    }
}
