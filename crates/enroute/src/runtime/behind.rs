//! The origin of a connection, and its settings.
//!
//! Most listeners have one origin. A listener with `origin = "…://original"` serves connections
//! that the kernel has diverted to it (`enroute intercept`); the origin of each is its original
//! destination.

use std::{net::SocketAddr, sync::Arc};

use super::{Origin, Protocol};

/// Origin and settings of one connection.
#[derive(Clone)]
pub(super) struct Behind {
    pub(super) protocol: Protocol,
    pub(super) origin: Arc<Origin>,
}

impl Behind {
    /// The same with another address. Keys of different origins are distinct, because the settings
    /// contain the address.
    pub(super) fn at(&self, address: SocketAddr) -> Self {
        let name = address.to_string();
        let protocol = match &self.protocol {
            Protocol::Mongo(settings) => Protocol::Mongo(Arc::new(settings.at(name.clone()))),
            Protocol::Resp(settings) => Protocol::Resp(Arc::new(settings.at(name.clone()))),
            Protocol::Memcache(settings) => Protocol::Memcache(Arc::new(settings.at(name.clone()))),
            Protocol::DynamoDb(settings) => Protocol::DynamoDb(Arc::new(settings.at(name.clone()))),
        };
        Self { protocol, origin: Arc::new(self.origin.at(name)) }
    }
}
