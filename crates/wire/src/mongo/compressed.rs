//! OP_COMPRESSED: another frame whose body is compressed.
//!
//! After the header come the original opcode, the body's length before compression and the
//! compressor's number. That length causes no allocation: the output grows with the decompressed
//! data and stops at the limit.

use std::io::{Read, Write};

use super::frame::{HEADER_BYTES, Header, Limits, opcode};
use super::reader::{PROTOCOL, Reader, malformed};
use crate::{Error, Result};

mod snappy;
#[cfg(test)]
mod tests;

/// Offset of the uncompressed size from the start of the frame.
const SIZE_OFFSET: usize = HEADER_BYTES + 4;
/// Offset of the compressed bytes.
const PAYLOAD_OFFSET: usize = HEADER_BYTES + 9;
/// Snappy's densest element is three bytes for sixty-four.
const SNAPPY_RATIO_MAX: usize = 22;

/// Compression algorithm of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compressor {
    /// Not at all.
    Noop,
    /// Snappy's raw format.
    Snappy,
    /// Zlib.
    Zlib,
    /// Zstandard.
    Zstd,
    /// A number that no specification defines; such a frame can only be forwarded.
    Unknown(u8),
}

impl Compressor {
    fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::Noop,
            1 => Self::Snappy,
            2 => Self::Zlib,
            3 => Self::Zstd,
            other => Self::Unknown(other),
        }
    }

    fn byte(self) -> u8 {
        match self {
            Self::Noop => 0,
            Self::Snappy => 1,
            Self::Zlib => 2,
            Self::Zstd => 3,
            Self::Unknown(other) => other,
        }
    }
}

/// A compressed frame's body.
#[derive(Debug, Clone, Copy)]
pub struct Compressed<'a> {
    header: Header,
    opcode: i32,
    size: usize,
    compressor: Compressor,
    payload: &'a [u8],
}

impl<'a> Compressed<'a> {
    pub(super) fn read(mut reader: Reader<'a>, header: Header) -> Result<Self> {
        let opcode = reader.i32("an original opcode")?;
        if opcode == opcode::COMPRESSED {
            return Err(malformed(HEADER_BYTES, "a frame compressed once", "one twice"));
        }
        let declared = reader.i32("an uncompressed size")?;
        let Ok(size) = usize::try_from(declared) else {
            return Err(malformed(SIZE_OFFSET, "an uncompressed size", format_args!("{declared}")));
        };
        let compressor = Compressor::from_byte(reader.u8("a compressor")?);
        Ok(Self { header, opcode, size, compressor, payload: reader.rest() })
    }

    /// Returns the compression algorithm: a reply may use the same.
    pub fn compressor(&self) -> Compressor {
        self.compressor
    }

    /// The original frame's opcode.
    pub fn opcode(&self) -> i32 {
        self.opcode
    }

    /// Appends the uncompressed frame, header included, to `out`. In addition to the output, a zstd
    /// frame may use a window of up to [`Limits::inflated_bytes_max`]. On error `out` is unchanged.
    ///
    /// # Errors
    /// When the declared size passes the limit, the payload does not decompress, or what comes out
    /// is not of the declared size.
    pub fn inflate(&self, limits: &Limits, out: &mut Vec<u8>) -> Result<()> {
        self.check_inflated_bytes(limits)?;
        let length = self.inflated_bytes();
        let start = out.len();
        let header = Header { length, opcode: self.opcode, ..self.header };
        out.extend_from_slice(&header.encode());
        let inflated = self.inflate_body(limits, out);
        if inflated.is_err() {
            out.truncate(start);
        }
        inflated
    }

    /// Bytes of the uncompressed frame, header included, as it declares.
    pub fn inflated_bytes(&self) -> usize {
        self.size.saturating_add(HEADER_BYTES)
    }

