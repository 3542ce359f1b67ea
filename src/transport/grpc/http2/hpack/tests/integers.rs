//! RFC 7541, section 5.1.

use proptest::prelude::*;

use super::*;

fn taken(block: &[u8], prefix: u32) -> Result<(usize, usize), Malformed> {
    let mut rest = block;
    let value = integer::take(&mut rest, prefix)?;
    Ok((value, block.len() - rest.len()))
}

fn written(value: usize, prefix: u32, pattern: u8) -> Vec<u8> {
    let mut block = Vec::new();
    integer::put(value, prefix, pattern, &mut block);
    block
}

/// C.1.1 to C.1.3.
#[test]
fn the_examples_of_the_rfc() {
    for (value, prefix, bytes) in [(10, 5, "0a"), (1337, 5, "1f 9a 0a"), (42, 8, "2a")] {
        let bytes = hex(bytes);
        assert_eq!(written(value, prefix, 0), bytes);
        assert_eq!(taken(&bytes, prefix), Ok((value, bytes.len())));
    }
}

#[test]
fn what_is_below_all_ones_fits_into_the_prefix() {
    for prefix in 1..=8 {
        let all_ones = (1 << prefix) - 1;
        assert_eq!(written(all_ones - 1, prefix, 0), [(all_ones - 1) as u8]);
        assert_eq!(taken(&[(all_ones - 1) as u8, 0xff], prefix), Ok((all_ones - 1, 1)));
        assert_eq!(written(all_ones, prefix, 0), [all_ones as u8, 0x00]);
        assert_eq!(taken(&[all_ones as u8, 0x00], prefix), Ok((all_ones, 2)));
    }
}

#[test]
fn the_other_bits_of_the_first_byte_do_not_count() {
    assert_eq!(taken(&[0b1110_1010], 5), Ok((10, 1)));
    assert_eq!(taken(&[0b1011_1111, 0x9a, 0x0a], 5), Ok((1337, 3)));
    assert_eq!(written(10, 5, 0b1110_0000), [0b1110_1010]);
    assert_eq!(written(1337, 5, 0b1010_0000), [0b1011_1111, 0x9a, 0x0a]);
}

#[test]
fn the_lowest_seven_bits_come_first() {
    assert_eq!(taken(&hex("1f 80 01"), 5), Ok((31 + 128, 3)));
    assert_eq!(taken(&hex("1f ff 7f"), 5), Ok((31 + 16_383, 3)));
}

#[test]
fn zeros_at_the_end_are_allowed_up_to_five_bytes() {
    assert_eq!(taken(&hex("1f 80 00"), 5), Ok((31, 3)));
    assert_eq!(taken(&hex("1f 8a 80 80 80 00"), 5), Ok((41, 6)));
    let too_many = Err(Malformed("an integer has too many bytes"));
    assert_eq!(taken(&hex("1f 8a 80 80 80 80 00"), 5), too_many);
    assert_eq!(taken(&hex("1f ff ff ff ff ff ff ff ff ff ff 01"), 5), too_many);
}

#[test]
fn the_largest_has_32_bits() {
    let largest = usize::try_from(u32::MAX).unwrap();
    // 2³² − 1 − 31
    assert_eq!(taken(&hex("1f e0 ff ff ff 0f"), 5), Ok((largest, 6)));
    let too_large = Err(Malformed("an integer is too large"));
    assert_eq!(taken(&hex("1f e1 ff ff ff 0f"), 5), too_large);
    assert_eq!(taken(&hex("1f ff ff ff ff 7f"), 5), too_large);
    assert_eq!(taken(&hex("ff ff ff ff ff 7f"), 8), too_large);
}

#[test]
fn an_integer_that_is_cut_off_is_malformed() {
    let cut_off = Err(Malformed("an integer is cut off"));
    for bytes in ["", "1f", "1f 80", "1f ff ff ff ff"] {
        assert_eq!(taken(&hex(bytes), 5), cut_off, "{bytes}");
    }
}

proptest! {
    #[test]
    fn what_was_written_is_read(value: u32, prefix in 1_u32..=8, behind: Vec<u8>, pattern: u8) {
        let value = usize::try_from(value).unwrap();
        let pattern = if prefix == 8 { 0 } else { pattern >> prefix << prefix };
        let mut block = written(value, prefix, pattern);
        let length = block.len();
        block.extend(behind);
        prop_assert_eq!(taken(&block, prefix), Ok((value, length)));
    }
}
