//! Invariants of every sequence of header blocks.

use crate::http2::hpack::{Decoder, Field, List, Malformed, encode, encode_sensitive, encode_size_update};

const TABLE_LIMITS: [usize; 4] = [4096, 0, 100, 500];
const LIST_LIMITS: [usize; 4] = [32 * 1024, 0, 200, 1000];
/// Larger than any input can decode to.
const GENEROUS: usize = 1 << 30;
/// The first index of the dynamic table.
const FIRST_ENTRY: usize = 62;

/// An input is a byte that selects the limits, followed by blocks, each preceded by its length in two bytes,
/// big-endian.
pub fn check(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    let table_limit = TABLE_LIMITS[usize::from(choice & 3)];
    let list_limit = LIST_LIMITS[usize::from(choice >> 2 & 3)];
    let mut tight = Decoder::new(table_limit, list_limit);
    let mut twin = Decoder::new(table_limit, list_limit);
    // The limit of a list decides only whether its fields are kept. Errors and the table must be the same.
    let mut generous = Decoder::new(table_limit, GENEROUS);
    for block in blocks(rest) {
        let list = tight.decode(block);
        assert_eq!(list, twin.decode(block), "decoded twice, told differently");
        let whole = generous.decode(block);
        match (&list, &whole) {
            (Err(why), Err(same)) => assert_eq!(why, same),
            (Ok(List::TooLong), Ok(List::Fields(fields))) => assert!(size(fields) > list_limit),
            (Ok(List::Fields(_)), _) => assert_eq!(list, whole),
            _ => panic!("{list:?}, but {whole:?}"),
        }
        if let Err(Malformed(why)) = list {
            assert!(!why.is_empty());
            return;
        }
        if let Ok(List::Fields(fields)) = list {
            check_fields(&fields, list_limit);
        }
        check_tables(&mut tight, &mut generous, table_limit, list_limit);
    }
}

fn blocks(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes(*length)).min(behind.len());
        let (block, behind) = behind.split_at(length);
        rest = behind;
        Some(block)
    })
}

/// Asserts that fields are within the limit, and are equal after encoding and decoding.
fn check_fields(fields: &[Field], list_limit: usize) {
    assert!(size(fields) <= list_limit, "{} > {list_limit}", size(fields));
    let kept: usize = fields.iter().map(|field| field.name.capacity() + field.value.capacity()).sum();
    assert!(kept <= list_limit, "keeps {kept}, more than {list_limit}");
    // The encoder accepts only names that are UTF-8.
    let is_text = |field: &&Field| std::str::from_utf8(&field.name).is_ok();
    let fields: Vec<Field> = fields.iter().filter(is_text).cloned().collect();
    for write in [encode, encode_sensitive] {
        let mut block = Vec::new();
        encode_size_update(0, &mut block);
        for field in &fields {
            write(std::str::from_utf8(&field.name).expect("it is text"), &field.value, &mut block);
        }
        let mut decoder = Decoder::new(0, list_limit);
        assert_eq!(decoder.decode(&block), Ok(List::Fields(fields.clone())), "written as {block:?}");
    }
}

/// Asserts that both tables have the same entries, within their limit.
fn check_tables(tight: &mut Decoder, generous: &mut Decoder, table_limit: usize, list_limit: usize) {
    let mut table_size = 0;
    for index in FIRST_ENTRY.. {
        let block = reference(index);
        match (tight.decode(&block), generous.decode(&block)) {
            (Ok(List::Fields(entry)), Ok(List::Fields(same))) => {
                assert_eq!(entry, same);
                table_size += size(&entry);
            }
            (Ok(List::TooLong), Ok(List::Fields(entry))) => {
                assert!(size(&entry) > list_limit);
                table_size += size(&entry);
            }
            (Err(why), Err(same)) => {
                assert_eq!(why, same);
                break;
            }
            (entry, other) => panic!("{index} is {entry:?}, but {other:?}"),
        }
    }
    assert!(table_size <= table_limit, "{table_size} > {table_limit}");
}

/// A field that consists only of an index.
fn reference(index: usize) -> Vec<u8> {
    match index.checked_sub(127) {
        None => vec![0x80 | index as u8],
        // The prefix 127, and the rest in two bytes of seven bits each: enough for every index of these tables.
        Some(rest) => vec![0xff, rest as u8 | 0x80, (rest >> 7) as u8],
    }
}

/// Returns the size of a list of fields, as HTTP/2 counts it.
fn size(fields: &[Field]) -> usize {
    fields.iter().map(|field| field.name.len() + field.value.len() + 32).sum()
}
