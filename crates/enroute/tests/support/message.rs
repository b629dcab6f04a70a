//! MongoDB's messages, as far as a scripted origin and a raw client need them.
//!
//! It does not use `wire::mongo`: a test must not share the defects of the code under test.

use std::io::{self, Cursor, Read, Write};
use std::net::{SocketAddr, TcpStream};

use bson::{Bson, Document};
use flate2::Compression;
use flate2::read::{ZlibDecoder, ZlibEncoder};

use super::process::PATIENCE;

const OP_REPLY: i32 = 1;
const OP_QUERY: i32 = 2004;
const OP_COMPRESSED: i32 = 2012;
const OP_MSG: i32 = 2013;

const CHECKSUM_PRESENT: u32 = 1 << 0;
const MORE_TO_COME: u32 = 1 << 1;

const HEADER_BYTES: usize = 16;
const MESSAGE_BYTES_MAX: usize = 48_000_000;

/// Compression algorithm of an OP_COMPRESSED message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    Noop,
    Snappy,
    Zlib,
    Zstd,
}

impl Compressor {
    const ALL: [Self; 4] = [Self::Noop, Self::Snappy, Self::Zlib, Self::Zstd];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|compressor| format!("{compressor:?}").to_lowercase() == name)
    }

    fn compress(self, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut packed = Vec::new();
        match self {
            Self::Noop => packed.extend_from_slice(body),
            Self::Snappy => packed = snap::raw::Encoder::new().compress_vec(body)?,
            Self::Zlib => {
                ZlibEncoder::new(body, Compression::fast()).read_to_end(&mut packed)?;
            }
            Self::Zstd => {
                let level = ruzstd::encoding::CompressionLevel::Fastest;
                packed = ruzstd::encoding::compress_to_vec(body, level);
            }
        }
        Ok(packed)
    }

    fn decompress(self, packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        match self {
            Self::Noop => body.extend_from_slice(packed),
            Self::Snappy => body = snap::raw::Decoder::new().decompress_vec(packed)?,
            Self::Zlib => {
                ZlibDecoder::new(packed).read_to_end(&mut body)?;
            }
            Self::Zstd => {
                ruzstd::decoding::StreamingDecoder::new(packed)
                    .map_err(|error| invalid(error.to_string()))?
                    .read_to_end(&mut body)?;
            }
        }
        Ok(body)
    }
}

/// One message either way.
#[derive(Clone, Debug)]
pub struct Message {
    pub request_id: i32,
    pub response_to: i32,
    /// In a request: no reply is wanted. In a reply: another reply follows.
    pub more_to_come: bool,
    /// The compression algorithm of the message, or of the received message that it was.
    pub compressor: Option<Compressor>,
    /// An OP_QUERY or its OP_REPLY, which drivers use for their first message.
    pub legacy: bool,
    /// The array of the body that is sent separately, in a section of kind 1.
    pub sequence: Option<String>,
    /// The command or its reply, including the separate section.
    pub body: Document,
}

impl Message {
    /// A plain OP_MSG.
    pub fn new(request_id: i32, body: Document) -> Self {
        Self {
            request_id,
            response_to: 0,
            more_to_come: false,
            compressor: None,
            legacy: false,
            sequence: None,
            body,
        }
    }

    /// The command's name.
    pub fn command(&self) -> &str {
        self.body.keys().next().map_or("", String::as_str)
    }

