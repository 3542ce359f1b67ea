//! Integers that share their first byte with other bits (RFC 7541, section 5.1).

use super::Malformed;

/// Enough for 32 bits. More could only be zeros, or too large.
const MOST_CONTINUATION_BYTES: usize = 5;

/// Takes an integer from the front of `block`, whose first byte holds `prefix` bits of it.
pub(super) fn take(block: &mut &[u8], prefix: u32) -> Result<usize, Malformed> {
    let (&first, mut rest) = block.split_first().ok_or(Malformed("an integer is cut off"))?;
    let all_ones = all_ones(prefix);
    let mut value = u64::from(first & all_ones);
    if value == u64::from(all_ones) {
        let mut shift = 0;
        loop {
            if shift == 7 * MOST_CONTINUATION_BYTES {
                return Err(Malformed("an integer has too many bytes"));
            }
            let (&byte, behind) = rest.split_first().ok_or(Malformed("an integer is cut off"))?;
            rest = behind;
            value += u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *block = rest;
    // the same limit on every machine
    let value = u32::try_from(value).ok().and_then(|value| usize::try_from(value).ok());
    value.ok_or(Malformed("an integer is too large"))
}

/// Appends an integer whose first byte has `prefix` bits for it, behind those of `pattern`.
pub(super) fn put(value: usize, prefix: u32, pattern: u8, block: &mut Vec<u8>) {
    let all_ones = all_ones(prefix);
    let Some(mut rest) = value.checked_sub(usize::from(all_ones)) else {
        // less than `all_ones`, which is a byte
        block.push(pattern | value as u8);
        return;
    };
    block.push(pattern | all_ones);
    while rest >= 0x80 {
        block.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    block.push(rest as u8);
}

/// The largest number of so many bits, from 1 to 8.
fn all_ones(bits: u32) -> u8 {
    u8::MAX >> (8 - bits)
}
