//! Secret access keys, from a file in the form of `~/.aws/credentials`, and the groups of those
//! that have the same rights.

use std::{collections::HashMap, fmt, time::Duration};

/// Access keys whose signatures can be verified.
#[derive(Default)]
pub struct Credentials(pub(super) HashMap<String, Credential>);

/// The secret of an access key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credential {
    pub(super) secret: String,
    /// Of temporary credentials.
    pub(super) token: Option<String>,
    /// What stands for all access keys with the same rights.
    pub(super) holder: String,
    /// When it expires, since 1970, if it is [lent](super::lent).
    pub(super) until: Option<Duration>,
}

/// What the settings of this program in a profile begin with.
const OWN: &str = "enroute_";
/// The group of an access key.
const GROUP: &str = "enroute_group";
/// What the holder of a group begins with. No access key of a request contains it.
const OF_GROUP: char = '/';

/// A mistake in a file of credentials. It names no value of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// A line is neither a profile, nor a setting, nor a comment.
    #[error("line {0}: expected `[profile]` or `name = value`")]
    Line(usize),
    /// A profile has one half of a key.
    #[error(
        "profile `{0}`: expected both aws_access_key_id and aws_secret_access_key, found one of them"
    )]
    Half(String),
    /// An access key stands for two secrets, or is in two groups.
    #[error(
        "profile `{0}`: its aws_access_key_id was stated before, with another secret, session token \
         or group"
    )]
    Twice(String),
    /// A setting of this program that it does not know.
    #[error("line {0}: expected `enroute_group`, found another name that begins with `enroute_`")]
    Unknown(usize),
    /// A profile is in no group that has a name, or in two.
    #[error("line {0}: expected one `enroute_group = NAME` in the profile, found {1}")]
    Group(usize, &'static str),
    /// A profile is in a group and has no access key.
    #[error("profile `{0}`: expected aws_access_key_id beside enroute_group, found none")]
    Keyless(String),
}

#[derive(Default)]
struct Profile<'a> {
    name: &'a str,
    access_key: Option<&'a str>,
    secret: Option<&'a str>,
    token: Option<&'a str>,
    group: Option<&'a str>,
}

impl Credentials {
    /// Reads the text of a file: profiles, each with `aws_access_key_id`, `aws_secret_access_key`
    /// and, for temporary credentials, `aws_session_token`. Access keys with the same
    /// `enroute_group` have the same rights. Other settings, and profiles without a key, are passed
    /// over.
    ///
    /// # Errors
    /// The first mistake.
    pub fn parse(text: &str) -> Result<Self, Mistake> {
        let mut all = Self::default();
        let mut profile = Profile::default();
        for (place, line) in text.lines().enumerate() {
            // An indented line belongs to the setting before it.
            if line.starts_with(['#', ';', ' ', '\t']) || line.trim().is_empty() {
                continue;
            }
            let line = line.trim();
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                all.take(std::mem::replace(&mut profile, Profile { name, ..Profile::default() }))?;
                continue;
            }
            let (name, value) = line.split_once('=').ok_or(Mistake::Line(place + 1))?;
            let (name, value) = (name.trim(), value.trim());
            let setting = match name {
                "aws_access_key_id" => &mut profile.access_key,
                "aws_secret_access_key" => &mut profile.secret,
                "aws_session_token" => &mut profile.token,
                GROUP if value.is_empty() => return Err(Mistake::Group(place + 1, "no name")),
                GROUP if profile.group.is_some() => {
                    return Err(Mistake::Group(place + 1, "a second one"));
                }
                GROUP => &mut profile.group,
                _ if name.starts_with(OWN) => return Err(Mistake::Unknown(place + 1)),
                _ => continue,
            };
            *setting = Some(value).filter(|value| !value.is_empty());
        }
        all.take(profile)?;
        Ok(all)
    }

    /// The same with the key that the environment states in `AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`, if any. `variable` returns the value of
    /// one.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn with_environment(
        mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Mistake> {
        let values = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]
            .map(|name| variable(name).filter(|value| !value.is_empty()));
        let [access_key, secret, token] = values.each_ref().map(Option::as_deref);
        // One that the file has too stays in its group.
        let known = access_key.and_then(|access_key| self.of(access_key));
        let is_new =
            |known: &Credential| (Some(&*known.secret), known.token.as_deref()) != (secret, token);
        if known.is_none_or(is_new) {
            let name = "(environment)";
            self.take(Profile { name, access_key, secret, token, group: None })?;
        }
        Ok(self)
    }

    /// Number of access keys.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether the secret of this access key is known.
    #[must_use]
    pub fn know(&self, access_key: &str) -> bool {
        self.of(access_key).is_some()
    }

    pub(super) fn of(&self, access_key: &str) -> Option<&Credential> {
        self.0.get(access_key)
    }

    fn take(
        &mut self,
        Profile { name, access_key, secret, token, group }: Profile<'_>,
    ) -> Result<(), Mistake> {
        let (access_key, secret) = match (access_key, secret) {
            (Some(access_key), Some(secret)) => (access_key, secret),
            (None, None) if group.is_some() => return Err(Mistake::Keyless(name.to_owned())),
            (None, None) => return Ok(()),
            _ => return Err(Mistake::Half(name.to_owned())),
        };
        let token = token.map(str::to_owned);
        let holder = match group {
            Some(group) => format!("{OF_GROUP}{group}"),
            None => access_key.to_owned(),
        };
        let credential = Credential { secret: secret.to_owned(), token, holder, until: None };
        match self.0.get(access_key) {
            Some(other) if *other != credential => Err(Mistake::Twice(name.to_owned())),
            Some(_) => Ok(()),
            None => {
                self.0.insert(access_key.to_owned(), credential);
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Credentials({})", self.0.len())
    }
}