    /// The first bytes of the uncompressed frame, at most about `bytes_max`, header included; fewer
    /// where it does not decompress that far.
    pub fn inflate_beginning(&self, limits: &Limits, bytes_max: usize) -> Vec<u8> {
        let header = Header { length: self.inflated_bytes(), opcode: self.opcode, ..self.header };
        let mut out = header.encode().to_vec();
        let window = limits.inflated_bytes_max as u64;
        let mut source: Box<dyn Read + '_> = match self.compressor {
            Compressor::Noop => Box::new(self.payload),
            Compressor::Zlib => Box::new(flate2::bufread::ZlibDecoder::new(self.payload)),
            Compressor::Zstd => {
                type Decoder<'a> =
                    ruzstd::decoding::StreamingDecoder<&'a [u8], ruzstd::decoding::FrameDecoder>;
                match Decoder::new_with_max_window_size(self.payload, window) {
                    Ok(decoder) => Box::new(decoder),
                    Err(_) => return out,
                }
            }
            Compressor::Snappy => {
                out.extend(snappy::beginning(self.payload, bytes_max));
                return out;
            }
            Compressor::Unknown(_) => return out,
        };
        let left = bytes_max.saturating_sub(out.len()) as u64;
        // The bytes before an error are used, and nothing after it.
        let _ = source.by_ref().take(left).read_to_end(&mut out);
        out
    }

    /// Checks that the declared size is within the limit.
    ///
    /// # Errors
    /// It is not.
    pub fn check_inflated_bytes(&self, limits: &Limits) -> Result<()> {
        let length = self.inflated_bytes();
        if length <= limits.inflated_bytes_max {
            return Ok(());
        }
        Err(Error::TooLarge {
            protocol: PROTOCOL,
            offset: SIZE_OFFSET,
            what: "inflated frame bytes",
            limit: limits.inflated_bytes_max as u64,
            got: length as u64,
        })
    }

    fn inflate_body(&self, limits: &Limits, out: &mut Vec<u8>) -> Result<()> {
        match self.compressor {
            Compressor::Noop => self.copy(self.payload, out),
            Compressor::Snappy => self.inflate_snappy(out),
            Compressor::Zlib => self.copy(flate2::bufread::ZlibDecoder::new(self.payload), out),
            Compressor::Zstd => {
                let window_bytes_max = limits.inflated_bytes_max as u64;
                let decoder = ruzstd::decoding::StreamingDecoder::new_with_max_window_size(
                    self.payload,
                    window_bytes_max,
                );
                self.copy(decoder.map_err(broken)?, out)
            }
            Compressor::Unknown(number) => {
                Err(malformed(SIZE_OFFSET + 4, "compressor 0, 1, 2 or 3", number))
            }
        }
    }

    /// Appends what `source` yields, which must be exactly the declared size.
    fn copy(&self, source: impl Read, out: &mut Vec<u8>) -> Result<()> {
        // One byte more than declared tells a longer yield from an exact one.
        let yielded = source.take(self.size as u64 + 1).read_to_end(out).map_err(broken)?;
        self.check_size(yielded)
    }

    fn inflate_snappy(&self, out: &mut Vec<u8>) -> Result<()> {
        let size = snap::raw::decompress_len(self.payload).map_err(broken)?;
        self.check_size(size)?;
        // Snappy writes into a buffer of the final size, so its claim must be possible at all.
        if size > self.payload.len().saturating_mul(SNAPPY_RATIO_MAX) {
            return Err(broken(format_args!("{size} bytes claimed of {}", self.payload.len())));
        }
        let start = out.len();
        out.resize(start + size, 0);
        let place = out.get_mut(start..).unwrap_or_default();
        snap::raw::Decoder::new().decompress(self.payload, place).map_err(broken)?;
        Ok(())
    }

    fn check_size(&self, size: usize) -> Result<()> {
        if size == self.size {
            return Ok(());
        }
        let got = format_args!("{} declared, at least {size} found", self.size);
        Err(malformed(SIZE_OFFSET, "the payload's uncompressed size", got))
    }
}

/// As [`Compressed::inflate_beginning`], for a frame of which only the beginning was received;
/// `None` if it is not compressed.
pub fn beginning(bytes: &[u8], limits: &Limits, bytes_max: usize) -> Option<Vec<u8>> {
    let mut reader = Reader::new(bytes, 0);
    let mut field = || reader.i32("a header").ok();
    let length = usize::try_from(field()?).ok()?;
    let header = Header { length, request_id: field()?, response_to: field()?, opcode: field()? };
    if header.opcode != opcode::COMPRESSED {
        return None;
    }
    let compressed = Compressed::read(reader, header).ok()?;
    Some(compressed.inflate_beginning(limits, bytes_max))
}

/// Appends `frame`, a whole uncompressed frame, as OP_COMPRESSED.
///
/// # Errors
/// When `frame` is shorter than a header, or the compressor is unknown.
pub fn compress(frame: &[u8], compressor: Compressor, out: &mut Vec<u8>) -> Result<()> {
    let mut reader = Reader::new(frame, 0);
    reader.i32("a frame's length")?;
    let mut header = Header {
        length: 0,
        request_id: reader.i32("a request id")?,
        response_to: reader.i32("a response id")?,
        opcode: opcode::COMPRESSED,
    };
    let original = reader.i32("an opcode")?;
    let body = reader.rest();
    let payload = deflate(body, compressor)?;
    header.length = PAYLOAD_OFFSET + payload.len();
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(&original.to_le_bytes());
    out.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.push(compressor.byte());
    out.extend_from_slice(&payload);
    Ok(())
}

fn deflate(body: &[u8], compressor: Compressor) -> Result<Vec<u8>> {
    match compressor {
        Compressor::Noop => Ok(body.to_vec()),
        Compressor::Snappy => snap::raw::Encoder::new().compress_vec(body).map_err(broken),
        Compressor::Zlib => {
            let level = flate2::Compression::default();
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(body).map_err(broken)?;
            encoder.finish().map_err(broken)
        }
        Compressor::Zstd => {
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            Ok(ruzstd::encoding::compress_to_vec(body, level))
        }
        Compressor::Unknown(number) => {
            Err(malformed(SIZE_OFFSET + 4, "compressor 0, 1, 2 or 3", number))
        }
    }
}

#[cold]
fn broken(reason: impl std::fmt::Display) -> Error {
    malformed(PAYLOAD_OFFSET, "a body that decompresses", reason)
}
