//! Explains reads of one listener.

use std::net::SocketAddr;

use cache::explain::{Asked, Place, Speaker};

use super::{Listener, Protocol, Shared};

impl Shared {
    /// Why the read `asked` of the listener at `listen` is a hit or not, in lines. It changes
    /// nothing.
    ///
    /// # Errors
    /// There is no such listener, or this is no read: what is expected.
    pub fn explain(&self, listen: Option<&str>, asked: Asked<'_>) -> Result<String, String> {
        let listener = self.listener(listen)?;
        if listener.passes {
            return Err("the TLS of this listener ends at the origin: nothing is cached".to_owned());
        }
        if listener.diverted {
            return Err("this listener has an origin for each connection (`original`): expected \
                        one with a fixed origin"
                .to_owned());
        }
        let speaker = match &listener.protocol {
            Protocol::Mongo(settings) => Speaker::Mongo(settings),
            Protocol::Resp(settings) => Speaker::Resp(settings),
            Protocol::Memcache(settings) => Speaker::Memcache(settings),
            Protocol::DynamoDb(_) => {
                return Err("reads of DynamoDB are not explained: see `why-not`".to_owned());
            }
        };
        let place = Place {
            shards: &self.shards,
            bound: listener.staleness_bound(),
            fed: listener.feed.is_some(),
            now: self.start.elapsed(),
        };
        speaker.explain(asked, place)
    }

    fn listener(&self, listen: Option<&str>) -> Result<&Listener, String> {
        let fits = |listener: &&Listener| listen.is_none_or(|text| listener.is_at(text));
        let mut fitting = self.listeners.iter().map(AsRef::as_ref).filter(fits);
        if let (Some(listener), None) = (fitting.next(), fitting.next()) {
            return Ok(listener);
        }
        let places: Vec<_> = self.listeners.iter().map(|listener| listener.place()).collect();
        Err(format!(
            "{}: expected the address of one listener: {}",
            listen.unwrap_or("no --listen"),
            places.join(", ")
        ))
    }
}

impl Listener {
    /// Whether `text`, an address or what [`Self::place`] says, means this listener. One that
    /// listens on all addresses is meant by any of them.
    fn is_at(&self, text: &str) -> bool {
        let asked: Option<SocketAddr> = text.parse().ok();
        let fits = |asked: SocketAddr| {
            asked == self.address
                || (self.address.ip().is_unspecified() && asked.port() == self.address.port())
        };
        text == self.place() || asked.is_some_and(fits)
    }
}
