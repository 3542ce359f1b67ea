//! Pure: how metadata carries what headers cannot: text by percent signs, bytes in base64.

#[cfg(test)]
mod tests;

pub(crate) use super::super::base64::decode as decode_base64;
#[cfg(any(test, feature = "receiver"))]
pub(crate) use super::super::base64::encode as encode_base64;
use super::super::response::printable;

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
