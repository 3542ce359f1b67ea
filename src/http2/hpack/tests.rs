use super::*;

const TABLE_LIMIT: usize = 4096;
const LIST_LIMIT: usize = 32 * 1024;

fn decoder() -> Decoder {
    Decoder::new(TABLE_LIMIT, LIST_LIMIT)
}

/// Decodes hexadecimal digits, and ignores white space.
fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        digits.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    assert_eq!(digits.len() % 2, 0, "a digit is missing");
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn fields(fields: &[(&str, &str)]) -> Vec<Field> {
    fields.iter().map(|(name, value)| field(name.as_bytes(), value.as_bytes())).collect()
}

fn field(name: &[u8], value: &[u8]) -> Field {
    Field { name: name.to_vec(), value: value.to_vec() }
}

/// Returns a literal with incremental indexing, whose name is a string.
fn indexing(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut block = vec![0x40];
    for text in [name, value] {
        put_integer(text.len(), 7, 0, &mut block);
        block.extend_from_slice(text);
    }
    block
}

/// Returns the entries of the table, newest first, after a check of its invariants.
fn entries(decoder: &Decoder) -> Vec<Field> {
    let table = &decoder.table;
    let entries: Vec<_> = table.entries.iter().map(|entry| field(&entry.name, &entry.value)).collect();
    let size: usize = entries.iter().map(size).sum();
    assert_eq!(table.size, size, "the size of the table");
    assert!(size <= table.max_size, "{size} > {}", table.max_size);
    entries
}

fn size(field: &Field) -> usize {
    field.name.len() + field.value.len() + 32
}

#[track_caller]
fn assert_decodes(decoder: &mut Decoder, block: &str, expected: &[(&str, &str)]) {
    assert_eq!(decoder.decode(&hex(block)), Ok(List::Fields(fields(expected))));
}

#[track_caller]
fn assert_entries(decoder: &Decoder, expected: &[(&str, &str)]) {
    assert_eq!(entries(decoder), fields(expected));
}

mod bounds {
    //! Limits of lists.

    use super::*;

    #[test]
    fn a_list_as_long_as_the_limit_is_kept() {
        // `:method: GET` counts as 42 bytes
        let mut decoder = Decoder::new(TABLE_LIMIT, 2 * 42);
        assert_decodes(&mut decoder, "82 82", &[(":method", "GET"), (":method", "GET")]);
        assert_eq!(decoder.decode(&hex("82 82 82")), Ok(List::TooLong));
        // `a: x` counts as 34 bytes, and `a: xy` as 35
        let mut decoder = Decoder::new(TABLE_LIMIT, 34);
        assert_decodes(&mut decoder, "00 01 61 01 78", &[("a", "x")]);
        assert_eq!(decoder.decode(&hex("00 01 61 02 7879")), Ok(List::TooLong));
    }

    #[test]
    fn a_list_that_was_too_long_stays_so() {
        // A field that exceeds the limit is followed by one that would fit.
        let mut decoder = Decoder::new(TABLE_LIMIT, 50);
        assert_eq!(decoder.decode(&hex("84 82 00 00 00")), Ok(List::TooLong));
        // Each list has its own limit.
        assert_decodes(&mut decoder, "82", &[(":method", "GET")]);
    }

    #[test]
    fn a_list_that_is_too_long_still_changes_the_table() {
        let mut decoder = Decoder::new(TABLE_LIMIT, 40);
        let block =
            [hex("3f e1 0f"), indexing(b"a", b"1"), indexing(b"b", b"2"), hex("7f 00 01 33")].concat();
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
        // A list whose size is exactly the limit is accepted.
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
}

mod codes {
    //! The complete table of the Huffman code (RFC 7541, appendix B), from which the tests encode strings.

