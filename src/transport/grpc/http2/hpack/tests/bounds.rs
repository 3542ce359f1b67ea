//! No more is kept than the limits allow, whatever comes.

use super::*;

#[test]
fn a_list_as_long_as_the_limit_is_kept() {
    // `:method: GET` counts 42
    let mut decoder = Decoder::new(TABLE_LIMIT, 2 * 42);
    assert_decodes(&mut decoder, "82 82", &[(":method", "GET"), (":method", "GET")]);
    assert_eq!(decoder.decode(&hex("82 82 82")), Ok(List::TooLong));
    // `a: x` and `a: xy` count 34 and 35
    let mut decoder = Decoder::new(TABLE_LIMIT, 34);
    assert_decodes(&mut decoder, "00 01 61 01 78", &[("a", "x")]);
    assert_eq!(decoder.decode(&hex("00 01 61 02 7879")), Ok(List::TooLong));
}

#[test]
fn a_list_that_was_too_long_stays_so() {
    // what is too large for the rest of the room is followed by what is not
    let mut decoder = Decoder::new(TABLE_LIMIT, 50);
    assert_eq!(decoder.decode(&hex("84 82 00 00 00")), Ok(List::TooLong));
    // each list has its own room
    assert_decodes(&mut decoder, "82", &[(":method", "GET")]);
}

#[test]
fn a_list_that_is_too_long_still_changes_the_table() {
    let mut decoder = Decoder::new(TABLE_LIMIT, 40);
    let block = [hex("3f e1 0f"), indexing(b"a", b"1"), indexing(b"b", b"2"), hex("7f 00 01 33")].concat();
    assert_eq!(decoder.decode(&block), Ok(List::TooLong));
    assert_entries(&decoder, &[("a", "3"), ("b", "2"), ("a", "1")]);
    assert_eq!(decoder.table.max_size, 2048);
    assert_decodes(&mut decoder, "bf", &[("b", "2")]);
}

#[test]
fn a_literal_longer_than_the_list_may_be_an_entry() {
    let value = "x".repeat(1000);
    let mut decoder = Decoder::new(TABLE_LIMIT, 500);
    assert_eq!(decoder.decode(&indexing(b"n", value.as_bytes())), Ok(List::TooLong));
    assert_entries(&decoder, &[("n", &value)]);
    assert_eq!(decoder.decode(&hex("be")), Ok(List::TooLong));
}

#[test]
fn a_bomb_of_references_is_not_kept() {
    let mut decoder = decoder();
    let entry = [b'x'; TABLE_LIMIT - 32];
    let bomb = [indexing(b"", &entry), vec![0xbe; 12 * 1024]].concat();
    assert_eq!(decoder.decode(&bomb), Ok(List::TooLong));
    // up to the limit it is a list like any other
    let Ok(List::Fields(fields)) = decoder.decode(&[0xbe; 8]) else { panic!("it is not too long") };
    assert_eq!(fields.iter().map(size).sum::<usize>(), LIST_LIMIT);
    assert_eq!(decoder.decode(&[0xbe; 9]), Ok(List::TooLong));
}

#[test]
fn a_bomb_of_repeated_names_is_one_name() {
    let mut decoder = decoder();
    let bomb = [indexing(&[b'n'; 900], b""), [0x7e, 0x00].repeat(6 * 1024)].concat();
    assert_eq!(decoder.decode(&bomb), Ok(List::TooLong));
    assert_eq!(entries(&decoder), vec![field(&[b'n'; 900], b""); 4]);
    assert_eq!(std::sync::Arc::strong_count(&decoder.table.entries[0].name), 4);
}

#[test]
fn a_bomb_of_empty_entries_fills_the_table_and_no_more() {
    let mut decoder = decoder();
    assert_eq!(decoder.decode(&hex("40 00 00").repeat(5000)), Ok(List::TooLong));
    assert_eq!(entries(&decoder), vec![field(b"", b""); TABLE_LIMIT / 32]);
}

#[test]
fn a_bomb_of_size_updates_does_nothing() {
    let mut decoder = decoder();
    assert_eq!(decoder.decode(&hex("20 3f e1 1f").repeat(4000)), Ok(List::Fields(Vec::new())));
}
