//! Decompresses the first bytes of snappy's raw format. The library decompresses all or nothing.

/// The first bytes, at most about `bytes_max`; fewer where `payload` ends or breaks the format.
pub(super) fn beginning(payload: &[u8], bytes_max: usize) -> Vec<u8> {
    let mut out = Vec::new();
    // The length of the whole, seven bits a byte.
    let size = payload.iter().position(|byte| byte & 0x80 == 0).map_or(payload.len(), |at| at + 1);
    let mut rest = payload.get(size..).unwrap_or_default();
    while out.len() < bytes_max {
        let Some(left) = element(rest, &mut out) else { break };
        rest = left;
    }
    out
}

/// Appends the output of one element; returns the bytes after it.
fn element<'a>(bytes: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (&tag, rest) = bytes.split_first()?;
    let number =
        |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    let high = usize::from(tag >> 2);
    let (offset, length, rest) = match tag & 3 {
        // A literal, whose length may be in up to four bytes after the tag.
        0 => {
            let (more, rest) = rest.split_at_checked(high.saturating_sub(59))?;
            let length = if high < 60 { high } else { number(more) }.checked_add(1)?;
            let (literal, rest) = rest.split_at(length.min(rest.len()));
            out.extend_from_slice(literal);
            return (literal.len() == length).then_some(rest);
        }
        1 => {
            let (&low, rest) = rest.split_first()?;
            (usize::from(tag >> 5) << 8 | usize::from(low), 4 + (high & 7), rest)
        }
        wide => {
            let (offset, rest) = rest.split_at_checked(if wide == 2 { 2 } else { 4 })?;
            (number(offset), 1 + high, rest)
        }
    };
    let start = out.len().checked_sub(offset).filter(|_| offset > 0)?;
    for at in start..start + length {
        // The copy may overlap its own output.
        out.push(*out.get(at)?);
    }
    Some(rest)
}