    /// Code and number of bits of each byte, then of the end of a string.
#[rustfmt::skip]
pub(super) const CODES: [(u32, usize); 257] = [
    (0x1ff8, 13), (0x7fffd8, 23), (0xfffffe2, 28), (0xfffffe3, 28), (0xfffffe4, 28), (0xfffffe5, 28), (0xfffffe6, 28), (0xfffffe7, 28),
    (0xfffffe8, 28), (0xffffea, 24), (0x3ffffffc, 30), (0xfffffe9, 28), (0xfffffea, 28), (0x3ffffffd, 30), (0xfffffeb, 28), (0xfffffec, 28),
    (0xfffffed, 28), (0xfffffee, 28), (0xfffffef, 28), (0xffffff0, 28), (0xffffff1, 28), (0xffffff2, 28), (0x3ffffffe, 30), (0xffffff3, 28),
    (0xffffff4, 28), (0xffffff5, 28), (0xffffff6, 28), (0xffffff7, 28), (0xffffff8, 28), (0xffffff9, 28), (0xffffffa, 28), (0xffffffb, 28),
    (0x14, 6), (0x3f8, 10), (0x3f9, 10), (0xffa, 12), (0x1ff9, 13), (0x15, 6), (0xf8, 8), (0x7fa, 11),
    (0x3fa, 10), (0x3fb, 10), (0xf9, 8), (0x7fb, 11), (0xfa, 8), (0x16, 6), (0x17, 6), (0x18, 6),
    (0x0, 5), (0x1, 5), (0x2, 5), (0x19, 6), (0x1a, 6), (0x1b, 6), (0x1c, 6), (0x1d, 6),
    (0x1e, 6), (0x1f, 6), (0x5c, 7), (0xfb, 8), (0x7ffc, 15), (0x20, 6), (0xffb, 12), (0x3fc, 10),
    (0x1ffa, 13), (0x21, 6), (0x5d, 7), (0x5e, 7), (0x5f, 7), (0x60, 7), (0x61, 7), (0x62, 7),
    (0x63, 7), (0x64, 7), (0x65, 7), (0x66, 7), (0x67, 7), (0x68, 7), (0x69, 7), (0x6a, 7),
    (0x6b, 7), (0x6c, 7), (0x6d, 7), (0x6e, 7), (0x6f, 7), (0x70, 7), (0x71, 7), (0x72, 7),
    (0xfc, 8), (0x73, 7), (0xfd, 8), (0x1ffb, 13), (0x7fff0, 19), (0x1ffc, 13), (0x3ffc, 14), (0x22, 6),
    (0x7ffd, 15), (0x3, 5), (0x23, 6), (0x4, 5), (0x24, 6), (0x5, 5), (0x25, 6), (0x26, 6),
    (0x27, 6), (0x6, 5), (0x74, 7), (0x75, 7), (0x28, 6), (0x29, 6), (0x2a, 6), (0x7, 5),
    (0x2b, 6), (0x76, 7), (0x2c, 6), (0x8, 5), (0x9, 5), (0x2d, 6), (0x77, 7), (0x78, 7),
    (0x79, 7), (0x7a, 7), (0x7b, 7), (0x7ffe, 15), (0x7fc, 11), (0x3ffd, 14), (0x1ffd, 13), (0xffffffc, 28),
    (0xfffe6, 20), (0x3fffd2, 22), (0xfffe7, 20), (0xfffe8, 20), (0x3fffd3, 22), (0x3fffd4, 22), (0x3fffd5, 22), (0x7fffd9, 23),
    (0x3fffd6, 22), (0x7fffda, 23), (0x7fffdb, 23), (0x7fffdc, 23), (0x7fffdd, 23), (0x7fffde, 23), (0xffffeb, 24), (0x7fffdf, 23),
    (0xffffec, 24), (0xffffed, 24), (0x3fffd7, 22), (0x7fffe0, 23), (0xffffee, 24), (0x7fffe1, 23), (0x7fffe2, 23), (0x7fffe3, 23),
    (0x7fffe4, 23), (0x1fffdc, 21), (0x3fffd8, 22), (0x7fffe5, 23), (0x3fffd9, 22), (0x7fffe6, 23), (0x7fffe7, 23), (0xffffef, 24),
    (0x3fffda, 22), (0x1fffdd, 21), (0xfffe9, 20), (0x3fffdb, 22), (0x3fffdc, 22), (0x7fffe8, 23), (0x7fffe9, 23), (0x1fffde, 21),
    (0x7fffea, 23), (0x3fffdd, 22), (0x3fffde, 22), (0xfffff0, 24), (0x1fffdf, 21), (0x3fffdf, 22), (0x7fffeb, 23), (0x7fffec, 23),
    (0x1fffe0, 21), (0x1fffe1, 21), (0x3fffe0, 22), (0x1fffe2, 21), (0x7fffed, 23), (0x3fffe1, 22), (0x7fffee, 23), (0x7fffef, 23),
    (0xfffea, 20), (0x3fffe2, 22), (0x3fffe3, 22), (0x3fffe4, 22), (0x7ffff0, 23), (0x3fffe5, 22), (0x3fffe6, 22), (0x7ffff1, 23),
    (0x3ffffe0, 26), (0x3ffffe1, 26), (0xfffeb, 20), (0x7fff1, 19), (0x3fffe7, 22), (0x7ffff2, 23), (0x3fffe8, 22), (0x1ffffec, 25),
    (0x3ffffe2, 26), (0x3ffffe3, 26), (0x3ffffe4, 26), (0x7ffffde, 27), (0x7ffffdf, 27), (0x3ffffe5, 26), (0xfffff1, 24), (0x1ffffed, 25),
    (0x7fff2, 19), (0x1fffe3, 21), (0x3ffffe6, 26), (0x7ffffe0, 27), (0x7ffffe1, 27), (0x3ffffe7, 26), (0x7ffffe2, 27), (0xfffff2, 24),
    (0x1fffe4, 21), (0x1fffe5, 21), (0x3ffffe8, 26), (0x3ffffe9, 26), (0xffffffd, 28), (0x7ffffe3, 27), (0x7ffffe4, 27), (0x7ffffe5, 27),
    (0xfffec, 20), (0xfffff3, 24), (0xfffed, 20), (0x1fffe6, 21), (0x3fffe9, 22), (0x1fffe7, 21), (0x1fffe8, 21), (0x7ffff3, 23),
    (0x3fffea, 22), (0x3fffeb, 22), (0x1ffffee, 25), (0x1ffffef, 25), (0xfffff4, 24), (0xfffff5, 24), (0x3ffffea, 26), (0x7ffff4, 23),
    (0x3ffffeb, 26), (0x7ffffe6, 27), (0x3ffffec, 26), (0x3ffffed, 26), (0x7ffffe7, 27), (0x7ffffe8, 27), (0x7ffffe9, 27), (0x7ffffea, 27),
    (0x7ffffeb, 27), (0xffffffe, 28), (0x7ffffec, 27), (0x7ffffed, 27), (0x7ffffee, 27), (0x7ffffef, 27), (0x7fffff0, 27), (0x3ffffee, 26),
    (0x3fffffff, 30),
];

