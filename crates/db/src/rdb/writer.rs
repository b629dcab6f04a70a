//! Writes snapshots.

use std::time::Duration;

use super::checksum::checksum_append;
use super::{MAGIC, STRING, VERSION_WRITTEN, opcode};

/// Bytes of a snapshot that is written from front to back.
#[derive(Debug)]
pub struct Writer {
    /// Not taken yet.
    bytes: Vec<u8>,
    /// Of the bytes that were taken.
    checksum: u64,
    /// Database of the last entry.
    database: Option<u8>,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// Begins a snapshot.
    #[must_use]
    pub fn new() -> Self {
        let bytes = [MAGIC.as_slice(), format!("{VERSION_WRITTEN:04}").as_bytes()].concat();
        Self { bytes, checksum: 0, database: None }
    }

    /// Appends an entry. The file has a few bytes less if those of one database follow each other.
    pub fn entry(&mut self, database: u8, key: &[u8], value: &[u8], expires_at: Option<Duration>) {
        if self.database != Some(database) {
            self.database = Some(database);
            self.bytes.push(opcode::DATABASE);
            self.length(usize::from(database));
        }
        if let Some(at) = expires_at {
            let at_ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
            self.bytes.push(opcode::EXPIRES_MS);
            // Redis reads a signed number.
            self.bytes.extend_from_slice(&at_ms.min(i64::MAX as u64).to_le_bytes());
        }
        self.bytes.push(STRING);
        for text in [key, value] {
            self.length(text.len());
            self.bytes.extend_from_slice(text);
        }
    }

    fn length(&mut self, length: usize) {
        match length {
            0..0x40 => self.bytes.push(length as u8),
            0x40..0x4000 => self.bytes.extend_from_slice(&(length as u16 | 1 << 14).to_be_bytes()),
            _ => {
                self.bytes.push(0x81);
                self.bytes.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
    }

    /// Number of bytes that [`Writer::take`] would return.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        self.checksum = checksum_append(self.checksum, &self.bytes);
        std::mem::take(&mut self.bytes)
    }

    /// Ends the snapshot; returns the last bytes.
    #[must_use]
    pub fn end(mut self) -> Vec<u8> {
        self.bytes.push(opcode::END);
        let mut last = self.take();
        last.extend_from_slice(&self.checksum.to_le_bytes());
        last
    }
}
