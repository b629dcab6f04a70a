//! Secret access keys, from a file in the form of `~/.aws/credentials`.

use std::{collections::HashMap, fmt};

/// Access keys whose signatures can be verified.
#[derive(Default)]
pub struct Credentials(HashMap<String, Credential>);

/// The secret of an access key.
#[derive(PartialEq, Eq)]
pub(super) struct Credential {
    pub(super) secret: String,
    /// Of temporary credentials.
    pub(super) token: Option<String>,
}

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
    /// An access key stands for two secrets.
    #[error(
        "profile `{0}`: its aws_access_key_id was stated before, with another secret or session token"
    )]
    Twice(String),
}

#[derive(Default)]
struct Profile<'a> {
    name: &'a str,
    access_key: Option<&'a str>,
    secret: Option<&'a str>,
    token: Option<&'a str>,
}

impl Credentials {
    /// Reads the text of a file: profiles, each with `aws_access_key_id`, `aws_secret_access_key`
    /// and, for temporary credentials, `aws_session_token`. Other settings, and profiles without a
    /// key, are passed over.
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
            let setting = match name.trim() {
                "aws_access_key_id" => &mut profile.access_key,
                "aws_secret_access_key" => &mut profile.secret,
                "aws_session_token" => &mut profile.token,
                _ => continue,
            };
            *setting = Some(value.trim()).filter(|value| !value.is_empty());
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
        self.take(Profile { name: "(environment)", access_key, secret, token })?;
        Ok(self)
    }

    /// Number of access keys.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn of(&self, access_key: &str) -> Option<&Credential> {
        self.0.get(access_key)
    }

    fn take(
        &mut self,
        Profile { name, access_key, secret, token }: Profile<'_>,
    ) -> Result<(), Mistake> {
        let (access_key, secret) = match (access_key, secret) {
            (Some(access_key), Some(secret)) => (access_key, secret),
            (None, None) => return Ok(()),
            _ => return Err(Mistake::Half(name.to_owned())),
        };
        let token = token.map(str::to_owned);
        let credential = Credential { secret: secret.to_owned(), token };
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
