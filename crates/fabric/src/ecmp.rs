//! Equal-cost paths: the link that a packet takes at ToR and spine, called its turn.

use crate::topology::Topology;

/// Physical addresses of the reference: pod, rack, host, 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Address(pub u32);

impl Address {
    pub(crate) fn host(pod: u32, rack_of_pod: u32, host_of_rack: u32) -> Self {
        Self((pod + 1) << 24 | rack_of_pod << 16 | host_of_rack << 8 | 1)
    }

    fn print(self, text: &mut Vec<u8>) {
        for (place, byte) in self.0.to_be_bytes().into_iter().enumerate() {
            if place > 0 {
                text.push(b'.');
            }
            let digits = [byte / 100, byte / 10 % 10, byte % 10];
            let first = digits.iter().position(|digit| *digit != 0).unwrap_or(2);
            text.extend(digits[first..].iter().map(|digit| b'0' + digit));
        }
    }
}

/// The hash of the reference for tunnelled packets: MurmurHash3 of the addresses as text, protocol
/// and ports.
pub(crate) fn tunnel_hash(source: Address, destination: Address) -> u64 {
    text_hash(source, destination, b"\x11667667")
}

/// The hash of a learning or invalidation packet. Each switch on its path sends it as a new packet
/// of its own.
pub(crate) fn control_hash(source: Address, destination: Address) -> u64 {
    text_hash(source, destination, b"\x11333333")
}

fn text_hash(source: Address, destination: Address, rest: &[u8]) -> u64 {
    let mut text = Vec::with_capacity(40);
    source.print(&mut text);
    destination.print(&mut text);
    text.extend_from_slice(rest);
    murmur3(&text)
}

/// The two turns of a packet in one word: at the ToR below, at the spine above.
pub(crate) fn turns(topology: &Topology, hash: u64) -> u32 {
    let uplinks = u64::from((topology.cores / topology.spines_per_pod).max(1));
    let spine = (hash % u64::from(topology.spines_per_pod)) as u32;
    spine | ((hash % uplinks) as u32) << 16
}

/// The turn at a switch that adds its own seed to the hash.
pub(crate) fn seeded_turn(turn: u32, seed: u32, ways: u32) -> u32 {
    let mut mixed = turn ^ seed;
    mixed = (mixed ^ (mixed >> 16)).wrapping_mul(0x7feb_352d);
    mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x846c_a68b);
    mixed ^= mixed >> 16;
    ((u64::from(mixed) * u64::from(ways)) >> 32) as u32
}

const C: [u32; 4] = [0x239b_961b, 0xab0e_9789, 0x38b3_4ae5, 0xa1e3_8b93];

/// MurmurHash3 x86-128 with the reference's start; the first two words, low word first.
fn murmur3(text: &[u8]) -> u64 {
    let mut h = [0x8BAD_F00D_u32; 4];
    let mut blocks = text.chunks_exact(16);
    for block in &mut blocks {
        let add = [0x561c_cd1b, 0x0bca_a747, 0x96cd_1c35, 0x32ac_3b17];
        for lane in 0..4 {
            let bytes = block[lane * 4..lane * 4 + 4].try_into().unwrap_or_default();
            h[lane] ^= scramble(u32::from_le_bytes(bytes), lane);
            h[lane] = h[lane].rotate_left([19, 17, 15, 13][lane]).wrapping_add(h[(lane + 1) % 4]);
            h[lane] = h[lane].wrapping_mul(5).wrapping_add(add[lane]);
        }
    }
    let tail = blocks.remainder();
    for (lane, word) in tail.chunks(4).enumerate() {
        let mut bytes = [0; 4];
        bytes[..word.len()].copy_from_slice(word);
        h[lane] ^= scramble(u32::from_le_bytes(bytes), lane);
    }
    h.iter_mut().for_each(|word| *word ^= text.len() as u32);
    gather(&mut h);
    h.iter_mut().for_each(|word| *word = finish(*word));
    gather(&mut h);
    u64::from(h[0]) | u64::from(h[1]) << 32
}

fn scramble(word: u32, lane: usize) -> u32 {
    word.wrapping_mul(C[lane]).rotate_left([15, 16, 17, 18][lane]).wrapping_mul(C[(lane + 1) % 4])
}

fn gather(h: &mut [u32; 4]) {
    h[0] = h[0].wrapping_add(h[1]).wrapping_add(h[2]).wrapping_add(h[3]);
    for lane in 1..4 {
        h[lane] = h[lane].wrapping_add(h[0]);
    }
}

fn finish(mut word: u32) -> u32 {
    word = (word ^ (word >> 16)).wrapping_mul(0x85eb_ca6b);
    word = (word ^ (word >> 13)).wrapping_mul(0xc2b2_ae35);
    word ^ (word >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_the_references() {
        let address = |a: u32, b: u32, c: u32| Address(a << 24 | b << 16 | c << 8 | 1);
        let vectors = [
            ((1, 0, 0), (2, 0, 0), 0xede4_d084_d198_7f0f),
            ((1, 0, 0), (1, 0, 4), 0x76ce_47b8_d88d_b701),
            ((8, 3, 3), (3, 2, 13), 0x369b_fb7a_747d_90ce),
            ((4, 1, 2), (6, 0, 5), 0xe2e5_a005_b726_25a8),
            ((2, 0, 0), (1, 0, 0), 0xc6d0_0b2b_bde2_25f3),
        ];
        for (from, to, hash) in vectors {
            let got = tunnel_hash(address(from.0, from.1, from.2), address(to.0, to.1, to.2));
            assert_eq!(got, hash, "{got:x}");
        }
    }
}
