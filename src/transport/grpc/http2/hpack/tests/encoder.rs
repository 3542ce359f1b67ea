//! What we write, byte for byte.

use proptest::prelude::*;

use super::super::super::tables::STATIC_FIELDS;
use super::*;

fn encoded(name: &str, value: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    encode(name, value, &mut block);
    block
}

fn encoded_sensitive(name: &str, value: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    encode_sensitive(name, value, &mut block);
    block
}

#[test]
fn a_field_of_the_static_table_is_one_byte() {
    for (index, (name, value)) in (1..).zip(STATIC_FIELDS) {
        assert_eq!(encoded(name, value.as_bytes()), [0x80 | index], "{name}: {value}");
    }
    assert_eq!(encoded(":method", b"POST"), [0x83]);
}

#[test]
fn a_name_of_the_static_table_is_an_index() {
    assert_eq!(encoded(":path", b"/sample/path"), hex("04 0c 2f73616d706c652f70617468"));
    // 31 and 58 do not fit into four bits
    assert_eq!(encoded("content-type", b"a"), hex("0f 10 01 61"));
    assert_eq!(encoded("user-agent", b"a"), hex("0f 2b 01 61"));
}

#[test]
fn any_other_field_is_spelled_out() {
    assert_eq!(encoded("te", b"trailers"), hex("00 02 7465 08 747261696c657273"));
    assert_eq!(encoded("x", b""), hex("00 01 78 00"));
    let long = [b'v'; 200];
    assert_eq!(encoded("x", &long), [&hex("00 01 78 7f 49"), long.as_slice()].concat());
}

/// C.2.3, and names of the static table.
#[test]
fn a_sensitive_field_is_never_indexed() {
    assert_eq!(encoded_sensitive("password", b"secret"), hex("10 08 70617373776f7264 06 736563726574"));
    assert_eq!(encoded_sensitive("authorization", b"a"), hex("1f 08 01 61"));
    // not even where the static table has it
    assert_eq!(encoded_sensitive("authorization", b""), hex("1f 08 00"));
    assert_eq!(encoded_sensitive(":method", b"POST"), hex("12 04 504f5354"));
}

#[test]
fn a_size_update_is_an_integer_of_five_bits() {
    for (size, expected) in [(0, "20"), (30, "3e"), (31, "3f 00"), (4096, "3f e1 1f")] {
        let mut block = Vec::new();
        encode_size_update(size, &mut block);
        assert_eq!(block, hex(expected), "{size}");
        assert_eq!(decoder().decode(&block), Ok(List::Fields(Vec::new())));
    }
}

/// Names that the static table has, and others.
fn name() -> impl Strategy<Value = String> {
    let known = (0..61_usize).prop_map(|place| STATIC_FIELDS[place].0.to_owned());
    prop_oneof![known, "[a-z0-9-]{0,40}", any::<String>()]
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded_and_not_remembered(
        list in prop::collection::vec((name(), any::<Vec<u8>>(), any::<bool>()), 0..20),
        update in prop::option::of(0..=TABLE_LIMIT),
    ) {
        let mut block = Vec::new();
        if let Some(size) = update {
            encode_size_update(size, &mut block);
        }
        for (name, value, is_sensitive) in &list {
            let write = if *is_sensitive { encode_sensitive } else { encode };
            write(name, value, &mut block);
        }
        let expected = list.iter().map(|(name, value, _)| field(name.as_bytes(), value)).collect();
        let mut decoder = decoder();
        prop_assert_eq!(decoder.decode(&block), Ok(List::Fields(expected)));
        prop_assert_eq!(entries(&decoder), Vec::new());
        prop_assert_eq!(decoder.table.max_size, update.unwrap_or(TABLE_LIMIT));
    }
}