    /// Bits to be packed into bytes; the unused bits of the last byte are set to 1.
    #[derive(Default)]
    pub(super) struct Bits {
        bits: Vec<bool>,
    }

    impl Bits {
        pub(super) fn push(&mut self, code: u32, length: usize) {
            self.bits.extend((0..length).rev().map(|place| code >> place & 1 == 1));
        }

        pub(super) fn bytes(&self) -> Vec<u8> {
            let byte = |bits: &[bool]| {
                (0..8).fold(0, |byte, place| byte << 1 | u8::from(bits.get(place).copied().unwrap_or(true)))
            };
            self.bits.chunks(8).map(byte).collect()
        }
    }

    pub(super) fn encoded(text: &[u8]) -> Vec<u8> {
        let mut bits = Bits::default();
        for byte in text {
            let (code, length) = CODES[usize::from(*byte)];
            bits.push(code, length);
        }
        bits.bytes()
    }
}

mod encoder {
    //! Checks the output of the encoder byte by byte.

    use proptest::prelude::*;

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
        // the indexes 31 and 58, which do not fit into four bits
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

    /// Example C.2.3, then names in the static table.
    #[test]
    fn a_sensitive_field_is_never_indexed() {
        assert_eq!(encoded_sensitive("password", b"secret"), hex("10 08 70617373776f7264 06 736563726574"));
        assert_eq!(encoded_sensitive("authorization", b"a"), hex("1f 08 01 61"));
        // The field is not indexed even if the static table contains it.
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

    /// Generates names: some from the static table, and some arbitrary ones.
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
}

mod examples {
    //! The examples of RFC 7541, appendix C, with the table after each. The examples of integers are in `integers`.

    use super::*;

    #[track_caller]
    fn assert_example(
        decoder: &mut Decoder,
        block: &str,
        list: &[(&str, &str)],
        table: &[(&str, &str)],
        table_size: usize,
    ) {
        assert_decodes(decoder, block, list);
        assert_entries(decoder, table);
        assert_eq!(decoder.table.size, table_size);
    }

    /// C.2.1.
    #[test]
    fn a_literal_with_indexing() {
        let mut decoder = Decoder::new(4096, 4096);
        assert_example(
            &mut decoder,
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            &[("custom-key", "custom-header")],
            &[("custom-key", "custom-header")],
            55,
        );
    }

    /// C.2.2.
    #[test]
    fn a_literal_without_indexing() {
        let mut decoder = Decoder::new(4096, 4096);
        assert_example(
            &mut decoder,
            "040c 2f73 616d 706c 652f 7061 7468",
            &[(":path", "/sample/path")],
            &[],
            0,
        );
    }

    /// C.2.3.
    #[test]
    fn a_literal_never_indexed() {
        let mut decoder = Decoder::new(4096, 4096);
        assert_example(
            &mut decoder,
            "1008 7061 7373 776f 7264 0673 6563 7265 74",
            &[("password", "secret")],
            &[],
            0,
        );
    }

    /// C.2.4.
    #[test]
    fn an_indexed_field() {
        let mut decoder = Decoder::new(4096, 4096);
        assert_example(&mut decoder, "82", &[(":method", "GET")], &[], 0);
    }

    /// C.3.
    #[test]
    fn requests_as_they_are() {
        let mut decoder = Decoder::new(4096, 4096);
        assert_example(
            &mut decoder,
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 \
         2e63 6f6d",
            &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")],
            &[(":authority", "www.example.com")],
            57,
        );
        assert_example(
            &mut decoder,
            "8286 84be 5808 6e6f 2d63 6163 6865",
            &[
                (":method", "GET"),
                (":scheme", "http"),
                (":path", "/"),
                (":authority", "www.example.com"),
                ("cache-control", "no-cache"),
            ],
            &[("cache-control", "no-cache"), (":authority", "www.example.com")],
            110,
        );
        assert_example(
            &mut decoder,
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 \
         0c63 7573 746f 6d2d 7661 6c75 65",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":path", "/index.html"),
                (":authority", "www.example.com"),
                ("custom-key", "custom-value"),
            ],
            &[
                ("custom-key", "custom-value"),
                ("cache-control", "no-cache"),
                (":authority", "www.example.com"),
            ],
            164,
        );
    }

