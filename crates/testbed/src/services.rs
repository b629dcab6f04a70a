//! Services that experiments run in their own process. The program passes them in, because this
//! crate imports no service.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    path::PathBuf,
    sync::atomic::AtomicBool,
    time::Duration,
};

use switch::{agent::Store, install::Key, plane::DataPlane};
use wire::ski;

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

    /// Controls the data plane until `stop` is set. Takes the reports of hot keys at the interval
    /// `reports_every`, or at once if it is zero.
    ///
    /// # Errors
    /// An unexpected error of the kernel.
    fn run(&mut self, reports_every: Duration, stop: &AtomicBool) -> anyhow::Result<()>;

    /// Serves `store` behind the switch at the address `switch` until `stop` is set. `receive`
    /// returns the length and the sender of the next datagram, which it waits for at most for the
    /// given time.
    ///
    /// # Errors
    /// The socket fails, or the store fails.
    fn serve(
        socket: &UdpSocket,
        switch: IpAddr,
        store: &mut impl Store,
        receive: impl FnMut(&mut [u8], Duration) -> io::Result<(usize, SocketAddr)>,
        stop: &AtomicBool,
    ) -> anyhow::Result<()>;
}

/// Fills its argument with random bytes of the system.
pub type Random = fn(&mut [u8]);

/// A key server, and the identity of the edge that sends requests to it. All files are PEM.
#[derive(Debug, Clone)]
pub struct KeyServer {
    /// Host and port.
    pub address: String,
    /// The name in the key server's certificate, if it is not the host of `address`.
    pub name: Option<String>,
    /// Certificates of the authorities that may have signed the key server's.
    pub authorities: PathBuf,
    /// The edge's certificate.
    pub certificate: PathBuf,
    /// The key of `certificate`.
    pub key: PathBuf,
    /// Connections of one client.
    pub connections: usize,
    /// Longest wait for an answer, connecting included.
    pub patience: Duration,
}

/// The client of `enroute keyserver`. Clones share its connections.
pub trait KeyClient: Clone + Send + 'static {
    /// Reads the files. Connects at the first request.
    ///
    /// # Errors
    /// A file cannot be read, or an address or name is not valid.
    fn new(server: &KeyServer) -> anyhow::Result<Self>;

    /// Sends one request; returns whether the key server refused it.
    ///
    /// # Errors
    /// No reply was received.
    fn ask(
        &self,
        request: &ski::Request,
    ) -> impl Future<Output = anyhow::Result<Result<(), ski::Refusal>>> + Send;
}
