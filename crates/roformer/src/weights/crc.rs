//! CRC-32C, by which TensorFlow checks its files.

/// Castagnoli's polynomial, the highest power last.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Bytes taken at a time.
const AT_ONCE: usize = 16;

/// `TABLES[k][byte]` is what a byte adds to the remainder when `k` more bytes follow it. Lookups that do not wait for each
/// other make it several times faster than one table.
static TABLES: [[u32; 256]; AT_ONCE] = tables();

const fn tables() -> [[u32; 256]; AT_ONCE] {
    let mut tables = [[0; 256]; AT_ONCE];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            remainder = (remainder >> 1) ^ if remainder & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = remainder;
        byte += 1;
    }
    let mut table = 1;
    while table < AT_ONCE {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of some bytes.
fn crc32c(bytes: &[u8]) -> u32 {
    let (groups, rest) = bytes.as_chunks::<AT_ONCE>();
    let mut remainder = !0;
    for group in groups {
        let mixed = u128::from_le_bytes(*group) ^ u128::from(remainder);
        remainder = 0;
        for (place, byte) in mixed.to_le_bytes().into_iter().enumerate() {
            remainder ^= TABLES[AT_ONCE - 1 - place][usize::from(byte)];
        }
    }
    for byte in rest {
        remainder = (remainder >> 8) ^ TABLES[0][usize::from((remainder as u8) ^ byte)];
    }
    !remainder
}

/// The checksum as files store it: changed, so that the checksum of bytes that hold checksums is not a special case.
pub(super) fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, as the definition has it.
    fn slow(bytes: &[u8]) -> u32 {
        let step = |remainder: u32| (remainder >> 1) ^ if remainder & 1 == 1 { POLYNOMIAL } else { 0 };
        !bytes.iter().fold(!0, |remainder, &byte| (0..8).fold(remainder ^ u32::from(byte), |r, _| step(r)))
    }

    /// The values of RFC 3720, appendix B.4.
    #[test]
    fn published_values() {
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&ascending), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn every_length_is_that_of_the_definition() {
        let bytes: Vec<u8> = (0..100_u32).map(|i| (i * i * 7 + 13) as u8).collect();
        for len in 0..bytes.len() {
            assert_eq!(crc32c(&bytes[..len]), slow(&bytes[..len]), "{len}");
        }
    }
}
