//! CRC-64 as Redis computes it: polynomial of Jones, bits reflected, from zero on.

const POLYNOMIAL_REFLECTED: u64 = 0x95ac_9329_ac4b_c9b5;

const STEPS: [u64; 256] = {
    let mut steps = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u64, 0);
        while bit < 8 {
            sum = sum >> 1 ^ if sum & 1 == 1 { POLYNOMIAL_REFLECTED } else { 0 };
            bit += 1;
        }
        steps[byte] = sum;
        byte += 1;
    }
    steps
};

/// Checksum of the bytes that `sum` is of, followed by `bytes`; that of no bytes is 0.
pub(super) fn checksum_append(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| STEPS[usize::from(sum as u8 ^ byte)] ^ sum >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_that_of_redis() {
        assert_eq!(checksum_append(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(checksum_append(checksum_append(0, b"1234"), b"56789"), 0xe9c6_d914_c4b8_d9ca);
    }
}
