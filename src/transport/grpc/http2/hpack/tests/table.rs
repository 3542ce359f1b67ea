//! RFC 7541, section 4: how large the table is, and what leaves it.

use std::sync::Arc;

use super::*;

/// A decoder whose table holds `a: 1`, `b: 2` and `c: 3`, the last being the newest, and has room for no byte more.
fn full() -> Decoder {
    let mut decoder = Decoder::new(3 * 34, LIST_LIMIT);
    let block = [indexing(b"a", b"1"), indexing(b"b", b"2"), indexing(b"c", b"3")].concat();
    assert!(decoder.decode(&block).is_ok());
    assert_entries(&decoder, &[("c", "3"), ("b", "2"), ("a", "1")]);
    decoder
}

#[test]
fn an_entry_counts_its_name_its_value_and_32() {
    let mut decoder = decoder();
    assert!(decoder.decode(&indexing(b"name", b"value")).is_ok());
    assert_eq!(decoder.table.size, 4 + 5 + 32);
    assert!(decoder.decode(&indexing(b"", b"")).is_ok());
    assert_eq!(decoder.table.size, 4 + 5 + 32 + 32);
}

#[test]
fn an_entry_counts_without_its_huffman_code() {
    let mut decoder = decoder();
    // "www.example.com" in 12 bytes
    assert_decodes(&mut decoder, "41 8c f1e3 c2e5 f23a 6ba0 ab90 f4ff", &[(":authority", "www.example.com")]);
    assert_eq!(decoder.table.size, 10 + 15 + 32);
}

#[test]
fn the_oldest_entries_make_room_for_a_new_one() {
    let mut decoder = full();
    assert!(decoder.decode(&indexing(b"d", b"4")).is_ok());
    assert_entries(&decoder, &[("d", "4"), ("c", "3"), ("b", "2")]);
    // one byte more than one entry leaves
    assert!(decoder.decode(&indexing(b"e", b"55")).is_ok());
    assert_entries(&decoder, &[("e", "55"), ("d", "4")]);
}

#[test]
fn an_entry_as_large_as_the_table_is_its_only_one() {
    let mut decoder = full();
    let value = "x".repeat(3 * 34 - 32 - 1);
    assert!(decoder.decode(&indexing(b"n", value.as_bytes())).is_ok());
    assert_entries(&decoder, &[("n", &value)]);
}

#[test]
fn an_entry_larger_than_the_table_empties_it() {
    let mut decoder = full();
    let value = "x".repeat(3 * 34 - 32);
    let list = decoder.decode(&indexing(b"n", value.as_bytes()));
    assert_eq!(list, Ok(List::Fields(fields(&[("n", &value)]))));
    assert_entries(&decoder, &[]);
    // and does no harm to what follows
    assert!(decoder.decode(&indexing(b"d", b"4")).is_ok());
    assert_entries(&decoder, &[("d", "4")]);
}

#[test]
fn a_new_entry_may_have_the_name_of_one_that_it_evicts() {
    let mut decoder = full();
    // 64 is `a`, the oldest, which must leave
    assert_decodes(&mut decoder, "7f 01 01 34", &[("a", "4")]);
    assert_entries(&decoder, &[("a", "4"), ("c", "3"), ("b", "2")]);
}

#[test]
fn an_entry_too_large_may_have_the_name_of_one_that_it_evicts() {
    let mut decoder = full();
    let value = "x".repeat(3 * 34);
    let block = [&hex("7f 01 66"), value.as_bytes()].concat();
    assert_eq!(decoder.decode(&block), Ok(List::Fields(fields(&[("a", &value)]))));
    assert_entries(&decoder, &[]);
}

#[test]
fn an_index_means_the_table_of_that_moment() {
    let mut decoder = full();
    assert_decodes(
        &mut decoder,
        "be 40 01 64 01 34 be bf",
        &[("c", "3"), ("d", "4"), ("d", "4"), ("c", "3")],
    );
}

#[test]
fn a_smaller_size_evicts_the_oldest_at_once() {
    let mut decoder = full();
    // 68, room for exactly two
    assert_decodes(&mut decoder, "3f 25", &[]);
    assert_entries(&decoder, &[("c", "3"), ("b", "2")]);
    // 67
    assert_decodes(&mut decoder, "3f 24", &[]);
    assert_entries(&decoder, &[("c", "3")]);
    assert_eq!(decoder.table.max_size, 67);
}

#[test]
fn the_size_in_force_is_the_one_of_the_last_update() {
    let mut decoder = full();
    assert_decodes(&mut decoder, "3f 03", &[]);
    assert!(decoder.decode(&indexing(b"d", b"4")).is_ok());
    assert_entries(&decoder, &[("d", "4")]);
    // 34, room for one
    assert!(decoder.decode(&indexing(b"e", b"5")).is_ok());
    assert_entries(&decoder, &[("e", "5")]);
}

#[test]
fn a_size_of_zero_clears_the_table_and_keeps_it_empty() {
    let mut decoder = full();
    assert_decodes(&mut decoder, "20 82", &[(":method", "GET")]);
    assert_entries(&decoder, &[]);
    assert_decodes(&mut decoder, "40 00 00", &[("", "")]);
    assert_entries(&decoder, &[]);
    assert_eq!(decoder.decode(&hex("be")), Err(Malformed("an index is beyond the tables")));
}

#[test]
fn two_updates_clear_the_table_and_restore_its_size() {
    let mut decoder = full();
    // 0, then 102
    assert_decodes(&mut decoder, "20 3f 47 40 01 64 01 34", &[("d", "4")]);
    assert_entries(&decoder, &[("d", "4")]);
    assert_eq!(decoder.table.max_size, 102);
}

#[test]
fn a_larger_size_brings_nothing_back() {
    let mut decoder = full();
    assert_decodes(&mut decoder, "3f 03 3f 47", &[]);
    assert_entries(&decoder, &[("c", "3")]);
}

#[test]
fn the_table_begins_with_the_size_that_was_announced() {
    assert_eq!(Decoder::new(0, LIST_LIMIT).table.max_size, 0);
    assert_eq!(decoder().table.max_size, TABLE_LIMIT);
    assert_decodes(&mut Decoder::new(0, LIST_LIMIT), "20", &[]);
}

#[test]
fn an_update_up_to_the_announced_size_is_allowed_again_and_again() {
    let mut decoder = decoder();
    // 4096
    for _ in 0..3 {
        assert_decodes(&mut decoder, "3f e1 1f", &[]);
    }
    assert_eq!(decoder.decode(&hex("3f e2 1f")), Err(Malformed("a table size update is above the limit")));
}

#[test]
fn a_repeated_name_is_not_copied() {
    let mut decoder = decoder();
    assert!(decoder.decode(&[indexing(&[b'n'; 1000], b"1"), hex("7e 01 32")].concat()).is_ok());
    let [newest, oldest] = [&decoder.table.entries[0], &decoder.table.entries[1]];
    assert!(Arc::ptr_eq(&newest.name, &oldest.name));
}