    /// C.4.
    #[test]
    fn requests_in_huffman_code() {
        let mut decoder = Decoder::new(4096, 4096);
        assert_example(
            &mut decoder,
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 \
         ff",
            &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")],
            &[(":authority", "www.example.com")],
            57,
        );
        assert_example(
            &mut decoder,
            "8286 84be 5886 a8eb 1064 9cbf",
            &[
                (":method", "GET"),
                (":scheme", "http"),
                (":path", "/"),
                (":authority", "www.example.com"),
                ("cache-control", "no-cache"),
            ],
            &[("cache-control", "no-cache"), (":authority", "www.example.com")],
            110,
        );
        assert_example(
            &mut decoder,
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 \
         a849 e95b b8e8 b4bf",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":path", "/index.html"),
                (":authority", "www.example.com"),
                ("custom-key", "custom-value"),
            ],
            &[
                ("custom-key", "custom-value"),
                ("cache-control", "no-cache"),
                (":authority", "www.example.com"),
            ],
            164,
        );
    }

    /// C.5.
    #[test]
    fn answers_as_they_are() {
        let mut decoder = Decoder::new(256, 4096);
        assert_example(
            &mut decoder,
            "4803 3330 3258 0770 7269 7661 7465 611d \
         4d6f 6e2c 2032 3120 4f63 7420 3230 3133 \
         2032 303a 3133 3a32 3120 474d 546e 1768 \
         7474 7073 3a2f 2f77 7777 2e65 7861 6d70 \
         6c65 2e63 6f6d",
            &[
                (":status", "302"),
                ("cache-control", "private"),
                ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
                ("location", "https://www.example.com"),
            ],
            &[
                ("location", "https://www.example.com"),
                ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
                ("cache-control", "private"),
                (":status", "302"),
            ],
            222,
        );
        assert_example(
            &mut decoder,
            "4803 3330 37c1 c0bf",
            &[
                (":status", "307"),
                ("cache-control", "private"),
                ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
                ("location", "https://www.example.com"),
            ],
            &[
                (":status", "307"),
                ("location", "https://www.example.com"),
                ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
                ("cache-control", "private"),
            ],
            222,
        );
        assert_example(
            &mut decoder,
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 \
         3230 3133 2032 303a 3133 3a32 3220 474d \
         54c0 5a04 677a 6970 7738 666f 6f3d 4153 \
         444a 4b48 514b 425a 584f 5157 454f 5049 \
         5541 5851 5745 4f49 553b 206d 6178 2d61 \
         6765 3d33 3630 303b 2076 6572 7369 6f6e \
         3d31",
            &[
                (":status", "200"),
                ("cache-control", "private"),
                ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
                ("location", "https://www.example.com"),
                ("content-encoding", "gzip"),
                ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
            ],
            &[
                ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
                ("content-encoding", "gzip"),
                ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
            ],
            215,
        );
    }

    /// C.6.
    #[test]
    fn answers_in_huffman_code() {
        let mut decoder = Decoder::new(256, 4096);
        assert_example(
            &mut decoder,
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe \
         9410 54d4 44a8 2005 9504 0b81 66e0 82a6 \
         2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 \
         e9ae 82ae 43d3",
            &[
                (":status", "302"),
                ("cache-control", "private"),
                ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
                ("location", "https://www.example.com"),
            ],
            &[
                ("location", "https://www.example.com"),
                ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
                ("cache-control", "private"),
                (":status", "302"),
            ],
            222,
        );
        assert_example(
            &mut decoder,
            "4883 640e ffc1 c0bf",
            &[
                (":status", "307"),
                ("cache-control", "private"),
                ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
                ("location", "https://www.example.com"),
            ],
            &[
                (":status", "307"),
                ("location", "https://www.example.com"),
                ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
                ("cache-control", "private"),
            ],
            222,
        );
        assert_example(
            &mut decoder,
            "88c1 6196 d07a be94 1054 d444 a820 0595 \
         040b 8166 e084 a62d 1bff c05a 839b d9ab \
         77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b \
         3960 d5af 2708 7f36 72c1 ab27 0fb5 291f \
         9587 3160 65c0 03ed 4ee5 b106 3d50 07",
            &[
                (":status", "200"),
                ("cache-control", "private"),
                ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
                ("location", "https://www.example.com"),
                ("content-encoding", "gzip"),
                ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
            ],
            &[
                ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
                ("content-encoding", "gzip"),
                ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
            ],
            215,
        );
    }
}

mod fields {
    //! Each representation of a field (RFC 7541, section 6), and the static table (appendix A).

    use super::*;

