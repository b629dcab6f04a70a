//! The keys that a packet to a server may write. The data plane has the same rules in C
//! (`crates/switch/bpf/writes.h`), and tests compare it with this module.

/// Commands that may change keys, and the positions of these keys.
pub const COMMANDS: [(&str, Shape); 17] = [
    ("set ", Shape::Key),
    ("add ", Shape::Key),
    ("cas ", Shape::Key),
    ("incr ", Shape::Key),
    ("decr ", Shape::Key),
    ("touch ", Shape::Key),
    ("append ", Shape::Key),
    ("delete ", Shape::Key),
    ("replace ", Shape::Key),
    ("prepend ", Shape::Key),
    ("gat ", Shape::Keys),
    ("gats ", Shape::Keys),
    ("ms ", Shape::Meta),
    ("md ", Shape::Meta),
    ("ma ", Shape::Meta),
    ("mg ", Shape::Meta),
    ("flush_al", Shape::Everything),
];

/// The positions of a command's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// After the command.
    Key,
    /// After the command and a number, to the end of the line.
    Keys,
    /// After the command; a flag `b` says that the key is in base64.
    Meta,
    /// No key: the command changes all.
    Everything,
}

/// The keys that a packet may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// These keys, in this order.
    Keys(Vec<Vec<u8>>),
    /// These, and possibly any other: a command is incomplete, encoded, or there are too many.
    Everything(Vec<Vec<u8>>),
}

/// Maximum number of lines that are read in one packet.
pub const LINES_MAX: usize = 32;
/// Maximum number of keys of one line.
const KEYS_MAX: usize = 16;
const BLANKS_MAX: usize = 3;
/// Maximum number of spaces before a command; memcached skips any number.
const BLANKS_BEFORE_MAX: usize = 128;
const FLAG_BYTES_MAX: usize = 128;

/// Reads the payload of one packet. Every line in it counts as a command, because data blocks
/// cannot be recognized.
pub fn written(payload: &[u8]) -> Written {
    let mut keys = Vec::new();
    let mut rest = payload;
    let mut lines = Vec::new();
    while !rest.is_empty() {
        lines.push(rest);
        let next = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
        rest = rest.get(next..).unwrap_or_default();
    }
    if lines.len() > LINES_MAX {
        return Written::Everything(keys);
    }
    for line in lines {
        if write_line(line, &mut keys).is_none() {
            return Written::Everything(keys);
        }
    }
    Written::Keys(keys)
}

/// `None` if the keys cannot be determined.
fn write_line(line: &[u8], keys: &mut Vec<Vec<u8>>) -> Option<()> {
    let blanks = line.iter().take_while(|byte| **byte == b' ').count();
    let line = line.get(blanks..).filter(|_| blanks < BLANKS_BEFORE_MAX)?;
    if line.is_empty() {
        return Some(());
    }
    let found = COMMANDS.iter().find(|(word, _)| {
        let compared = word.len().min(line.len());
        word.as_bytes().get(..compared) == line.get(..compared)
    });
    let Some((word, shape)) = found else { return Some(()) };
    let rest = line.get(word.len()..)?;
    if *shape == Shape::Everything {
        return None;
    }
    let (key, mut rest) = take_key(skip_blanks(rest)?)?;
    match shape {
        Shape::Keys => {
            for _ in 0..KEYS_MAX {
                rest = skip_blanks(rest)?;
                if matches!(rest.first()?, b'\r' | b'\n') {
                    return Some(());
                }
                let (key, behind) = take_key(rest)?;
                keys.push(key.to_vec());
                rest = behind;
            }
            None
        }
        Shape::Meta => {
            keys.push(key.to_vec());
            let end = rest.iter().take(FLAG_BYTES_MAX).position(|b| matches!(b, b'\r' | b'\n'))?;
            let flags = rest.get(..end)?;
            let mut tokens = flags.split(|byte| *byte == b' ');
            (!tokens.any(|flag| flag.first() == Some(&b'b'))).then_some(())
        }
        _ => {
            keys.push(key.to_vec());
            Some(())
        }
    }
}

fn skip_blanks(line: &[u8]) -> Option<&[u8]> {
    let blanks = line.iter().take_while(|byte| **byte == b' ').count();
    if blanks > BLANKS_MAX { None } else { line.get(blanks..) }
}

fn take_key(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let bytes = line.iter().position(|byte| *byte <= b' ')?;
    if bytes == 0 || bytes > super::KEY_BYTES_MAX {
        return None;
    }
    line.split_at_checked(bytes)
}
