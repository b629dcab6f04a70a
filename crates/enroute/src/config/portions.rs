//! Bounds of the memory of each origin.

use cache::{key, storage::Portion};

use super::{
    Bytes, Document, ListenerDocument,
    mistake::{Mistake, Place},
};

impl Document {
    /// What each origin may have of the memory. `secret` names the origins.
    pub(crate) fn portions(&self, secret: u64) -> Vec<Portion> {
        let mut portions: Vec<Portion> = Vec::new();
        for listener in self.listeners.iter().filter(|one| one.stores()) {
            let name = listener.origin_name();
            let origin = (!listener.origin.is_original()).then(|| key::origin(secret, &name));
            let bytes = |written: Option<Bytes>| written.map(|bytes| bytes.count() as u64);
            let (floor, ceiling) = (bytes(listener.memory_min), bytes(listener.memory_max));
            // That of the first of an origin holds for all.
            if !portions.iter().any(|portion| portion.origin == origin) {
                portions.push(Portion { origin, floor, ceiling });
            }
        }
        portions
    }

    /// The first mistake in the bounds of memory.
    pub(super) fn find_portion_mistake(&self) -> Result<(), Mistake> {
        let memory = self.storage().memory.bytes_max;
        let mut floors = 0_usize;
        for (number, listener) in self.listeners.iter().enumerate() {
            let mistake =
                |field, message| Err(Mistake { at: Some(Place::Listener(number, field)), message });
            let (least, most) = (listener.memory_min, listener.memory_max);
            let field = if least.is_some() { "memory_min" } else { "memory_max" };
            if (least.is_some() || most.is_some()) && !listener.stores() {
                return mistake(
                    field,
                    format!("`{field}` of a listener that stores nothing; remove it"),
                );
            }
            let mut earlier = self.listeners[..number].iter();
            if let Some(first) = earlier.find(|one| one.shares_entries(listener))
                && (least.is_some() || most.is_some())
            {
                let message = format!(
                    "expected `{field}` at the first listener of the origin, {}: both have one share",
                    first.listen
                );
                return mistake(field, message);
            }
            if let (Some(least), Some(most)) = (least, most)
                && least.count() > most.count()
            {
                let message = format!(
                    "expected at most memory_max = {} bytes, found {}",
                    most.count(),
                    least.count()
                );
                return mistake("memory_min", message);
            }
            floors = floors.saturating_add(least.map_or(0, Bytes::count));
            if floors > memory && least.is_some() {
                let message = format!(
                    "expected at most [storage] memory = {memory} bytes for `memory_min` of all \
                     listeners together, found {floors}"
                );
                return mistake("memory_min", message);
            }
        }
        Ok(())
    }
}

impl ListenerDocument {
    /// The name of its origin in keys.
    pub(super) fn origin_name(&self) -> String {
        let of_cluster = |cluster: &String| format!("cluster {cluster}");
        self.cluster.as_ref().map_or_else(|| self.origin.host_port.clone(), of_cluster)
    }

    fn stores(&self) -> bool {
        !self.uses_secondary() && !self.passes_through()
    }
}
