//! The 8 bytes before each UDP datagram.

use super::PROTOCOL;
use crate::{Error, Result};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 8;

/// One datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Chosen by the client, returned in every datagram of the answer.
    pub request: u16,
    /// Index of this datagram within the reply.
    pub sequence: u16,
    /// Number of datagrams of the reply.
    pub datagrams: u16,
    /// The payload.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// A message that fits into one datagram.
    pub fn whole(request: u16, payload: &'a [u8]) -> Self {
        Self { request, sequence: 0, datagrams: 1, payload }
    }

    /// Reads a datagram.
    ///
    /// # Errors
    /// It is shorter than its header.
    pub fn decode(datagram: &'a [u8]) -> Result<Self> {
        let Some((header, payload)) = datagram.split_first_chunk::<HEADER_BYTES>() else {
            return Err(Error::Malformed {
                protocol: PROTOCOL,
                offset: datagram.len(),
                expected: "8 bytes of UDP header",
                got: datagram.len().to_string(),
            });
        };
        let [r0, r1, s0, s1, d0, d1, _, _] = *header;
        Ok(Self {
            request: u16::from_be_bytes([r0, r1]),
            sequence: u16::from_be_bytes([s0, s1]),
            datagrams: u16::from_be_bytes([d0, d1]),
            payload,
        })
    }

    /// The datagram.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + self.payload.len());
        for field in [self.request, self.sequence, self.datagrams, 0] {
            out.extend(field.to_be_bytes());
        }
        out.extend(self.payload);
        out
    }
}