    /// The fields as the RFC lists them.
    const STATIC_TABLE: &str = "
1 :authority
2 :method GET
3 :method POST
4 :path /
5 :path /index.html
6 :scheme http
7 :scheme https
8 :status 200
9 :status 204
10 :status 206
11 :status 304
12 :status 400
13 :status 404
14 :status 500
15 accept-charset
16 accept-encoding gzip, deflate
17 accept-language
18 accept-ranges
19 accept
20 access-control-allow-origin
21 age
22 allow
23 authorization
24 cache-control
25 content-disposition
26 content-encoding
27 content-language
28 content-length
29 content-location
30 content-range
31 content-type
32 cookie
33 date
34 etag
35 expect
36 expires
37 from
38 host
39 if-match
40 if-modified-since
41 if-none-match
42 if-range
43 if-unmodified-since
44 last-modified
45 link
46 location
47 max-forwards
48 proxy-authenticate
49 proxy-authorization
50 range
51 referer
52 refresh
53 retry-after
54 server
55 set-cookie
56 strict-transport-security
57 transfer-encoding
58 user-agent
59 vary
60 via
61 www-authenticate
";

    #[test]
    fn every_index_of_the_static_table_is_its_field() {
        let listed: Vec<_> = STATIC_TABLE.trim().lines().collect();
        assert_eq!(listed.len(), 61);
        for (index, line) in (1_u8..).zip(listed) {
            let mut words = line.splitn(3, ' ');
            assert_eq!(words.next(), Some(index.to_string().as_str()));
            let (name, value) = (words.next().unwrap(), words.next().unwrap_or_default());
            let expected = List::Fields(fields(&[(name, value)]));
            assert_eq!(decoder().decode(&[0x80 | index]), Ok(expected), "{line}");
        }
    }

    #[test]
    fn every_name_of_the_static_table_can_be_referred_to() {
        for (index, line) in (1..).zip(STATIC_TABLE.trim().lines()) {
            let name = line.split(' ').nth(1).unwrap();
            for (pattern, prefix) in [(0x40, 6), (0x00, 4), (0x10, 4)] {
                let mut block = Vec::new();
                put_integer(index, prefix, pattern, &mut block);
                block.extend(b"\x01v");
                let expected = List::Fields(fields(&[(name, "v")]));
                assert_eq!(decoder().decode(&block), Ok(expected), "{pattern:#x} {line}");
            }
        }
    }

    #[test]
    fn an_empty_block_is_an_empty_list() {
        assert_decodes(&mut decoder(), "", &[]);
    }

    #[test]
    fn fields_keep_their_order_and_may_be_repeated() {
        let twice = [(":status", "200"), (":method", "GET"), (":status", "200")];
        assert_decodes(&mut decoder(), "88 82 88", &twice);
    }

    #[test]
    fn an_indexed_field_of_the_dynamic_table_is_found_behind_the_static_one() {
        let mut decoder = decoder();
        assert_decodes(&mut decoder, "40 01 61 01 78  40 01 62 01 79", &[("a", "x"), ("b", "y")]);
        assert_decodes(&mut decoder, "be bf", &[("b", "y"), ("a", "x")]);
    }

    #[test]
    fn an_index_of_more_than_one_byte_is_found() {
        let mut decoder = decoder();
        for value in b'!'..=b'z' {
            assert!(decoder.decode(&indexing(b"n", &[value])).is_ok());
        }
        // index 127, the 66th entry, which does not fit into seven bits
        assert_decodes(&mut decoder, "ff 00", &[("n", "9")]);
        // index 64, the third entry, which fits neither into six bits nor into four
        assert_decodes(&mut decoder, "7f 01 01 21", &[("n", "!")]);
        assert_decodes(&mut decoder, "0f 31 01 22", &[("n", "\"")]);
        assert_decodes(&mut decoder, "1f 31 01 23", &[("n", "#")]);
    }

    #[test]
    fn a_literal_with_indexing_becomes_the_newest_entry() {
        let mut decoder = decoder();
        assert_decodes(&mut decoder, "40 01 61 01 78", &[("a", "x")]);
        assert_decodes(&mut decoder, "7e 01 79", &[("a", "y")]);
        assert_decodes(&mut decoder, "48 03 333037", &[(":status", "307")]);
        assert_entries(&decoder, &[(":status", "307"), ("a", "y"), ("a", "x")]);
    }

    #[test]
    fn a_literal_without_indexing_leaves_the_table_alone() {
        let mut decoder = decoder();
        assert_decodes(&mut decoder, "40 01 61 01 78", &[("a", "x")]);
        assert_decodes(&mut decoder, "00 01 62 01 79", &[("b", "y")]);
        assert_decodes(&mut decoder, "08 01 39", &[(":status", "9")]);
        assert_decodes(&mut decoder, "0f 2f 01 7a", &[("a", "z")]);
        assert_entries(&decoder, &[("a", "x")]);
    }

    #[test]
    fn a_literal_that_is_never_indexed_leaves_the_table_alone() {
        let mut decoder = decoder();
        assert_decodes(&mut decoder, "40 01 61 01 78", &[("a", "x")]);
        assert_decodes(&mut decoder, "10 01 62 01 79", &[("b", "y")]);
        assert_decodes(&mut decoder, "18 01 39", &[(":status", "9")]);
        assert_decodes(&mut decoder, "1f 2f 01 7a", &[("a", "z")]);
        assert_entries(&decoder, &[("a", "x")]);
    }

