//! Errors of the crate: between user space and the kernel, and in what people hand in.

/// Why the data plane could not be loaded, attached or reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This build has no data plane in it.
    #[error("built without the data plane: install clang, then rebuild")]
    NotBuilt,
    /// The program relies on loads and stores staying in their order.
    #[error("the data plane: expected an x86-64 processor, found {0}")]
    Processor(&'static str),
    /// The kernel or the object refused.
    #[error("{what}: {source}")]
    Kernel {
        /// The attempted operation.
        what: String,
        /// The error of the kernel.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The object lacks something.
    #[error("the data plane has no {0}")]
    Missing(&'static str),
    /// A size is out of range.
    #[error("{what}: expected {min} to {max}, got {got}")]
    Size {
        /// Which size.
        what: &'static str,
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
        /// The requested value.
        got: u64,
    },
    /// Physical addresses differ in the bit that all of a fabric share.
    #[error(
        "{what}: expected an address with the same first bit as {first_address}, got {address}"
    )]
    Underlay {
        /// Which address.
        what: &'static str,
        /// The address.
        address: std::net::Ipv4Addr,
        /// That of the first switch.
        first_address: std::net::Ipv4Addr,
    },
    /// A file is not a capture, or not one of this machine.
    #[error("expected a capture in pcap format, in the byte order of this machine")]
    Capture,
    /// A capture has no packet.
    #[error("expected at least one packet, found none")]
    EmptyCapture,
    /// A text is no frame.
    #[error("expected a capture or at least 14 bytes in hexadecimal, got {0:?}")]
    Frame(String),
}

impl Error {
    pub(crate) fn kernel<E>(what: impl Into<String>) -> impl FnOnce(E) -> Self
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let what = what.into();
        move |source| Self::Kernel { what, source: source.into() }
    }
}
