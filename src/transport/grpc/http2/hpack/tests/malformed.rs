//! Every rule that a whole block can break, each with its own words.

use super::*;

#[track_caller]
fn assert_malformed(block: &str, why: &'static str) {
    // an entry, so that there is a dynamic table to be beyond of
    let mut decoder = decoder();
    assert!(decoder.decode(&indexing(b"n", b"v")).is_ok());
    assert_eq!(decoder.decode(&hex(block)), Err(Malformed(why)), "{block}");
}

#[test]
fn index_zero() {
    assert_malformed("80", "index 0 stands for no field");
    assert_malformed("82 80", "index 0 stands for no field");
}

#[test]
fn an_index_beyond_the_tables() {
    // 63, for every representation
    for block in ["bf", "7f 00 01 61", "0f 30 01 61", "1f 30 01 61"] {
        assert_malformed(block, "an index is beyond the tables");
    }
    assert_malformed("ff 80 ff ff ff 0f", "an index is beyond the tables");
}

#[test]
fn an_index_of_an_entry_that_was_evicted() {
    assert_malformed("20 be", "an index is beyond the tables");
    assert_malformed("20 7e 01 61", "an index is beyond the tables");
}

#[test]
fn a_size_update_after_a_field() {
    for block in ["82 20", "00 01 61 01 62 20", "40 01 61 01 62 3f e1 1f", "20 82 20"] {
        assert_malformed(block, "a table size update comes after a field");
    }
}

#[test]
fn a_size_update_above_the_limit() {
    for block in ["3f e2 1f", "3f ff ff 03", "3f e0 ff ff ff 0f", "20 3f e2 1f"] {
        assert_malformed(block, "a table size update is above the limit");
    }
}

#[test]
fn an_integer_that_is_too_large() {
    for block in ["ff ff ff ff ff 7f", "3f ff ff ff ff 1f", "7f ff ff ff ff 1f", "0f ff ff ff ff 1f"] {
        assert_malformed(block, "an integer is too large");
    }
    assert_malformed("00 7f ff ff ff ff 7f", "an integer is too large");
}

#[test]
fn an_integer_of_too_many_bytes() {
    for block in ["ff 80 80 80 80 80 00", "3f 80 80 80 80 80 80 80 80 80 80 01", "00 ff 80 80 80 80 80 00"] {
        assert_malformed(block, "an integer has too many bytes");
    }
}

#[test]
fn an_integer_that_is_cut_off() {
    for block in ["ff", "3f", "7f", "0f", "1f", "ff 80", "40", "00", "10", "48", "00 01 61", "00 7f"] {
        assert_malformed(block, "an integer is cut off");
    }
}

#[test]
fn a_string_that_is_cut_off() {
    for block in ["00 01", "40 02 61", "48 03 3230", "00 01 61 01", "10 01 61 82 07", "00 7f ff ff ff ff 0e"]
    {
        assert_malformed(block, "a string is cut off");
    }
}

#[test]
fn the_end_of_a_string_in_a_string() {
    for block in ["00 84 ffffffff 00", "48 84 ffffffff", "10 01 61 85 07ffffffff"] {
        assert_malformed(block, "a string contains the code for its end");
    }
}

#[test]
fn padding_that_is_too_long() {
    for block in ["00 81 ff 00", "48 82 07ff", "10 01 61 83 07ffff"] {
        assert_malformed(block, "the padding of a string is longer than 7 bits");
    }
}

#[test]
fn padding_that_is_not_all_ones() {
    for block in ["00 81 00 00", "48 81 06", "10 01 61 81 03"] {
        assert_malformed(block, "the padding of a string is not all ones");
    }
}

/// Where a block is cut off between two fields, nobody can tell.
#[test]
fn a_block_is_malformed_or_shorter_wherever_it_is_cut_off() {
    let block = hex(
        "3f e1 1f  82  41 8c f1e3 c2e5 f23a 6ba0 ab90 f4ff  00 01 61 02 6263  0f 10 02 6162  1f 2f 81 07  be",
    );
    let Ok(List::Fields(whole)) = decoder().decode(&block) else { panic!("it is not malformed") };
    for length in 0..block.len() {
        match decoder().decode(&block[..length]) {
            Ok(List::Fields(part)) => assert!(part.len() < whole.len() && whole.starts_with(&part)),
            Ok(List::TooLong) => panic!("it is not too long"),
            Err(Malformed(why)) => assert!(why.ends_with("is cut off"), "{why}"),
        }
    }
}

/// What was wrong is the same for a list that is not kept.
#[test]
fn a_list_that_is_too_long_may_be_malformed_too() {
    let mut decoder = Decoder::new(TABLE_LIMIT, 10);
    assert_eq!(decoder.decode(&hex("82")), Ok(List::TooLong));
    assert_eq!(decoder.decode(&hex("82 80")), Err(Malformed("index 0 stands for no field")));
    assert_eq!(
        decoder.decode(&hex("82 00 81 00 00")),
        Err(Malformed("the padding of a string is not all ones"))
    );
}
