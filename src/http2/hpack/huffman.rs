//! Decoder of Huffman-coded strings (RFC 7541, section 5.2 and appendix B).
//!
//! The code is canonical: the order of the bytes by code and the number of codes of each length define it. The codes of
//! one length are a range of consecutive numbers; the decoder compares the next 30 bits with the end of each range
//! (extended to 30 bits), from the shortest codes to the longest. This linear search takes at most 30 steps per byte.
//! It is slower than a state machine with large tables, but responses carry only a few short fields.

use super::Malformed;

const MAX_CODE_BITS: usize = 30;
const CODE_BITS: u64 = (1 << MAX_CODE_BITS) - 1;

/// All bytes in the order of their codes. The end-of-string symbol is last and not listed.
const BYTES_BY_CODE: [u8; 256] = bytes_by_code();
/// For each code length, where the range of its codes ends.
const ENDS: [End; MAX_CODE_BITS + 1] = ends();

/// End of the codes of one length. The codes of one length are a range, which begins where the shorter codes end.
#[derive(Clone, Copy)]
struct End {
    /// First code that is longer than this length, extended to [`MAX_CODE_BITS`] bits with zeros.
    code: u32,
    /// Number of symbols with codes up to this length.
    symbols: u16,
}

pub(super) fn decode(encoded: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut bytes = Bytes { encoded, bits: 0, count: 0 };
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next()? {
        decoded.push(byte);
    }
    // The connection's dynamic table may keep the string for a long time.
    decoded.shrink_to_fit();
    Ok(decoded)
}

/// Decodes a string byte by byte.
struct Bytes<'a> {
    encoded: &'a [u8],
    /// The lowest `count` bits have been taken from `encoded` and have not been decoded yet.
    bits: u64,
    count: usize,
}

impl Bytes<'_> {
    /// Decodes the next byte, or returns `None` at the end of the string.
    fn next(&mut self) -> Result<Option<u8>, Malformed> {
        while let (0..MAX_CODE_BITS, Some((&byte, rest))) = (self.count, self.encoded.split_first()) {
            self.bits = self.bits << 8 | u64::from(byte);
            self.count += 8;
            self.encoded = rest;
        }
        let ahead = self.ahead();
        let mut start = End { code: 0, symbols: 0 };
        let mut length = 0;
        // Terminates, because the end of the last range is above every 30-bit number.
        while ahead >= ENDS[length].code {
            start = ENDS[length];
            length += 1;
        }
        if length > self.count {
            return self.padding().map(|()| None);
        }
        self.count -= length;
        let symbol = usize::from(start.symbols) + ((ahead - start.code) >> (MAX_CODE_BITS - length)) as usize;
        match BYTES_BY_CODE.get(symbol) {
            Some(&byte) => Ok(Some(byte)),
            None => Err(Malformed("a string contains the code for its end")),
        }
    }

    /// Returns the next [`MAX_CODE_BITS`] bits, extended with ones after the end, as in the padding.
    fn ahead(&self) -> u32 {
        let ahead = match self.count.checked_sub(MAX_CODE_BITS) {
            Some(later) => self.bits >> later,
            None => !(!self.bits << (MAX_CODE_BITS - self.count)),
        };
        (ahead & CODE_BITS) as u32
    }

    /// Checks the remaining bits, which are not a complete code: they must be padding, at most 7 bits and all ones.
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
    let (mut bytes, mut ends, mut byte) = ([0; 256], ENDS, 0);
    while byte < bytes.len() {
        // Counting sort: the symbols of a length follow all shorter ones.
        let place = &mut ends[HUFFMAN_LENGTHS[byte] as usize - 1].symbols;
        bytes[*place as usize] = byte as u8;
        *place += 1;
        byte += 1;
    }
    bytes
}

const fn ends() -> [End; MAX_CODE_BITS + 1] {
    let mut ends = [End { code: 0, symbols: 0 }; MAX_CODE_BITS + 1];
    let mut symbol = 0;
    while symbol < HUFFMAN_LENGTHS.len() {
        ends[HUFFMAN_LENGTHS[symbol] as usize].symbols += 1;
        symbol += 1;
    }
    let mut length = 1;
    while length <= MAX_CODE_BITS {
        let (shorter, end) = (ends[length - 1], &mut ends[length]);
        end.code = shorter.code + ((end.symbols as u32) << (MAX_CODE_BITS - length));
        end.symbols += shorter.symbols;
        length += 1;
    }
    ends
}

/// Code lengths of appendix B, in bits: of each byte, then of the end-of-string symbol.
///
/// In a canonical code, shorter codes come first, and codes of one length are in the order of their symbols. The
/// lengths therefore define all codes.
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
