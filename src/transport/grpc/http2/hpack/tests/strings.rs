//! RFC 7541, section 5.2 and appendix B.

use proptest::prelude::*;

use super::codes::{Bits, CODES, encoded};
use super::text::Text;
use super::*;

/// A whole string with its length in front.
fn huffman(encoded: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    integer::put(encoded.len(), 7, 0x80, &mut block);
    block.extend_from_slice(encoded);
    block
}

/// The string and how many bytes are behind it.
fn taken(block: &[u8]) -> Result<(Vec<u8>, usize), Malformed> {
    let mut rest = block;
    let text = Text::take(&mut rest)?;
    let decoded = text.to_vec();
    assert_eq!(text.len(), decoded.len());
    Ok((decoded, rest.len()))
}

#[test]
fn a_plain_string_is_its_bytes() {
    assert_eq!(taken(&hex("00")), Ok((Vec::new(), 0)));
    assert_eq!(taken(&hex("03 616263 ff")), Ok((b"abc".to_vec(), 1)));
    assert_eq!(taken(&hex("02 00ff")), Ok((vec![0x00, 0xff], 0)));
}

#[test]
fn the_length_of_a_string_may_have_many_bytes() {
    let long = vec![b'x'; 300];
    let block = [&hex("7f ad 01"), long.as_slice()].concat();
    assert_eq!(taken(&block), Ok((long, 0)));
    let encoded = encoded(&[b'e'; 300]);
    let block = [&hex("ff 3d"), encoded.as_slice()].concat();
    assert_eq!(encoded.len(), 127 + 61);
    assert_eq!(taken(&block), Ok((vec![b'e'; 300], 0)));
}

#[test]
fn each_byte_has_its_code() {
    for (byte, (code, length)) in (0..=u8::MAX).zip(CODES) {
        // alone, between others, and wherever in a byte it begins
        for before in 0..8 {
            for behind in 0..2 {
                let mut bits = Bits::default();
                (0..before).for_each(|_| bits.push(CODES[usize::from(b'a')].0, 5));
                bits.push(code, length);
                (0..behind).for_each(|_| bits.push(CODES[usize::from(b'~')].0, 13));
                let expected = [vec![b'a'; before], vec![byte], vec![b'~'; behind]].concat();
                assert_eq!(taken(&huffman(&bits.bytes())), Ok((expected, 0)), "{byte}");
            }
        }
    }
}

#[test]
fn an_empty_string_may_be_in_huffman_code() {
    assert_eq!(taken(&hex("80 61")), Ok((Vec::new(), 1)));
}

#[test]
fn padding_is_up_to_seven_ones() {
    // codes of 8, 7, 6 and 5 bits, in numbers that leave any number of bits
    for (text, padding) in
        [("&", 0), (":", 1), ("b", 2), ("0", 3), ("bb", 4), ("000", 1), ("00", 6), ("00b", 0), ("0bb", 7)]
    {
        let bits: usize = text.bytes().map(|byte| CODES[usize::from(byte)].1).sum();
        assert_eq!((8 - bits % 8) % 8, padding, "{text}");
        assert_eq!(taken(&huffman(&encoded(text.as_bytes()))), Ok((text.as_bytes().to_vec(), 0)), "{text}");
    }
}

#[test]
fn padding_of_eight_bits_or_more_is_malformed() {
    let too_long = Err(Malformed("the padding of a string is longer than 7 bits"));
    for bytes in ["ff", "ffff", "ffffff", "07 ff", "f8 ff", "07 ffff", "f8 ffffff"] {
        assert_eq!(taken(&huffman(&hex(bytes))), too_long, "{bytes}");
    }
}

#[test]
fn padding_that_is_not_all_ones_is_malformed() {
    let not_ones = Err(Malformed("the padding of a string is not all ones"));
    // `0` has the code 00000
    for bytes in ["00", "01", "02", "03", "04", "05", "06", "f8 f8 00"] {
        assert_eq!(taken(&huffman(&hex(bytes))), not_ones, "{bytes}");
    }
    assert_eq!(taken(&huffman(&hex("07"))), Ok((b"0".to_vec(), 0)));
}

#[test]
fn a_code_that_is_cut_off_is_malformed() {
    // the first byte of `!`, 1111111000
    let cut_off = taken(&huffman(&hex("fe")));
    assert_eq!(cut_off, Err(Malformed("the padding of a string is longer than 7 bits")));
}

#[test]
fn the_code_for_the_end_of_a_string_is_malformed() {
    let end = Err(Malformed("a string contains the code for its end"));
    for bytes in ["ff ff ff ff", "07 ff ff ff ff", "ff ff ff fc", "f8 ff ff ff ff ff ff"] {
        assert_eq!(taken(&huffman(&hex(bytes))), end, "{bytes}");
    }
}

#[test]
fn a_string_that_is_cut_off_is_malformed() {
    for bytes in ["01", "04 616263", "81", "82 07", "ff ff ff ff ff 0e"] {
        assert_eq!(taken(&hex(bytes)), Err(Malformed("a string is cut off")), "{bytes}");
    }
    for bytes in ["", "7f", "ff 80"] {
        assert_eq!(taken(&hex(bytes)), Err(Malformed("an integer is cut off")), "{bytes}");
    }
}

proptest! {
    #[test]
    fn what_was_encoded_is_read(text: Vec<u8>) {
        prop_assert_eq!(taken(&huffman(&encoded(&text))), Ok((text, 0)));
    }

    /// There is one way only to write a string.
    #[test]
    fn what_was_read_would_be_encoded_so(bytes: Vec<u8>) {
        if let Ok((text, _)) = taken(&huffman(&bytes)) {
            prop_assert_eq!(encoded(&text), bytes);
        }
    }
}
