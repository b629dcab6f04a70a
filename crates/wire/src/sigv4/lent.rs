//! Access keys that another process lends for some time, in the form of the endpoint from which
//! containers of AWS take theirs.

use std::time::Duration;

use serde::Deserialize;

use super::{Credentials, credentials::Credential, signature::seconds};

/// Maximum number of lent access keys at once: the newest, and older ones that have not expired.
const LENT_MAX: usize = 16;

/// Why a lent access key cannot be used. It names no value of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The answer is not understood.
    #[error(
        "expected an object with AccessKeyId, SecretAccessKey, Token and Expiration \
         (2015-08-30T12:36:00Z), found another answer"
    )]
    Form,
    /// It has expired.
    #[error("expected an access key that has not expired, found one that has")]
    Expired,
    /// The access key stands for two secrets.
    #[error(
        "expected an access key with one secret and token, found one that has others elsewhere"
    )]
    Twice,
    /// Too many are lent at once.
    #[error("expected at most {LENT_MAX} access keys that have not expired, found more")]
    TooMany,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    access_key_id: String,
    secret_access_key: String,
    #[serde(default)]
    token: Option<String>,
    expiration: String,
}

impl Credentials {
    /// The same with the access key that `answer` lends, and without those that have expired; and
    /// until when it is lent. Times are since 1970.
    ///
    /// # Errors
    /// The access key cannot be used.
    pub fn with_lent(&self, answer: &[u8], now: Duration) -> Result<(Self, Duration), Unusable> {
        let Answer { access_key_id, secret_access_key, token, expiration } =
            serde_json::from_slice(answer).map_err(|_| Unusable::Form)?;
        let until = seconds(&expiration.replace(['-', ':'], "")).ok_or(Unusable::Form)?;
        let until = Duration::from_secs(u64::try_from(until).map_err(|_| Unusable::Form)?);
        let token = token.filter(|token| !token.is_empty());
        if access_key_id.is_empty() || access_key_id.contains('/') || secret_access_key.is_empty() {
            return Err(Unusable::Form);
        }
        if until <= now {
            return Err(Unusable::Expired);
        }
        let holder = access_key_id.clone();
        let lent = Credential { secret: secret_access_key, token, holder, until: Some(until) };
        let mut next = Self::default();
        next.keep_lent_of(self, now);
        next.0.extend(self.0.iter().filter(|(_, one)| one.until.is_none()).map(clone));
        let is_other = |known: &Credential| {
            known.until.is_none() || (&known.secret, &known.token) != (&lent.secret, &lent.token)
        };
        if next.0.get(&access_key_id).is_some_and(is_other) {
            return Err(Unusable::Twice);
        }
        next.0.insert(access_key_id, lent);
        if next.0.values().filter(|one| one.until.is_some()).count() > LENT_MAX {
            return Err(Unusable::TooMany);
        }
        Ok((next, until))
    }

    /// Adds those that were lent to `before` and have not expired, unless they are stated here.
    pub fn keep_lent_of(&mut self, before: &Self, now: Duration) {
        for (access_key, lent) in &before.0 {
            if lent.until.is_some_and(|until| until > now) && !self.0.contains_key(access_key) {
                self.0.insert(access_key.clone(), lent.clone());
            }
        }
    }
}

fn clone((access_key, credential): (&String, &Credential)) -> (String, Credential) {
    (access_key.clone(), credential.clone())
}
