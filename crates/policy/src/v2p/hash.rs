//! The index function of a cache: CRC-32 (zlib's) of the key and a seed, both little-endian.

const POLYNOMIAL: u32 = 0xEDB8_8320;

static TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes
        .iter()
        .fold(!0, |crc, byte| (crc >> 8) ^ TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize])
}

fn crc32_pair(key: u32, seed: u32) -> u32 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&key.to_le_bytes());
    bytes[4..].copy_from_slice(&seed.to_le_bytes());
    crc32(&bytes)
}

/// The hash of a virtual address with seed 0: compute it once per address, carry it with the
/// packet.
#[must_use]
pub fn vip_hash(vip: u32) -> u32 {
    crc32_pair(vip, 0)
}

/// The hash of a flow's number, four bytes little-endian, by which servers choose a gateway.
#[must_use]
pub fn id_hash(id: u32) -> u32 {
    crc32(&id.to_le_bytes())
}

/// Returns the value that, by exclusive or, turns any [`vip_hash`] into the hash with another seed:
/// CRC is linear.
#[must_use]
pub fn reseed(seed: u32) -> u32 {
    crc32_pair(0, seed) ^ crc32_pair(0, 0)
}

#[cfg(test)]
pub(super) fn seeded(vip: u32, seed: u32) -> u32 {
    crc32_pair(vip, seed)
}
