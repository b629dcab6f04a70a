//! Fetches in progress, and the requests that wait for them (request coalescing).
//!
//! A fetch runs as a task of its own: a client that disconnects does not end it for the others. Its
//! response is released to each waiting request as if it came from storage; a request that may not
//! receive it asks the origin itself.

use std::{collections::HashMap, sync::Arc};

use content::{Entry, Outcome};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use super::{
    Shared, Site,
    fetch::{Fetch, Own, Wanted},
};

/// Fetches under way that requests may wait for: one for each key at most, so there are never more
/// of them, nor more that wait, than there are requests at once.
#[derive(Default)]
pub(super) struct Flights(Mutex<HashMap<Vec<u8>, Flight>>);

struct Flight {
    told: watch::Receiver<Option<Outcome>>,
    primary: Vec<u8>,
}

impl Flights {
    /// Prevents requests that arrive from now on from waiting for a fetch of this target that is
    /// under way.
    pub(super) fn revoke(&self, primary: &[u8]) {
        self.0.lock().retain(|_, flight| flight.primary != primary);
    }

    /// The same for all targets.
    pub(super) fn revoke_all(&self) {
        self.0.lock().clear();
    }
}

/// A place in a fetch.
pub(super) enum Place {
    /// The fetch is on behalf of this request.
    Own(oneshot::Receiver<Own>),
    /// Another request has asked already.
    Behind(watch::Receiver<Option<Outcome>>),
}

/// Joins the fetch of `wanted`, or begins it; `stored` is the stale entry that the origin may
/// confirm.
pub(super) fn join(
    shared: &Arc<Shared>,
    site: &Arc<Site>,
    wanted: Wanted,
    stored: Option<Arc<Entry>>,
) -> Place {
    let key = wanted.variant.clone().unwrap_or_else(|| wanted.key.clone());
    let mut flights = shared.flights.0.lock();
    if let Some(flight) = flights.get(&key) {
        // A fetch that began before this request cannot satisfy its `no-cache`.
        if wanted.receiver.insists() {
            drop(flights);
            return Place::Own(alone(shared, site, wanted, stored));
        }
        shared.stats.coalesced.count();
        return Place::Behind(flight.told.clone());
    }
    let (tell, told) = watch::channel(None);
    flights.insert(key.clone(), Flight { told: told.clone(), primary: wanted.key.clone() });
    drop(flights);
    let landing = Landing { shared: Arc::clone(shared), key, told };
    let fetch = Fetch::new(shared, site, wanted, stored);
    let (hand_over, own) = oneshot::channel();
    tokio::spawn(async move {
        let (own, outcome) = fetch.run().await;
        // Later requests find the stored entry, or begin a new fetch.
        drop(landing);
        tell.send_replace(Some(outcome));
        let _ = hand_over.send(own);
    });
    Place::Own(own)
}

/// Fetches for one request; no other request waits for it.
pub(super) fn alone(
    shared: &Arc<Shared>,
    site: &Arc<Site>,
    wanted: Wanted,
    stored: Option<Arc<Entry>>,
) -> oneshot::Receiver<Own> {
    let fetch = Fetch::new(shared, site, wanted, stored);
    let (hand_over, own) = oneshot::channel();
    tokio::spawn(async move {
        let _ = hand_over.send(fetch.run().await.0);
    });
    own
}

/// The entry of a fetch in the list, removed when the fetch ends in any way.
struct Landing {
    shared: Arc<Shared>,
    key: Vec<u8>,
    told: watch::Receiver<Option<Outcome>>,
}

impl Drop for Landing {
    fn drop(&mut self) {
        let mut flights = self.shared.flights.0.lock();
        let listed = flights.get(&self.key);
        if listed.is_some_and(|flight| flight.told.same_channel(&self.told)) {
            flights.remove(&self.key);
        }
    }
}
