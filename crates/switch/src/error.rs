//! Errors of the crate: of the kernel, and of packets and captures given by users.

use std::io::{self, ErrorKind};

/// Why the data plane could not be loaded, attached or reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This build contains no data plane.
    #[error("built without the data plane: install clang, then rebuild")]
    NotBuilt,
    /// The program relies on loads and stores staying in their order.
    #[error("the data plane: expected an x86-64 processor, found {0}")]
    Processor(&'static str),
    /// The kernel or the object refused.
    #[error("{what}: {why}")]
    Kernel {
        /// The attempted operation.
        what: String,
        /// The error of the kernel, each cause once, and what to do if that is known.
        why: String,
    },
    /// The object lacks a program or map.
    #[error("the data plane has no {0}")]
    Missing(&'static str),
    /// A size is out of range.
    #[error("{what}: expected {min} to {max}, got {got}")]
    Size {
        /// Name of the size.
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
        /// Name of the address.
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
        move |source| Self::Kernel { what, why: told(&*source.into()) }
    }
}

/// An error and its causes. The libraries below repeat a cause in the text of the error above it.
fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    let mut hint = None;
    let mut next = Some(error);
    while let Some(error) = next {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
        hint = hint.or_else(|| remedy(error.downcast_ref::<io::Error>()?));
        next = error.source();
    }
    text + hint.unwrap_or_default()
}

fn remedy(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            Some("; run the command as root (it needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)")
        }
        ErrorKind::AlreadyExists | ErrorKind::ResourceBusy => Some(
            "; another XDP program is attached there: `ip link show` names it. `enroute switch detach`, \
             `enroute switch v2p detach` or `ip link set dev NAME xdp off` removes it",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("map error: {0}")]
    struct Above(#[source] Below);

    #[derive(Debug, thiserror::Error)]
    #[error("failed to create map `leases`")]
    struct Below(#[source] io::Error);

    #[test]
    fn each_cause_is_said_once_and_a_missing_right_names_the_remedy() {
        let error = Above(Below(io::Error::from_raw_os_error(1)));
        assert_eq!(
            Error::kernel("cannot load the data plane")(error).to_string(),
            "cannot load the data plane: map error: failed to create map `leases`: Operation not permitted \
             (os error 1); run the command as root (it needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)"
        );
    }

    #[test]
    fn another_program_at_the_interface_is_named_as_such() {
        let error = Error::kernel("cannot attach to eth0")(io::Error::from_raw_os_error(17));
        assert!(error.to_string().contains("another XDP program is attached there"), "{error}");
    }
}
