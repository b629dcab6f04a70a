//! Which backup is being made, and whether its client still waits for it. The client asks again and
//! again until the backup has ended, so that none is made for a client that has gone.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// A backup is abandoned if its client has not asked for this time. Its outcome, too: what a client
/// asks for later is another backup.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// The backup that is being made, or was made last.
#[derive(Debug)]
pub struct Backups<Made> {
    current: Option<Job<Made>>,
}

#[derive(Debug)]
struct Job<Made> {
    directory: PathBuf,
    /// When its client asked last.
    asked: Duration,
    outcome: Option<Result<Made, String>>,
}

impl<Made> Job<Made> {
    fn has_client(&self, now: Duration) -> bool {
        now < self.asked + CLIENT_TIMEOUT
    }
}

/// Answer to a client that asks for a backup.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked<Made> {
    /// It has to be made.
    New,
    /// It is being made.
    UnderWay,
    /// What became of it. The client is not told again.
    Ended(Result<Made, String>),
}

impl<Made> Default for Backups<Made> {
    fn default() -> Self {
        Self { current: None }
    }
}

impl<Made> Backups<Made> {
    /// A client asks for a backup to `directory`.
    ///
    /// # Errors
    /// Another one is being made.
    pub fn ask(&mut self, directory: &Path, now: Duration) -> Result<Asked<Made>, String> {
        match self.current.take() {
            Some(Job { outcome: None, directory: other, asked }) if other != directory => {
                let shown = other.display();
                let refused =
                    format!("a backup to {shown} is being made; try again when it has ended");
                self.current = Some(Job { outcome: None, directory: other, asked });
                Err(refused)
            }
            Some(Job { outcome: None, directory, .. }) => {
                self.current = Some(Job { outcome: None, directory, asked: now });
                Ok(Asked::UnderWay)
            }
            Some(job) if job.directory == directory && job.has_client(now) => {
                Ok(job.outcome.map_or(Asked::UnderWay, Asked::Ended))
            }
            _ => {
                let directory = directory.to_owned();
                self.current = Some(Job { directory, asked: now, outcome: None });
                Ok(Asked::New)
            }
        }
    }

    /// Whether the client of the backup that is being made still asks for it.
    #[must_use]
    pub fn has_client(&self, now: Duration) -> bool {
        self.current.as_ref().is_some_and(|job| job.has_client(now))
    }

    /// The backup that was being made has ended.
    pub fn end(&mut self, outcome: Result<Made, String>) {
        if let Some(job) = &mut self.current {
            job.outcome = Some(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_client_is_told_once_what_became_of_its_backup() {
        let mut backups = Backups::default();
        let (monday, tuesday) = (Path::new("/monday"), Path::new("/tuesday"));
        assert_eq!(backups.ask(monday, at(0)), Ok(Asked::New));
        assert_eq!(backups.ask(monday, at(5)), Ok(Asked::UnderWay));
        let refused = backups.ask(tuesday, at(6)).expect_err("one at a time");
        assert!(refused.contains("/monday"), "{refused}");
        backups.end(Ok(7));
        assert_eq!(backups.ask(monday, at(7)), Ok(Asked::Ended(Ok(7))));
        assert_eq!(backups.ask(monday, at(8)), Ok(Asked::New));
        backups.end(Err("disk full".to_owned()));
        assert_eq!(backups.ask(tuesday, at(9)), Ok(Asked::New));
    }

    #[test]
    fn a_client_that_hangs_has_gone_after_ten_seconds() {
        let mut backups: Backups<u8> = Backups::default();
        assert!(!backups.has_client(at(0)), "there is no backup");
        let directory = Path::new("/monday");
        backups.ask(directory, at(100)).expect("begun");
        assert!(backups.has_client(at(109)));
        backups.ask(directory, at(109)).expect("asked again");
        assert!(backups.has_client(at(118)) && !backups.has_client(at(119)));
        // Another client does not wait for it, whether it asks for the same or not.
        assert!(backups.ask(Path::new("/tuesday"), at(120)).is_err());
        assert!(!backups.has_client(at(120)));
    }

    /// Regression: the next client was told that its backup was complete, and none was made.
    #[test]
    fn an_outcome_without_a_client_is_not_that_of_a_later_backup() {
        let directory = Path::new("/monday");
        for outcome in [Ok(1), Err("its client has gone".to_owned())] {
            let mut backups = Backups::default();
            backups.ask(directory, at(0)).expect("begun");
            backups.end(outcome);
            assert_eq!(backups.ask(directory, at(10)), Ok(Asked::New));
            backups.end(Ok(2));
            assert_eq!(backups.ask(directory, at(11)), Ok(Asked::Ended(Ok(2))));
        }
    }
}
