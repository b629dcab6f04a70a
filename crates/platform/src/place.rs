//! Where an origin is: an address that the configuration states, or one that is found and changes.
//!
//! Each change has a number, the epoch. A connection that was made in an earlier epoch leads to a
//! server that is no longer the origin: its session gives it up before it reads or writes again
//! (`connection/far.rs`). So whatever moves an origin calls, in this order, [`Place::leave`], drops
//! what is stored of the origin, and calls [`Place::arrive`]: nothing that the former server still
//! says is stored, and nothing of it is served beside an answer of the next.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::Duration,
};

use tokio::{sync::watch, time::timeout};

/// The present address of an origin.
#[derive(Debug)]
pub struct Place {
    address: watch::Sender<Option<String>>,
    /// Changes while `address` is locked; sessions read it without the lock.
    epoch: AtomicU64,
}

impl Place {
    /// At `address`, or to be found.
    pub fn new(address: Option<String>) -> Self {
        Self { address: watch::Sender::new(address), epoch: AtomicU64::new(0) }
    }

    /// Number of times that it was left.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(SeqCst)
    }

    /// The server is no longer the origin: its connections are given up.
    pub fn leave(&self) {
        // Within the lock of the address, so that no reader gets the address of one epoch with the
        // number of the next.
        self.address.send_modify(|address| {
            self.epoch.fetch_add(1, SeqCst);
            *address = None;
        });
    }

    /// The origin is at `address` now.
    pub fn arrive(&self, address: String) {
        self.address.send_replace(Some(address));
    }

    /// The address, and the epoch from which on it is valid. Waits for it up to `limit`.
    ///
    /// # Errors
    /// It is not known in time.
    pub async fn find(&self, limit: Duration) -> io::Result<(String, u64)> {
        let mut addresses = self.address.subscribe();
        loop {
            if let Some(address) = &*addresses.borrow_and_update() {
                // The lock is held: `leave` changes both or neither.
                return Ok((address.clone(), self.epoch()));
            }
            if timeout(limit, addresses.changed()).await.is_err() {
                let message = format!("no server of the origin can be used after {limit:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
        }
    }

    /// Returns once it has left `epoch`.
    pub async fn moved_from(&self, epoch: u64) {
        let mut addresses = self.address.subscribe();
        while self.epoch() == epoch && addresses.changed().await.is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// Each test address is the number of the epoch in which it is valid.
    #[test]
    fn an_address_is_never_given_with_the_epoch_of_the_next() {
        let place = Place::new(Some("0".to_owned()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.expect("a runtime");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for epoch in 1..=200_000_u64 {
                    place.leave();
                    place.arrive(epoch.to_string());
                }
                over.store(true, SeqCst);
            });
            runtime.block_on(async {
                while !over.load(SeqCst) {
                    let (address, epoch) =
                        place.find(Duration::from_secs(60)).await.expect("an address");
                    assert_eq!(address, epoch.to_string());
                }
            });
        });
    }

    #[tokio::test]
    async fn connections_wait_for_an_address_and_learn_when_it_is_left() {
        let limit = Duration::from_secs(60);
        let place = Place::new(None);
        let (found, ()) = tokio::join!(place.find(limit), async { place.arrive("a:1".to_owned()) });
        assert_eq!(found.expect("an address"), ("a:1".to_owned(), 0));
        let ((), ()) = tokio::join!(place.moved_from(0), async { place.leave() });
        assert!(place.find(Duration::ZERO).await.is_err());
        place.arrive("b:1".to_owned());
        assert_eq!(place.find(limit).await.expect("an address"), ("b:1".to_owned(), 1));
    }
}
