//! The message that a full handshake signs, in parts.
//!
//! A key server that signs arbitrary bytes would sign anything for any client. So the input that
//! BoringSSL passes for signing is parsed here, and the key server builds it again.

/// Bytes of `client_random` and of `server_random`.
const RANDOM_BYTES: usize = 32;
/// RFC 8446 §4.4.3: what precedes the transcript hash.
const PADDING: [u8; 64] = [0x20; 64];
const CONTEXT: &[u8] = b"TLS 1.3, server CertificateVerify\0";
/// `ECCurveType.named_curve`, RFC 8422 §5.4.
const NAMED_CURVE: u8 = 3;

/// The message to sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signed {
    /// TLS 1.2 ServerKeyExchange: both randoms and the server's ephemeral key (RFC 8422 §5.4).
    ServerKeyExchange {
        /// The client's random.
        client_random: [u8; RANDOM_BYTES],
        /// Ours.
        server_random: [u8; RANDOM_BYTES],
        /// Curve type, curve, length, point: `ServerECDHParams`.
        parameters: Vec<u8>,
    },
    /// TLS 1.3 CertificateVerify of a server (RFC 8446 §4.4.3).
    CertificateVerify {
        /// The hash of the handshake so far; 32 or 48 bytes.
        transcript_hash: Vec<u8>,
    },
}

/// BoringSSL requested a signature that no server handshake contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected the contents of a ServerKeyExchange or CertificateVerify to sign, found {0} other bytes"
)]
pub struct NotSigned(usize);

impl Signed {
    /// Takes apart what `tls_1_3` or TLS 1.2 signs.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(message: &[u8], tls_1_3: bool) -> Result<Self, NotSigned> {
        let parsed =
            if tls_1_3 { certificate_verify(message) } else { server_key_exchange(message) };
        parsed.ok_or(NotSigned(message.len()))
    }

    /// The bytes that are signed.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        match self {
            Self::ServerKeyExchange { client_random, server_random, parameters } => {
                [client_random.as_slice(), server_random, parameters].concat()
            }
            Self::CertificateVerify { transcript_hash } => {
                [PADDING.as_slice(), CONTEXT, transcript_hash].concat()
            }
        }
    }
}

fn certificate_verify(message: &[u8]) -> Option<Signed> {
    let hash = message.strip_prefix(PADDING.as_slice())?.strip_prefix(CONTEXT)?;
    matches!(hash.len(), 32 | 48)
        .then(|| Signed::CertificateVerify { transcript_hash: hash.to_vec() })
}

fn server_key_exchange(message: &[u8]) -> Option<Signed> {
    let (client_random, rest) = message.split_first_chunk()?;
    let (server_random, parameters) = rest.split_first_chunk()?;
    let [NAMED_CURVE, _, _, length, point @ ..] = parameters else { return None };
    (point.len() == usize::from(*length)).then(|| Signed::ServerKeyExchange {
        client_random: *client_random,
        server_random: *server_random,
        parameters: parameters.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_apart_is_put_together_again() {
        let verify = Signed::CertificateVerify { transcript_hash: vec![7; 48] };
        assert_eq!(Signed::parse(&verify.message(), true), Ok(verify.clone()));
        let mut parameters = vec![3, 0, 29, 32];
        parameters.extend([9; 32]);
        let exchange = Signed::ServerKeyExchange {
            client_random: [1; 32],
            server_random: [2; 32],
            parameters,
        };
        assert_eq!(Signed::parse(&exchange.message(), false), Ok(exchange.clone()));
        assert_eq!(Signed::parse(&verify.message(), false), Err(NotSigned(146)));
        assert_eq!(Signed::parse(&exchange.message(), true), Err(NotSigned(100)));
    }

    #[test]
    fn a_client_s_certificate_verify_and_a_bare_digest_are_refused() {
        let mut message = vec![0x20; 64];
        message.extend(b"TLS 1.3, client CertificateVerify\0");
        message.extend([0; 32]);
        assert!(Signed::parse(&message, true).is_err());
        assert!(Signed::parse(&[0; 32], true).is_err());
        assert!(Signed::parse(&[0; 32], false).is_err());
    }
}
