//! Requests that stand in for those of a client.

use sha2::{Digest, Sha256};

use super::{Credentials, Verifier, signature::hex};
use crate::http1::{Limits, RequestHead, head};

/// What the signature begins with in its header.
const SIGNATURE: &[u8] = b"Signature=";

impl Verifier {
    /// Appends the request `original`, which was verified and whose body is not in chunks, with
    /// another `body`, signed by the same access key for the same time. If it cannot be signed it
    /// keeps the signature of the original, which the origin refuses.
    pub fn write_with_body(
        &mut self,
        original: &RequestHead<'_>,
        body: &[u8],
        credentials: &Credentials,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        let line = [original.method, " ", original.target, " HTTP/1."].concat();
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(original.head.minor.to_string().as_bytes());
        out.extend_from_slice(b"\r\n");
        let length = body.len().to_string();
        let hash = hex(&Sha256::digest(body).into());
        let mut signature = None;
        for (name, value) in &original.head.headers {
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            let value = match () {
                () if is("content-length") => length.as_bytes(),
                () if is("x-amz-content-sha256") => &hash,
                () => value,
            };
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            if is("authorization") {
                // It is the last part.
                let at = memchr::memmem::rfind(value, SIGNATURE).map(|at| at + SIGNATURE.len());
                signature = at.map(|at| out.len() + at);
            }
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        // It has a blank after each colon, so it may be longer than the original.
        let limits = Limits { head_bytes_max: usize::MAX, ..Limits::default() };
        let request = head::request(out.get(start..).unwrap_or_default(), &limits).ok().flatten();
        let signed = request.and_then(|request| self.sign(&request, body, credentials).ok());
        if let (Some(signed), Some(at)) = (signed, signature)
            && let Some(place) = out.get_mut(at..at + signed.len())
        {
            place.copy_from_slice(&signed);
        }
        out.extend_from_slice(body);
    }
}
