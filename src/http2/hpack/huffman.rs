//! Reads the Huffman code of strings (RFC 7541, section 5.2 and appendix B).

use super::Malformed;

const LONGEST_CODE: usize = 30;
const CODE_BITS: u64 = (1 << LONGEST_CODE) - 1;

/// All symbols in the order of their codes; the end of a string comes last, behind the bytes.
const BYTES_BY_CODE: [u8; 256] = bytes_by_code();
/// Where the codes of each length end.
const ENDS: [End; LONGEST_CODE + 1] = ends();

/// Codes of one length are a range, and each range begins where the one of shorter codes ends.
#[derive(Clone, Copy)]
struct End {
    /// The first code that is longer, filled up to [`LONGEST_CODE`] bits with zeros.
    code: u32,
    /// How many symbols have codes up to this length.
    symbols: u16,
}

/// Decodes a string.
pub(super) fn decode(encoded: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut bytes = Bytes { encoded, bits: 0, count: 0 };
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next()? {
        decoded.push(byte);
    }
    // The table of the connection may keep the string.
    decoded.shrink_to_fit();
    Ok(decoded)
}

/// The bytes of an encoded string, one after the other.
struct Bytes<'a> {
    encoded: &'a [u8],
    /// The lowest `count` bits of it are those that were taken from `encoded` and not used yet.
    bits: u64,
    count: usize,
}

impl Bytes<'_> {
    /// Returns `None` at the end of the string.
    fn next(&mut self) -> Result<Option<u8>, Malformed> {
        while let (0..LONGEST_CODE, Some((&byte, rest))) = (self.count, self.encoded.split_first()) {
            self.bits = self.bits << 8 | u64::from(byte);
            self.count += 8;
            self.encoded = rest;
        }
        let ahead = self.ahead();
        let mut start = End { code: 0, symbols: 0 };
        let mut length = 0;
        // the last range ends behind everything that could be ahead
        while ahead >= ENDS[length].code {
            start = ENDS[length];
            length += 1;
        }
        if length > self.count {
            return self.padding().map(|()| None);
        }
        self.count -= length;
        let symbol = usize::from(start.symbols) + ((ahead - start.code) >> (LONGEST_CODE - length)) as usize;
        match BYTES_BY_CODE.get(symbol) {
            Some(&byte) => Ok(Some(byte)),
            None => Err(Malformed("a string contains the code for its end")),
        }
    }

    /// As many bits as the longest code has. Behind the end there are ones, as in the padding.
    fn ahead(&self) -> u32 {
        let ahead = match self.count.checked_sub(LONGEST_CODE) {
            Some(later) => self.bits >> later,
            None => !(!self.bits << (LONGEST_CODE - self.count)),
        };
        (ahead & CODE_BITS) as u32
    }

    /// What is left is no whole code.
    fn padding(&self) -> Result<(), Malformed> {
        let ones = (1 << self.count) - 1;
        match self.count {
            8.. => Err(Malformed("the padding of a string is longer than 7 bits")),
            _ if self.bits & ones != ones => Err(Malformed("the padding of a string is not all ones")),
            _ => Ok(()),
        }
    }
}

const fn bytes_by_code() -> [u8; 256] {
    let mut bytes = [0; 256];
    let mut found = 0;
    let mut length = 0;
    while length <= LONGEST_CODE {
        let mut byte = 0;
        while byte < bytes.len() {
            if HUFFMAN_LENGTHS[byte] as usize == length {
                bytes[found] = byte as u8;
                found += 1;
            }
            byte += 1;
        }
        length += 1;
    }
    bytes
}

const fn ends() -> [End; LONGEST_CODE + 1] {
    let mut ends = [End { code: 0, symbols: 0 }; LONGEST_CODE + 1];
    let mut length = 1;
    while length <= LONGEST_CODE {
        let mut end = ends[length - 1];
        let mut symbol = 0;
        while symbol < HUFFMAN_LENGTHS.len() {
            if HUFFMAN_LENGTHS[symbol] as usize == length {
                end.code += 1 << (LONGEST_CODE - length);
                end.symbols += 1;
            }
            symbol += 1;
        }
        ends[length] = end;
        length += 1;
    }
    ends
}

/// Appendix B: how many bits the code of each byte has, and last that of the end of a string.
///
/// The code is canonical: shorter codes come first, and codes of one length follow each other in the order of their
/// symbols. So the lengths say it all.
#[rustfmt::skip]
const HUFFMAN_LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6,
     5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10,
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
     7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6,
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,
     6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];
