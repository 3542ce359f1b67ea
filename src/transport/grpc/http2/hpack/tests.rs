mod bounds;
mod codes;
mod encoder;
mod examples;
mod fields;
mod integers;
mod malformed;
mod random;
mod strings;
mod table;

use super::*;

const TABLE_LIMIT: usize = 4096;
const LIST_LIMIT: usize = 32 * 1024;

fn decoder() -> Decoder {
    Decoder::new(TABLE_LIMIT, LIST_LIMIT)
}

/// Bytes in hexadecimal digits; white space is for the eye.
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

/// A literal that is added to the table, with a name of its own.
fn indexing(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut block = vec![0x40];
    for text in [name, value] {
        integer::put(text.len(), 7, 0, &mut block);
        block.extend_from_slice(text);
    }
    block
}

/// The entries of the table, newest first, after a check that it keeps its own rules.
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
