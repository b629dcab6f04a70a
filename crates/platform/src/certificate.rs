//! Warnings about the expiry of certificates, at the start and while serving.

use std::{path::Path, sync::Arc, thread, time::Duration};

use anyhow::{Context, anyhow};
use parking_lot::{Condvar, Mutex};
use rustls::pki_types::UnixTime;
use tracing::warn;
use webpki::{EndEntityCert, Error, KeyUsage};

use crate::{tls::certificates, wall_clock::now};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Warnings begin this long before expiry, or in the last sixth of a short validity period;
/// certificates are commonly renewed when a third of it is left.
const WARNED_BEFORE: Duration = Duration::from_secs(14 * DAY.as_secs());
/// Maximum interval between checks; there is also one at each expiry.
const LOOK: Duration = Duration::from_secs(60 * 60);

/// Validity period of a certificate; times are since 1970.
#[derive(Debug, Clone)]
pub struct Life {
    /// Name of the owner, for messages.
    pub name: String,
    /// Start of validity.
    pub begins: Duration,
    /// End of validity.
    pub ends: Duration,
}

impl Life {
    /// Of the first certificate in a PEM file, which is `name`'s.
    ///
    /// # Errors
    /// The file cannot be read, or there is no certificate of X.509's third version in it.
    pub fn read(name: &str, path: &Path) -> anyhow::Result<Self> {
        let chain = certificates(path)?;
        let life = || {
            let certificate = EndEntityCert::try_from(&chain[0])?;
            // The verifier reports the validity period in its error for a time outside of it.
            let refusal = |at: u64| {
                let (at, usage) = (Duration::from_secs(at), KeyUsage::server_auth());
                let at = UnixTime::since_unix_epoch(at);
                certificate.verify_for_usage(&[], &[], &[], at, usage, None, None).err()
            };
            match (refusal(0), refusal(u64::MAX)) {
                (
                    Some(Error::CertNotValidYet { not_before, .. }),
                    Some(Error::CertExpired { not_after, .. }),
                ) => Ok((not_before.as_secs(), not_after.as_secs())),
                (_, refusal) => Err(refusal.unwrap_or(Error::InvalidCertValidity)),
            }
        };
        let (begins, ends) = life()
            .map_err(|why| anyhow!("expected a certificate with a validity period: {why:?}"))
            .with_context(|| path.display().to_string())?;
        let (begins, ends) = (Duration::from_secs(begins), Duration::from_secs(ends));
        Ok(Self { name: name.to_owned(), begins, ends })
    }

    /// Days that are left now; below zero once it has ended.
    pub fn days_left(&self) -> f64 {
        (self.ends.as_secs_f64() - now().as_secs_f64()) / DAY.as_secs_f64()
    }

    /// Warning text, if a warning is due.
    fn warning(&self, now: Duration) -> Option<String> {
        let Self { name, begins, ends } = self;
        let early = WARNED_BEFORE.min(ends.saturating_sub(*begins) / 6);
        let told = if now > *ends {
            format!("ended {} ago: clients and servers reject it; renew it", days(now - *ends))
        } else if now < *begins {
            format!("begins in {}: clients and servers reject it until then", days(*begins - now))
        } else if *ends - now < early {
            format!("ends in {}; renew it", days(*ends - now))
        } else {
            return None;
        };
        Some(format!("the certificate of {name} {told}"))
    }
}

/// Warns of certificates that end soon, have ended or are to begin.
pub struct Watch {
    watched: Arc<Watched>,
}

#[derive(Default)]
struct Watched {
    /// Each with the last warning about it.
    lives: Mutex<Vec<(Life, Option<String>)>>,
    replaced: Condvar,
}

impl Watch {
    /// Warns before it returns, and later from a separate thread when a new warning is due.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(lives: Vec<Life>) -> anyhow::Result<Self> {
        let watched = Arc::new(Watched::default());
        let watch = Self { watched: Arc::clone(&watched) };
        watch.replace(lives);
        let body = move || {
            let mut lives = watched.lives.lock();
            loop {
                let rest = look(&mut lives);
                watched.replaced.wait_for(&mut lives, rest);
            }
        };
        thread::Builder::new().name("certificates".into()).spawn(body)?;
        Ok(watch)
    }

    /// Replaces the watched certificates, and warns of them before it returns.
    pub fn replace(&self, lives: Vec<Life>) {
        let mut watched = self.watched.lives.lock();
        *watched = lives.into_iter().map(|life| (life, None)).collect();
        look(&mut watched);
        self.watched.replaced.notify_one();
    }

    /// The watched certificates.
    pub fn lives(&self) -> Vec<Life> {
        self.watched.lives.lock().iter().map(|(life, _)| life.clone()).collect()
    }
}

/// Logs new warnings; returns the time until the next check.
fn look(lives: &mut [(Life, Option<String>)]) -> Duration {
    let now = now();
    for (life, said) in &mut *lives {
        let warning = life.warning(now);
        if warning != *said {
            warning.iter().for_each(|warning| warn!("{warning}"));
            *said = warning;
        }
    }
    let ends = lives.iter().filter_map(|(life, _)| (life.ends + SECOND).checked_sub(now));
    ends.filter(|left| !left.is_zero()).min().unwrap_or(LOOK).min(LOOK)
}

/// Validity periods are in whole seconds.
const SECOND: Duration = Duration::from_secs(1);

fn days(time: Duration) -> String {
    match time.as_secs() / DAY.as_secs() {
        0 => "less than a day".to_owned(),
        1 => "a day".to_owned(),
        days => format!("{days} days"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_begin_before_expiry_and_not_too_early() {
        let life =
            |days: u64| Life { name: "a".into(), begins: DAY, ends: DAY * (1 + days as u32) };
        for (lives, at, told) in [
            (90, 0, Some("begins in a day")),
            (90, 1, None),
            (90, 76, None),
            (90, 78, Some("ends in 13 days")),
            (90, 91, Some("ends in less than a day")),
            (90, 93, Some("ended 2 days ago")),
            (6, 5, None),
            (6, 7, Some("ends in less than a day")),
        ] {
            let warning = life(lives).warning(DAY * at);
            let fits = warning.as_ref().zip(told).is_some_and(|(all, part)| all.contains(part));
            assert!(fits || warning.is_none() && told.is_none(), "{lives} {at}: {warning:?}");
        }
    }

    #[test]
    fn what_is_new_is_said_before_replacing_returns() {
        // Without the thread that would log it later.
        let watch = Watch { watched: Arc::default() };
        let over = Life { name: "a".into(), begins: DAY, ends: DAY * 2 };
        watch.replace(vec![over]);
        let said = watch.watched.lives.lock()[0].1.clone();
        assert!(said.as_ref().is_some_and(|said| said.contains("ended")), "{said:?}");
    }
}