    #[test]
    fn names_and_values_may_be_empty_or_any_bytes() {
        let mut decoder = decoder();
        assert_decodes(&mut decoder, "00 00 00", &[("", "")]);
        assert_decodes(&mut decoder, "40 00 00", &[("", "")]);
        let any = Ok(List::Fields(vec![field(&[0x00, 0xff], &[0x0a, 0x80])]));
        assert_eq!(decoder.decode(&hex("00 02 00ff 02 0a80")), any);
    }

    #[test]
    fn a_name_may_repeat_one_of_the_static_table() {
        let mut decoder = decoder();
        assert_decodes(&mut decoder, "40 07 3a737461747573 03 323030", &[(":status", "200")]);
        assert_entries(&decoder, &[(":status", "200")]);
    }
}

mod integers {
    //! RFC 7541, section 5.1.

    use proptest::prelude::*;

    use super::take_integer;
    use super::*;

    fn taken(block: &[u8], prefix: u32) -> Result<(usize, usize), Malformed> {
        let mut rest = block;
        let value = take_integer(&mut rest, prefix)?;
        Ok((value, block.len() - rest.len()))
    }

    fn written(value: usize, prefix: u32, pattern: u8) -> Vec<u8> {
        let mut block = Vec::new();
        put_integer(value, prefix, pattern, &mut block);
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
}

mod malformed {
    //! Every rule that a block can break, with its message.

    use super::*;

    #[track_caller]
    fn assert_malformed(block: &str, why: &'static str) {
        // An entry, so that the dynamic table is not empty.
        let mut decoder = decoder();
        assert!(decoder.decode(&indexing(b"n", b"v")).is_ok());
        assert_eq!(decoder.decode(&hex(block)), Err(Malformed(why)), "{block}");
    }

    #[test]
    fn index_zero() {
        assert_malformed("80", "index 0 is not a field");
        assert_malformed("82 80", "index 0 is not a field");
    }

