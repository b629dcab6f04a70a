//! The server's half of an ECDHE exchange, as in a TLS 1.2 ServerKeyExchange.

use super::PROTOCOL;
use crate::{Error, Result};

/// `ECCurveType.named_curve` (RFC 8422 §5.4).
const NAMED_CURVE: u8 = 3;
/// Curve type, curve, length of the point.
const HEADER_BYTES: usize = 4;
/// First byte of an uncompressed point.
const UNCOMPRESSED: u8 = 4;

/// The curves on which an edge may exchange keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Curve {
    /// `secp256r1`
    P256,
    /// `secp384r1`
    P384,
    /// `x25519`
    X25519,
}

impl Curve {
    fn numbered(number: u16) -> Option<Self> {
        match number {
            23 => Some(Self::P256),
            24 => Some(Self::P384),
            29 => Some(Self::X25519),
            _ => None,
        }
    }

    /// Length in bytes of a public point.
    pub fn point_bytes(self) -> usize {
        match self {
            Self::P256 => 65,
            Self::P384 => 97,
            Self::X25519 => 32,
        }
    }
}

/// `ServerECDHParams`: a named curve and a point of the right form. The key server checks that the
/// point is on the curve, which takes arithmetic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    curve: Curve,
    bytes: Vec<u8>,
}

impl Params {
    /// Reads all of `bytes`. `offset` is their position in the input, for the error.
    pub fn decode(bytes: &[u8], offset: usize) -> Result<Self> {
        let wrong = |at: usize, expected, got| Error::Malformed {
            protocol: PROTOCOL,
            offset: offset + at,
            expected,
            got,
        };
        let [kind, high, low, length, point @ ..] = bytes else {
            let got = format!("{} bytes", bytes.len());
            return Err(wrong(0, "ECDHE params: a named curve and a point", got));
        };
        if *kind != NAMED_CURVE {
            return Err(wrong(0, "curve type 3, a named curve", kind.to_string()));
        }
        let number = u16::from_be_bytes([*high, *low]);
        let curve = Curve::numbered(number)
            .ok_or_else(|| wrong(1, "curve 23, 24 or 29", number.to_string()))?;
        if usize::from(*length) != curve.point_bytes() || point.len() != curve.point_bytes() {
            let got = format!("a length of {length} before {} bytes", point.len());
            return Err(wrong(3, "a point with the length that its curve requires", got));
        }
        if curve != Curve::X25519 && point.first() != Some(&UNCOMPRESSED) {
            return Err(wrong(
                HEADER_BYTES,
                "an uncompressed point",
                format!("{:?}", point.first()),
            ));
        }
        Ok(Self { curve, bytes: bytes.to_vec() })
    }

    /// The curve.
    pub fn curve(&self) -> Curve {
        self.curve
    }

    /// The point, with the length that its curve requires.
    pub fn point(&self) -> &[u8] {
        self.bytes.get(HEADER_BYTES..).unwrap_or_default()
    }

    /// The parameters as in the handshake.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
