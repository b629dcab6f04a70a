//! Requests too long to be buffered: their beginning is interpreted, and the rest is forwarded as
//! it arrives.

use super::{
    BULK_BYTES, Decoder, REQUEST_BYTES, Request, invalid_bulk, not_a_bulk, too_large,
    unterminated_bulk,
};
use crate::Result;
use crate::resp::{
    Limits,
    length::{self, Length},
};

/// The received part of a request.
#[derive(Debug, Clone)]
pub struct Beginning<'a> {
    /// Its complete arguments, possibly none.
    pub request: Request<'a>,
    /// The number of arguments of the complete request.
    pub arguments: usize,
}

/// The rest of a request: finds its end without keeping its bytes.
#[derive(Debug, Clone)]
pub struct Passing {
    arguments_left: usize,
    /// Remaining bytes of the current bulk string.
    body_left: usize,
    /// CR LF is expected after that body.
    in_body: bool,
    /// Bytes of the request read so far.
    bytes: usize,
}

/// The progress made by one [`Passing::advance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Bytes that belong to the request.
    pub bytes: usize,
    /// Whether the request ends with them.
    pub ends: bool,
}

impl Decoder {
    /// Returns the received part of an incomplete request, and the scanner that finds its end.
    /// `None` where the number of arguments has not been received, or for an inline command: those
    /// are short.
    ///
    /// Call it after [`Decoder::decode`] returned `None` for the same `bytes`; the decoder then
    /// begins with the bytes after the request.
    pub fn begin_passing<'a>(
        &mut self,
        bytes: &'a [u8],
    ) -> Option<(Beginning<'a>, usize, Passing)> {
        if self.arguments_left == 0 {
            return None;
        }
        let whole = self.arguments - self.arguments_left;
        let request = Request {
            bytes: bytes.get(self.start..self.position).unwrap_or_default(),
            bulks: bytes.get(self.bulks..self.position).unwrap_or_default().into(),
            len: whole,
            places: std::mem::take(&mut self.places),
        };
        let passing = Passing {
            arguments_left: self.arguments_left,
            body_left: 0,
            in_body: false,
            bytes: self.position - self.start,
        };
        let arguments = self.arguments;
        let (request, taken) = self.finish(request);
        Some((Beginning { request, arguments }, taken, passing))
    }
}

impl Passing {
    /// Continues with the next `bytes`. Bytes that are not taken must be passed again with more.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn advance(&mut self, bytes: &[u8], limits: &Limits) -> Result<Passed> {
        let mut taken = 0;
        while self.arguments_left > 0 {
            let rest = bytes.get(taken..).unwrap_or_default();
            let step = if !self.in_body {
                self.header(rest, limits)?
            } else if self.body_left > 0 {
                let step = self.body_left.min(rest.len());
                self.body_left -= step;
                step
            } else {
                self.end(rest)?
            };
            if step == 0 {
                break;
            }
            taken += step;
            self.bytes += step;
        }
        Ok(Passed { bytes: taken, ends: self.arguments_left == 0 })
    }

    fn header(&mut self, bytes: &[u8], limits: &Limits) -> Result<usize> {
        let Some((&first, header)) = bytes.split_first() else { return Ok(0) };
        if first != b'$' {
            return Err(not_a_bulk(self.bytes, first));
        }
        let (length, taken) = match length::read(header) {
            (Length::Value(length), header_bytes) => (length, 1 + header_bytes),
            (Length::Partial, _) => return Ok(0),
            _ => return Err(invalid_bulk(self.bytes)),
        };
        let Ok(length) = usize::try_from(length) else { return Err(invalid_bulk(self.bytes)) };
        if length > limits.bulk_bytes_max {
            return Err(too_large(self.bytes, BULK_BYTES, limits.bulk_bytes_max, length as u64));
        }
        let end = self.bytes.saturating_add(taken + 2).saturating_add(length);
        if end > limits.request_bytes_max {
            let limit = limits.request_bytes_max;
            return Err(too_large(self.bytes, REQUEST_BYTES, limit, end as u64));
        }
        (self.body_left, self.in_body) = (length, true);
        Ok(taken)
    }

    fn end(&mut self, bytes: &[u8]) -> Result<usize> {
        match bytes.get(..2) {
            Some(b"\r\n") => {
                self.in_body = false;
                self.arguments_left -= 1;
                Ok(2)
            }
            Some(_) => Err(unterminated_bulk(self.bytes)),
            None => Ok(0),
        }
    }
}