    #[test]
    fn an_index_beyond_the_tables() {
        // Index 63, in every representation.
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
        for block in
            ["ff 80 80 80 80 80 00", "3f 80 80 80 80 80 80 80 80 80 80 01", "00 ff 80 80 80 80 80 00"]
        {
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
        for block in
            ["00 01", "40 02 61", "48 03 3230", "00 01 61 01", "10 01 61 82 07", "00 7f ff ff ff ff 0e"]
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

    /// A block that is cut off between two fields cannot be told from a shorter one.
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

    /// Errors are found even after the list has become too long to be kept.
    #[test]
    fn a_list_that_is_too_long_may_be_malformed_too() {
        let mut decoder = Decoder::new(TABLE_LIMIT, 10);
        assert_eq!(decoder.decode(&hex("82")), Ok(List::TooLong));
        assert_eq!(decoder.decode(&hex("82 80")), Err(Malformed("index 0 is not a field")));
        assert_eq!(
            decoder.decode(&hex("82 00 81 00 00")),
            Err(Malformed("the padding of a string is not all ones"))
        );
    }
}

mod random {
    //! Property tests against a random encoder that uses all of HPACK, and against random bytes.

    use proptest::prelude::*;

    use super::*;

    /// Small table, so that entries are evicted often.
    const SMALL_TABLE: usize = 200;

    /// Encoder written from the RFC. It shares only the static table with the code under test.
    struct Reference {
        /// Newest first.
        entries: Vec<Field>,
        max_size: usize,
        block: Vec<u8>,
    }

    #[derive(Debug, Clone)]
    struct FieldSpec {
        field: Field,
        how: How,
        /// True to encode the name as a string even if the tables contain the name.
        spells_name: bool,
        huffman_name: bool,
        huffman_value: bool,
        /// Selects one of the indexes that fit.
        pick: prop::sample::Index,
    }

    #[derive(Debug, Clone, Copy)]
    enum How {
        Indexed,
        Indexing,
        WithoutIndexing,
        NeverIndexed,
    }

    impl Reference {
        fn new() -> Self {
            Self { entries: Vec::new(), max_size: SMALL_TABLE, block: Vec::new() }
        }

        fn encode(&mut self, updates: &[usize], specs: &[FieldSpec]) -> Vec<u8> {
            for size in updates {
                self.integer(*size, 5, 0x20);
                self.max_size = *size;
                self.evict(*size);
            }
            for spec in specs {
                self.field(spec);
            }
            std::mem::take(&mut self.block)
        }

        fn field(&mut self, spec: &FieldSpec) {
            let (prefix, pattern) = match spec.how {
                How::Indexed => match self.index(spec, |known| *known == spec.field) {
                    Some(index) => return self.integer(index, 7, 0x80),
                    None => (4, 0x00),
                },
                How::Indexing => (6, 0x40),
                How::WithoutIndexing => (4, 0x00),
                How::NeverIndexed => (4, 0x10),
            };
            let index = self.index(spec, |known| known.name == spec.field.name).filter(|_| !spec.spells_name);
            self.integer(index.unwrap_or(0), prefix, pattern);
            if index.is_none() {
                self.string(&spec.field.name, spec.huffman_name);
            }
            self.string(&spec.field.value, spec.huffman_value);
            if matches!(spec.how, How::Indexing) {
                let size = size(&spec.field);
                self.evict(self.max_size.saturating_sub(size));
                if size <= self.max_size {
                    self.entries.insert(0, spec.field.clone());
                }
            }
        }

        /// Picks an index whose field satisfies `fits`.
        fn index(&self, spec: &FieldSpec, fits: impl Fn(&Field) -> bool) -> Option<usize> {
            let known = fields(&STATIC_FIELDS);
            let all = known.iter().chain(&self.entries).zip(1..);
            let fitting: Vec<usize> = all.filter(|(field, _)| fits(field)).map(|(_, index)| index).collect();
            (!fitting.is_empty()).then(|| *spec.pick.get(&fitting))
        }

        fn evict(&mut self, most: usize) {
            while self.entries.iter().map(size).sum::<usize>() > most {
                self.entries.pop();
            }
        }

        fn string(&mut self, text: &[u8], is_huffman: bool) {
            let encoded = if is_huffman { codes::encoded(text) } else { text.to_vec() };
            self.integer(encoded.len(), 7, if is_huffman { 0x80 } else { 0 });
            self.block.extend(encoded);
        }

        /// Encodes an integer as the pseudocode of RFC 7541, section 5.1, does.
        fn integer(&mut self, mut value: usize, prefix: u32, pattern: u8) {
            let most = 2_usize.pow(prefix) - 1;
            if value < most {
                return self.block.push(pattern + value as u8);
            }
            self.block.push(pattern + most as u8);
            value -= most;
            while value >= 128 {
                self.block.push((value % 128 + 128) as u8);
                value /= 128;
            }
            self.block.push(value as u8);
        }
    }

    fn spec() -> impl Strategy<Value = FieldSpec> {
        // Few names and values, so that they repeat.
        let name = prop_oneof![
            3 => prop::sample::select(vec!["a", "b", "grpc-status", "grpc-message", "a-longer-name-than-others"])
                .prop_map(|name| name.as_bytes().to_vec()),
            2 => (0..STATIC_FIELDS.len()).prop_map(|place| STATIC_FIELDS[place].0.as_bytes().to_vec()),
            1 => prop::collection::vec(any::<u8>(), 0..200),
        ];
        let value = prop_oneof![
            3 => prop::sample::select(vec!["", "0", "1", "GET", "200", "/", "application/grpc"])
                .prop_map(|value| value.as_bytes().to_vec()),
            1 => prop::collection::vec(any::<u8>(), 0..200),
        ];
        let how = prop::sample::select(vec![
            How::Indexed,
            How::Indexed,
            How::Indexing,
            How::Indexing,
            How::WithoutIndexing,
            How::NeverIndexed,
        ]);
        (name, value, how, any::<[bool; 3]>(), any::<prop::sample::Index>()).prop_map(
            |(name, value, how, [spells_name, huffman_name, huffman_value], pick)| {
                let field = Field { name, value };
                FieldSpec { field, how, spells_name, huffman_name, huffman_value, pick }
            },
        )
    }

    fn blocks() -> impl Strategy<Value = Vec<(Vec<usize>, Vec<FieldSpec>)>> {
        let updates = prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(0..=SMALL_TABLE, 1..3)];
        prop::collection::vec((updates, prop::collection::vec(spec(), 0..12)), 1..8)
    }

    /// Checks that the decoder has kept its limits.
    fn assert_bounds(decoder: &Decoder, list: &List, list_limit: usize) {
        if let List::Fields(fields) = list {
            assert!(fields.iter().map(size).sum::<usize>() <= list_limit);
            let kept =
                fields.iter().map(|field| field.name.capacity() + field.value.capacity()).sum::<usize>();
            assert!(kept <= list_limit, "{kept} > {list_limit}");
        }
        assert!(decoder.table.max_size <= SMALL_TABLE);
        let entries = entries(decoder);
        assert!(entries.len() <= SMALL_TABLE / 32);
        assert!(decoder.table.entries.iter().all(|entry| entry.value.capacity() <= SMALL_TABLE));
    }

    proptest! {
        #[test]
        fn what_an_inventive_encoder_writes_is_read(blocks in blocks(), list_limit in 100_usize..5000) {
            let mut reference = Reference::new();
            let mut decoder = Decoder::new(SMALL_TABLE, list_limit);
            for (updates, specs) in blocks {
                let block = reference.encode(&updates, &specs);
                let sent: Vec<Field> = specs.into_iter().map(|spec| spec.field).collect();
                let is_too_long = sent.iter().map(size).sum::<usize>() > list_limit;
                let expected = if is_too_long { List::TooLong } else { List::Fields(sent) };
                let list = decoder.decode(&block).map_err(|Malformed(why)| TestCaseError::fail(why))?;
                assert_bounds(&decoder, &list, list_limit);
                prop_assert_eq!(list, expected);
                prop_assert_eq!(entries(&decoder), reference.entries.clone());
                prop_assert_eq!(decoder.table.max_size, reference.max_size);
            }
        }

        #[test]
        fn any_bytes_stay_within_the_limits(
            blocks in prop::collection::vec(any::<Vec<u8>>(), 1..8),
            list_limit in 0_usize..2000,
        ) {
            let mut decoder = Decoder::new(SMALL_TABLE, list_limit);
            for block in blocks {
                let Ok(list) = decoder.decode(&block) else { break };
                assert_bounds(&decoder, &list, list_limit);
            }
        }

        /// Nearly valid blocks reach more code than random bytes.
        #[test]
        fn changed_blocks_stay_within_the_limits(
            blocks in blocks(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            list_limit in 0_usize..2000,
        ) {
            let mut reference = Reference::new();
            let mut decoder = Decoder::new(SMALL_TABLE, list_limit);
            for (updates, specs) in blocks {
                let mut block = reference.encode(&updates, &specs);
                for (place, byte) in &changes {
                    if !block.is_empty() {
                        let place = place.index(block.len());
                        block[place] = *byte;
                    }
                }
                let Ok(list) = decoder.decode(&block) else { break };
                assert_bounds(&decoder, &list, list_limit);
            }
        }
    }
}

mod strings {
    //! RFC 7541, section 5.2 and appendix B.

    use proptest::prelude::*;

    use super::codes::{Bits, CODES, encoded};
    use super::*;

    /// Returns a Huffman-coded string with its length in front.
    fn huffman(encoded: &[u8]) -> Vec<u8> {
        let mut block = Vec::new();
        put_integer(encoded.len(), 7, 0x80, &mut block);
        block.extend_from_slice(encoded);
        block
    }

    /// Returns the string and the number of bytes after it.
    fn taken(block: &[u8]) -> Result<(Vec<u8>, usize), Malformed> {
        let mut rest = block;
        let text = take_string(&mut rest)?;
        Ok((text, rest.len()))
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
            // each symbol alone, between others, and at every bit offset in a byte
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
        // combinations of codes of 8, 7, 6 and 5 bits, which leave every possible length of padding
        for (text, padding) in
            [("&", 0), (":", 1), ("b", 2), ("0", 3), ("bb", 4), ("000", 1), ("00", 6), ("00b", 0), ("0bb", 7)]
        {
            let bits: usize = text.bytes().map(|byte| CODES[usize::from(byte)].1).sum();
            assert_eq!((8 - bits % 8) % 8, padding, "{text}");
            assert_eq!(
                taken(&huffman(&encoded(text.as_bytes()))),
                Ok((text.as_bytes().to_vec(), 0)),
                "{text}"
            );
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

        /// Each string has exactly one Huffman encoding.
        #[test]
        fn what_was_read_would_be_encoded_so(bytes: Vec<u8>) {
            if let Ok((text, _)) = taken(&huffman(&bytes)) {
                prop_assert_eq!(encoded(&text), bytes);
            }
        }
    }
}

mod table {
    //! Size of the table and eviction (RFC 7541, section 4).

    use std::sync::Arc;

    use super::*;

    /// Returns a decoder whose table is filled by `a: 1`, `b: 2` and `c: 3`, from the oldest to the newest.
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
        assert_decodes(
            &mut decoder,
            "41 8c f1e3 c2e5 f23a 6ba0 ab90 f4ff",
            &[(":authority", "www.example.com")],
        );
        assert_eq!(decoder.table.size, 10 + 15 + 32);
    }

    #[test]
    fn the_oldest_entries_make_room_for_a_new_one() {
        let mut decoder = full();
        assert!(decoder.decode(&indexing(b"d", b"4")).is_ok());
        assert_entries(&decoder, &[("d", "4"), ("c", "3"), ("b", "2")]);
        // one byte more than the eviction of one entry frees
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
        // Later blocks are not affected.
        assert!(decoder.decode(&indexing(b"d", b"4")).is_ok());
        assert_entries(&decoder, &[("d", "4")]);
    }

    #[test]
    fn a_new_entry_may_have_the_name_of_one_that_it_evicts() {
        let mut decoder = full();
        // Index 64 is `a`, the oldest entry, which must be evicted.
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
        // 68 bytes, room for exactly two entries
        assert_decodes(&mut decoder, "3f 25", &[]);
        assert_entries(&decoder, &[("c", "3"), ("b", "2")]);
        // 67 bytes
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
        // the size is 34 bytes, room for one entry
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
        assert_eq!(
            decoder.decode(&hex("3f e2 1f")),
            Err(Malformed("a table size update is above the limit"))
        );
    }

    #[test]
    fn a_repeated_name_is_not_copied() {
        let mut decoder = decoder();
        assert!(decoder.decode(&[indexing(&[b'n'; 1000], b"1"), hex("7e 01 32")].concat()).is_ok());
        let [newest, oldest] = [&decoder.table.entries[0], &decoder.table.entries[1]];
        assert!(Arc::ptr_eq(&newest.name, &oldest.name));
    }
}
