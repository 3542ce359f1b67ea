//! Against an encoder that uses everything HPACK has, at random; and against any bytes.

use proptest::prelude::*;

use super::super::super::tables::STATIC_FIELDS;
use super::*;

/// Small, so that entries leave it all the time.
const SMALL_TABLE: usize = 200;

/// Written from the RFC alone: it shares only the static table with what it tests.
struct Reference {
    /// Newest first.
    entries: Vec<Field>,
    max_size: usize,
    block: Vec<u8>,
}

#[derive(Debug, Clone)]
struct Wish {
    field: Field,
    how: How,
    /// Of two ways to say the same, the longer one.
    spells_name: bool,
    huffman_name: bool,
    huffman_value: bool,
    /// Which of the entries with the right name.
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

    fn encode(&mut self, updates: &[usize], wishes: &[Wish]) -> Vec<u8> {
        for size in updates {
            self.integer(*size, 5, 0x20);
            self.max_size = *size;
            self.evict(*size);
        }
        for wish in wishes {
            self.field(wish);
        }
        std::mem::take(&mut self.block)
    }

    fn field(&mut self, wish: &Wish) {
        let (prefix, pattern) = match wish.how {
            How::Indexed => match self.index(wish, |known| *known == wish.field) {
                Some(index) => return self.integer(index, 7, 0x80),
                None => (4, 0x00),
            },
            How::Indexing => (6, 0x40),
            How::WithoutIndexing => (4, 0x00),
            How::NeverIndexed => (4, 0x10),
        };
        let index = self.index(wish, |known| known.name == wish.field.name).filter(|_| !wish.spells_name);
        self.integer(index.unwrap_or(0), prefix, pattern);
        if index.is_none() {
            self.string(&wish.field.name, wish.huffman_name);
        }
        self.string(&wish.field.value, wish.huffman_value);
        if matches!(wish.how, How::Indexing) {
            let size = size(&wish.field);
            self.evict(self.max_size.saturating_sub(size));
            if size <= self.max_size {
                self.entries.insert(0, wish.field.clone());
            }
        }
    }

    /// One of the indices that fit.
    fn index(&self, wish: &Wish, fits: impl Fn(&Field) -> bool) -> Option<usize> {
        let known = fields(&STATIC_FIELDS);
        let all = known.iter().chain(&self.entries).zip(1..);
        let fitting: Vec<usize> = all.filter(|(field, _)| fits(field)).map(|(_, index)| index).collect();
        (!fitting.is_empty()).then(|| *wish.pick.get(&fitting))
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

    /// The RFC's pseudocode.
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

fn wish() -> impl Strategy<Value = Wish> {
    // few names and values, so that they are met again
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
            Wish { field, how, spells_name, huffman_name, huffman_value, pick }
        },
    )
}

fn blocks() -> impl Strategy<Value = Vec<(Vec<usize>, Vec<Wish>)>> {
    let updates = prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(0..=SMALL_TABLE, 1..3)];
    prop::collection::vec((updates, prop::collection::vec(wish(), 0..12)), 1..8)
}

/// What any bytes may do to a decoder: nothing that goes beyond its limits.
fn assert_bounds(decoder: &Decoder, list: &List, list_limit: usize) {
    if let List::Fields(fields) = list {
        assert!(fields.iter().map(size).sum::<usize>() <= list_limit);
        let kept = fields.iter().map(|field| field.name.capacity() + field.value.capacity()).sum::<usize>();
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
        for (updates, wishes) in blocks {
            let block = reference.encode(&updates, &wishes);
            let sent: Vec<Field> = wishes.into_iter().map(|wish| wish.field).collect();
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

    /// Blocks that are almost right go further than any bytes would.
    #[test]
    fn changed_blocks_stay_within_the_limits(
        blocks in blocks(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        list_limit in 0_usize..2000,
    ) {
        let mut reference = Reference::new();
        let mut decoder = Decoder::new(SMALL_TABLE, list_limit);
        for (updates, wishes) in blocks {
            let mut block = reference.encode(&updates, &wishes);
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
