//! Each representation of a field (RFC 7541, section 6), and the static table (appendix A).

use super::*;

/// As the RFC lists them.
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
            integer::put(index, prefix, pattern, &mut block);
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
    // 127, the 66th entry, does not fit into seven bits
    assert_decodes(&mut decoder, "ff 00", &[("n", "9")]);
    // 64, the third entry, does not fit into six bits, and not into four
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
