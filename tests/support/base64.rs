//! Encodes base64 without code of the library.

pub(crate) fn base64(bytes: &[u8], is_padded: bool) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let padded = [group, &[0; 2]].concat();
        let bits = u32::from_be_bytes([0, padded[0], padded[1], padded[2]]);
        for place in 0..=group.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * place)) as usize & 63]));
        }
    }
    while is_padded && text.len() % 4 > 0 {
        text.push('=');
    }
    text
}
