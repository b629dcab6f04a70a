//! The list of a backup's files.

use std::io::ErrorKind;

use super::Failure;
use crate::blocks::Blocks;
use crate::device::{Device, FileName};
use crate::elastic::listing::SHARDS_MAX;
use crate::elastic::segment::BLOCK_BYTES;
use crate::elastic::shard_name;

const TITLE: &str = "enroute-backup ";
const VERSION: &str = "1";
/// Longest list: that of 256 shards with a thousand segments each.
const LIST_BYTES_MAX: u64 = 16 << 20;

/// One file of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// Its name in the directory of its shard.
    pub name: FileName,
    /// Its length.
    pub bytes: u64,
    /// CRC-32C of all its bytes.
    pub checksum: u32,
}

/// One shard of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Identity of the store.
    pub identity: u32,
    /// Its files.
    pub files: Vec<File>,
}

/// All files of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// The point of the backup, in milliseconds since the Unix epoch.
    pub point_ms: u64,
    /// Its shards, in order.
    pub shards: Vec<Stored>,
}

impl Contents {
    fn text(&self) -> String {
        let mut text = format!("{TITLE}{VERSION}\npoint {}\n", self.point_ms);
        for (index, Stored { identity, files }) in self.shards.iter().enumerate() {
            text += &format!("{} {identity:08x}\n", shard_name(index));
            for File { name, bytes, checksum } in files {
                text += &format!("{name} {bytes} {checksum:08x}\n");
            }
        }
        let checksum = crc32c::crc32c(text.as_bytes());
        text + &format!("checksum {checksum:08x}\n")
    }

    fn parse(text: &str) -> Result<Self, String> {
        let version = text.lines().next().unwrap_or_default().strip_prefix(TITLE);
        let version = version.ok_or("it does not begin with `enroute-backup`")?;
        let (listed, rest) = text.split_once("checksum ").ok_or("it has no checksum")?;
        let (found, computed) = (rest.trim_end(), crc32c::crc32c(listed.as_bytes()));
        if found != format!("{computed:08x}") {
            return Err(format!("checksum {found}, expected {computed:08x}"));
        }
        if version != VERSION {
            return Err(format!(
                "version {version:?}, expected {VERSION}; use the version of enroute that wrote it"
            ));
        }
        let mut lines = listed.lines().skip(1);
        let point = lines.next().and_then(|line| line.strip_prefix("point ")?.parse().ok());
        let mut contents = Self { point_ms: point.ok_or("it states no point")?, shards: vec![] };
        for line in lines {
            let wrong = || format!("found the line {line:?}, expected a shard or a file");
            let (name, rest) = line.split_once(' ').ok_or_else(wrong)?;
            if name == shard_name(contents.shards.len()) {
                let identity = u32::from_str_radix(rest, 16).map_err(|_| wrong())?;
                contents.shards.push(Stored { identity, files: Vec::new() });
                continue;
            }
            let (bytes, checksum) = rest.split_once(' ').ok_or_else(wrong)?;
            let file = File {
                name: FileName::parse(name).ok_or_else(wrong)?,
                bytes: bytes.parse().map_err(|_| wrong())?,
                checksum: u32::from_str_radix(checksum, 16).map_err(|_| wrong())?,
            };
            contents.shards.last_mut().ok_or_else(wrong)?.files.push(file);
        }
        if !(1..=SHARDS_MAX).contains(&contents.shards.len()) {
            return Err(format!("{} shards, expected 1 to {SHARDS_MAX}", contents.shards.len()));
        }
        Ok(contents)
    }

    /// Writes the list. The backup is complete when this has returned.
    ///
    /// # Errors
    /// The list cannot be written.
    pub fn store(&self, device: &(impl Device + ?Sized)) -> Result<(), Failure> {
        let (file, text) = (FileName::Backup, self.text());
        let mut bytes = Blocks::default();
        bytes.extend_from_slice(text.as_bytes());
        let padding = text.len().next_multiple_of(BLOCK_BYTES) - text.len();
        bytes.extend(padding).fill(b'\n');
        // Zeroes, or a part of the list, are not a list: its checksum is its last word.
        let stored = device
            .create(file, bytes.len() as u64)
            .and_then(|()| device.write(file, 0, &bytes))
            .and_then(|()| device.sync(file));
        stored.map_err(|reason| Failure::Unwritable { file, reason })
    }

    /// Reads the list of a complete backup.
    ///
    /// # Errors
    /// [`Failure::Incomplete`] if there is none.
    pub fn load(device: &(impl Device + ?Sized)) -> Result<Self, Failure> {
        let file = FileName::Backup;
        let unreadable = |reason| Failure::Unreadable { file, offset: 0, reason };
        let files = device.list().map_err(unreadable)?;
        let bytes = files.iter().find(|(name, _)| *name == file).map(|(_, bytes)| *bytes);
        let bytes = bytes.ok_or_else(|| Failure::Incomplete(format!("no file `{file}`")))?;
        if bytes > LIST_BYTES_MAX {
            let found = format!("{file}: {bytes} bytes, expected at most {LIST_BYTES_MAX}");
            return Err(Failure::Incomplete(found));
        }
        let text = match device.read(file, 0, bytes as usize) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Vec::new(),
            read => read.map_err(unreadable)?,
        };
        let text = String::from_utf8(text).map_err(|error| error.to_string());
        text.and_then(|text| Self::parse(&text))
            .map_err(|wrong| Failure::Incomplete(format!("{file}: {wrong}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_back_and_a_changed_byte_is_found() {
        let file = |name, bytes, checksum| File { name, bytes, checksum };
        let segment = file(FileName::Segment(7), 65_536, 0xdead_beef);
        let first = vec![file(FileName::Superblock, 4096, 7), segment];
        let shards = vec![
            Stored { identity: 0xbeef, files: first },
            Stored { identity: 0, files: Vec::new() },
        ];
        let contents = Contents { point_ms: 1_790_000_000_123, shards };
        let text = contents.text();
        assert_eq!(Contents::parse(&format!("{text}\n\n\n")), Ok(contents));
        for at in 0..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).expect("ASCII");
            assert!(Contents::parse(&changed).is_err(), "{changed:?}");
        }
        for end in 0..text.len() - 1 {
            assert!(Contents::parse(&text[..end]).is_err(), "the first {end} bytes");
        }
    }
}