    /// Reads the next message; `None` if the peer closed the connection between two messages.
    ///
    /// # Errors
    ///
    /// Errors of the connection, and `InvalidData` for invalid messages.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER_BYTES];
        if from.read(&mut header[..1])? == 0 {
            return Ok(None);
        }
        from.read_exact(&mut header[1..])?;
        let field = |at: usize| i32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
        let length = usize::try_from(field(0)).unwrap_or(0);
        if !(HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&length) {
            return Err(invalid(format!("a message of {length} bytes")));
        }
        let mut body = vec![0; length - HEADER_BYTES];
        from.read_exact(&mut body)?;
        Self::parse(field(4), field(8), field(12), &body).map(Some)
    }

    fn parse(request_id: i32, response_to: i32, opcode: i32, body: &[u8]) -> io::Result<Self> {
        let mut rest = Cursor::new(body);
        let mut message = Self { response_to, ..Self::new(request_id, Document::new()) };
        match opcode {
            OP_MSG => {
                let flags = u32::from_le_bytes(take(&mut rest)?);
                message.more_to_come = flags & MORE_TO_COME != 0;
                let checksum_bytes = if flags & CHECKSUM_PRESENT != 0 { 4 } else { 0 };
                let end = body.len().saturating_sub(checksum_bytes);
                (message.body, message.sequence) =
                    read_sections(&mut Cursor::new(&body[4..end.max(4)]))?;
            }
            OP_QUERY => {
                let _flags: [u8; 4] = take(&mut rest)?;
                let database = read_c_string(&mut rest)?.replace(".$cmd", "");
                let _skip_and_limit: [u8; 8] = take(&mut rest)?;
                message.body = read_document(&mut rest)?;
                message.body.insert("$db", database);
                message.legacy = true;
            }
            OP_REPLY => {
                let _flags_cursor_and_counts: [u8; 20] = take(&mut rest)?;
                message.body = read_document(&mut rest)?;
                message.legacy = true;
            }
            OP_COMPRESSED => {
                let inner = i32::from_le_bytes(take(&mut rest)?);
                let _size: [u8; 4] = take(&mut rest)?;
                let [number] = take(&mut rest)?;
                let compressor = Compressor::ALL
                    .get(usize::from(number))
                    .ok_or_else(|| invalid(format!("compressor {number}")))?;
                message = Self::parse(
                    request_id,
                    response_to,
                    inner,
                    &compressor.decompress(&body[9..])?,
                )?;
                message.compressor = Some(*compressor);
            }
            _ => return Err(invalid(format!("opcode {opcode}"))),
        }
        Ok(message)
    }

    /// Writes the message.
    ///
    /// # Errors
    ///
    /// Errors of the connection.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let (mut opcode, mut body) = if self.legacy { self.legacy_body() } else { self.msg_body() };
        if let Some(compressor) = self.compressor {
            let mut outer = Vec::new();
            outer.extend_from_slice(&opcode.to_le_bytes());
            outer.extend_from_slice(&length_of(&body).to_le_bytes());
            outer.push(compressor as u8);
            outer.extend_from_slice(&compressor.compress(&body)?);
            (opcode, body) = (OP_COMPRESSED, outer);
        }
        let length = length_of(&body) + 16;
        let mut message = Vec::new();
        for field in [length, self.request_id, self.response_to, opcode] {
            message.extend_from_slice(&field.to_le_bytes());
        }
        message.extend_from_slice(&body);
        to.write_all(&message)
    }

    fn msg_body(&self) -> (i32, Vec<u8>) {
        let flags = if self.more_to_come { MORE_TO_COME } else { 0 };
        let mut body = flags.to_le_bytes().to_vec();
        let mut together = self.body.clone();
        if let Some(name) = &self.sequence {
            let mut section = [name.as_bytes(), b"\0"].concat();
            let apart = together.remove(name);
            for document in apart.iter().flat_map(|array| array.as_array().expect("an array")) {
                section.extend(encode(document.as_document().expect("an array of documents")));
            }
            body.push(1);
            body.extend_from_slice(&(length_of(&section) + 4).to_le_bytes());
            body.extend_from_slice(&section);
        }
        body.push(0);
        body.extend_from_slice(&encode(&together));
        (OP_MSG, body)
    }

    fn legacy_body(&self) -> (i32, Vec<u8>) {
        let mut body = Vec::new();
        if self.response_to == 0 {
            body.extend_from_slice(&0_i32.to_le_bytes());
            body.extend_from_slice(b"admin.$cmd\0");
            body.extend_from_slice(&0_i32.to_le_bytes());
            body.extend_from_slice(&(-1_i32).to_le_bytes());
            body.extend_from_slice(&encode(&self.body));
            return (OP_QUERY, body);
        }
        let await_capable = 8_i32;
        body.extend_from_slice(&await_capable.to_le_bytes());
        body.extend_from_slice(&0_i64.to_le_bytes());
        body.extend_from_slice(&0_i32.to_le_bytes());
        body.extend_from_slice(&1_i32.to_le_bytes());
        body.extend_from_slice(&encode(&self.body));
        (OP_REPLY, body)
    }
}

/// A client that sends exactly the given bytes.
pub struct Client {
    connection: TcpStream,
    request_id: i32,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let connection = TcpStream::connect(address).expect("something listens");
        connection.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        connection.set_nodelay(true).expect("an option of TCP");
        Self { connection, request_id: 0 }
    }

    /// Sends a command as OP_MSG and returns its reply's body.
    pub fn command(&mut self, body: Document) -> Document {
        let request_id = self.send(Message::new(0, body));
        let reply = self.receive().expect("a reply before the end");
        assert_eq!(reply.response_to, request_id, "{}", reply.body);
        reply.body
    }

    /// Sends a message with the next request ID; returns the ID.
    pub fn send(&mut self, mut message: Message) -> i32 {
        self.request_id += 1;
        message.request_id = self.request_id;
        message.write(&mut self.connection).expect("the other side reads");
        self.request_id
    }

    /// The next message, or `None` at the end of the connection.
    pub fn receive(&mut self) -> Option<Message> {
        Message::read(&mut self.connection).expect("a message or the end")
    }
}

fn read_sections(from: &mut Cursor<&[u8]>) -> io::Result<(Document, Option<String>)> {
    let (mut body, mut sequence) = (Document::new(), None);
    let mut apart = Vec::new();
    while from.position() < from.get_ref().len() as u64 {
        let [kind] = take(from)?;
        match kind {
            0 => body = read_document(from)?,
            1 => {
                let end = from.position() + u64::from(u32::from_le_bytes(take(from)?));
                sequence = Some(read_c_string(from)?);
                while from.position() < end {
                    apart.push(Bson::Document(read_document(from)?));
                }
            }
            _ => return Err(invalid(format!("a section of kind {kind}"))),
        }
    }
    if let Some(name) = &sequence {
        body.insert(name, apart);
    }
    Ok((body, sequence))
}

fn read_document(from: &mut impl Read) -> io::Result<Document> {
    Document::from_reader(from).map_err(|error| invalid(error.to_string()))
}

fn read_c_string(from: &mut impl Read) -> io::Result<String> {
    let mut text = Vec::new();
    loop {
        let [byte] = take(from)?;
        if byte == 0 {
            return String::from_utf8(text).map_err(|error| invalid(error.to_string()));
        }
        text.push(byte);
    }
}

fn take<const BYTES: usize>(from: &mut impl Read) -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn encode(body: &Document) -> Vec<u8> {
    body.to_vec().expect("a document made of JSON or read from a message")
}

fn length_of(body: &[u8]) -> i32 {
    i32::try_from(body.len()).expect("a message of less than 2 GiB")
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
