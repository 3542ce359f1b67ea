//! Pure: how metadata carries what headers cannot: text by percent signs, bytes in base64.

#[cfg(test)]
mod tests;

use super::super::answer::printable;
use super::super::base64::DIGITS;
#[cfg(any(test, feature = "receiver"))]
pub(crate) use super::super::base64::encode as encode_base64;

/// The text of a `grpc-message`, fit for a log line; what is not encoded as it should be stays as it is.
pub(super) fn decode_percent(value: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((first, after)) = rest.split_first() {
        let pair = after.split_first_chunk::<2>().filter(|_| *first == b'%');
        match pair.and_then(|([high, low], after)| Some((hex(*high)? << 4 | hex(*low)?, after))) {
            Some((byte, after)) => {
                bytes.push(byte);
                rest = after;
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    printable(&String::from_utf8_lossy(&bytes))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Padded or not, as binary metadata may be.
pub(crate) fn decode_base64(value: &[u8]) -> Option<Vec<u8>> {
    let end = value.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    let mut bytes = Vec::with_capacity(end / 4 * 3 + 2);
    for group in value[..end].chunks(4) {
        let mut bits: u32 = 0;
        for byte in group {
            let digit = DIGITS.iter().position(|known| known == byte)?;
            bits = bits << 6 | digit as u32;
        }
        // four digits are three bytes, three are two, two are one
        let count = group.len().checked_sub(1).filter(|count| *count > 0)?;
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..=count]);
    }
    Some(bytes)
}
