//! CRC32C (Castagnoli) by slicing-by-8: eight table look-ups (8 KiB of tables) process eight bytes at once.

/// The polynomial 0x1EDC6F41 with its bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

static TABLES: [[u32; 256]; 8] = tables();

/// Returns the checksum of the concatenated pieces.
pub(crate) fn checksum<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    !pieces.into_iter().fold(!0, update)
}

/// Returns the bit whose flip changes the checksum of `len` bytes by `difference`, as the index of its byte and a mask.
/// CRC is linear: the change does not depend on the other bits, so one pass over the positions finds the bit.
pub(crate) fn find_flipped_bit(len: usize, difference: u32) -> Option<(usize, u8)> {
    let mut changes: [u32; 8] = std::array::from_fn(|bit| TABLES[0][1 << bit]);
    for byte in (0..len).rev() {
        if let Some(bit) = changes.iter().position(|change| *change == difference) {
            return Some((byte, 1 << bit));
        }
        changes = changes.map(|change| change >> 8 ^ TABLES[0][usize::from(change as u8)]);
    }
    None
}

fn update(mut crc: u32, mut bytes: &[u8]) -> u32 {
    while let Some((eight, rest)) = bytes.split_first_chunk() {
        let word = u64::from_le_bytes(*eight) ^ u64::from(crc);
        crc = (0..8).fold(0, |crc, place| crc ^ TABLES[7 - place][usize::from((word >> (8 * place)) as u8)]);
        bytes = rest;
    }
    bytes.iter().fold(crc, |crc, byte| crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)])
}

/// `tables[n][byte]` is the remainder of `byte` followed by `n` zero bytes.
const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut index = 0;
    while index < 8 * 256 {
        let (zeros, byte) = (index / 256, index % 256);
        // Each table continues the remainders of the previous table with one more zero byte.
        let mut crc = if zeros == 0 { byte as u32 } else { tables[zeros - 1][byte] };
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[zeros][byte] = crc;
        index += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Computes the checksum bit by bit, straight from the definition.
    fn bitwise(bytes: &[u8]) -> u32 {
        let shift = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
        !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), shift))
    }

    /// The check value of CRC catalogues (of `123456789`), and the test vectors of RFC 3720, appendix B.4.
    #[test]
    fn known_values_are_met() {
        let ascending: Vec<u8> = (0..32).collect();
        for (bytes, expected) in [
            (&b""[..], 0),
            (b"123456789", 0xe306_9283),
            (&[0; 32], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&ascending, 0x46dd_794e),
        ] {
            assert_eq!(checksum([bytes]), expected, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn it_is_that_of_the_definition_however_the_bytes_are_cut(pieces: Vec<Vec<u8>>) {
            prop_assert_eq!(checksum(pieces.iter().map(Vec::as_slice)), bitwise(&pieces.concat()));
        }
    }
}
