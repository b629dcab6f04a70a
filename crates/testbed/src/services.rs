//! Services that experiments run in their own process. The program passes them in, because this
//! crate imports no service.

use std::{
    net::{IpAddr, UdpSocket},
    sync::atomic::AtomicBool,
    time::Duration,
};

use switch::{agent::Store, install::Key, plane::DataPlane};
use wire::netcache::Message;

/// `enroute switch`: the controller of one data plane, and the agent of a server.
pub trait Switch: Sized {
    /// Takes over an attached data plane, with nothing cached.
    ///
    /// # Errors
    /// A socket cannot be opened.
    fn new(plane: DataPlane) -> anyhow::Result<Self>;

    /// Caches `keys` in advance, within `wait`; returns how many are cached.
    ///
    /// # Errors
    /// As for [`Switch::run`].
    fn warm(&mut self, keys: &[Key], wait: Duration) -> anyhow::Result<usize>;

    /// Controls the data plane until `stop` is set.
    ///
    /// # Errors
    /// An unexpected error of the kernel.
    fn run(&mut self, stop: &AtomicBool) -> anyhow::Result<()>;

    /// Serves `store` behind the switch at the address `switch` until `stop` is set; messages that
    /// `takes` refuses are dropped.
    ///
    /// # Errors
    /// The socket fails, or the store fails.
    fn serve(
        socket: &UdpSocket,
        switch: IpAddr,
        store: &mut impl Store,
        takes: impl FnMut(&Message<'_>) -> bool,
        stop: &AtomicBool,
    ) -> anyhow::Result<()>;
}
