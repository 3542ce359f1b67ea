use proptest::prelude::*;
use prost::encoding::encode_varint;

use super::*;

/// Lengths around those at which a length prefix becomes longer.
const EDGES: [usize; 6] = [126, 127, 128, 16_383, 16_384, 2_097_152];

fn empty(max_len: usize) -> Buffer {
    let mut buffer = Buffer::default();
    buffer.limit(max_len);
    buffer.reset();
    buffer
}

fn fill(buffer: &mut Buffer, byte: u8, count: usize) -> bool {
    buffer.claim(count).map(|mut out| out.put(&vec![byte; count])).is_some()
}

/// Splits a field with a one-byte tag off the front of `bytes`: its tag, its body, and the rest.
fn field(mut bytes: &[u8]) -> (u8, &[u8], &[u8]) {
    let tag = decode_varint(&mut bytes).unwrap();
    let length = decode_varint(&mut bytes).unwrap();
    let (body, rest) = bytes.split_at(length as usize);
    (tag as u8, body, rest)
}

fn framed(count: usize) -> Vec<u8> {
    let mut frame = vec![FRAME_TAG];
    encode_varint(count as u64, &mut frame);
    frame.resize(frame.len() + count, b'x');
    frame
}

#[test]
fn a_nested_message_of_any_length_gets_the_shortest_length_prefix() {
    for count in EDGES.into_iter().flat_map(|edge| [edge - 1, edge, edge + 1]).chain([0, 1]) {
        let mut buffer = empty(usize::MAX);
        fill(&mut buffer, b'<', 3);
        let nested = buffer.open(0x5a).unwrap();
        fill(&mut buffer, b'x', count);
        buffer.close(&nested);
        fill(&mut buffer, b'>', 3);
        let bytes = buffer.bytes(HEADROOM);
        assert_eq!(bytes.len(), 3 + field_len(count) + 3, "{count}");
        let (tag, body, rest) = field(&bytes[3..]);
        assert_eq!((tag, body.len(), rest), (0x5a, count, b">>>".as_slice()));
        assert!(body.iter().all(|byte| *byte == b'x'));
    }
}

#[test]
fn a_frame_of_any_length_gets_the_shortest_length_prefix() {
    for count in EDGES.into_iter().chain([0, 1]) {
        let mut buffer = empty(usize::MAX);
        fill(&mut buffer, b'x', count);
        assert_eq!(buffer.framed().unwrap(), framed(count), "{count}");
    }
}

#[test]
fn a_field_is_taken_out_whole() {
    for count in EDGES.into_iter().chain([0, 1]) {
        let mut buffer = empty(usize::MAX);
        fill(&mut buffer, b'<', 5);
        let at = buffer.position();
        buffer.claim(field_len(count)).unwrap().field(0x4a, &vec![b'x'; count]);
        fill(&mut buffer, b'>', 7);
        assert_eq!(buffer.remove_field(at), field_len(count));
        assert_eq!(buffer.bytes(HEADROOM), b"<<<<<>>>>>>>", "{count}");
    }
}

#[test]
fn a_buffer_grows_to_its_limit_and_not_beyond() {
    for max_len in [HEADROOM, 100, 511, 512, 513, 100_000] {
        let mut buffer = empty(max_len);
        assert!(fill(&mut buffer, b'x', max_len - HEADROOM));
        assert!(buffer.framed().is_some() && buffer.capacity() <= max_len, "{max_len}");
        assert!(!fill(&mut buffer, b'y', 1));
        assert!(buffer.framed().is_none(), "{max_len}");
        assert_eq!(buffer.bytes(HEADROOM).len(), max_len - HEADROOM, "the byte too many left no trace");
    }
}

#[test]
fn a_nested_message_that_outgrows_by_its_length_prefix_is_noticed() {
    let mut buffer = empty(HEADROOM + 2 + 128);
    let nested = buffer.open(0x5a).unwrap();
    assert!(fill(&mut buffer, b'x', 128));
    buffer.close(&nested);
    assert!(buffer.framed().is_none());
}

#[test]
fn a_reset_forgets_that_it_had_outgrown() {
    let mut buffer = empty(10);
    assert!(!fill(&mut buffer, b'x', 100));
    buffer.limit(1000);
    buffer.reset();
    assert!(fill(&mut buffer, b'x', 100) && buffer.framed().is_some());
    assert_eq!(buffer.framed().unwrap(), framed(100));
}

#[test]
fn an_endless_length_is_no_frame() {
    for last in [0x00, 0x01, 0x7f, 0xff] {
        let endless = [vec![FRAME_TAG], vec![0xff; 9], vec![last], vec![0; 40]].concat();
        let bytes = [framed(0), endless].concat();
        assert_eq!(frames(&bytes).collect::<Vec<_>>(), [framed(0)], "{last}");
    }
}

proptest! {
    #[test]
    fn frames_are_given_back_one_by_one(counts in prop::collection::vec(0usize..400, 0..20)) {
        let expected: Vec<_> = counts.into_iter().map(framed).collect();
        let bytes = expected.concat();
        prop_assert_eq!(frames(&bytes).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn frames_of_hostile_bytes_end_without_a_panic(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            prop::collection::vec(prop_oneof![Just(0xff), Just(0x80), Just(0x01), any::<u8>()], 0..40),
        ],
    ) {
        let mut whole = Vec::new();
        for frame in frames(&bytes).take(1000) {
            prop_assert!(frame.len() >= 2);
            whole.extend_from_slice(frame);
        }
        prop_assert!(bytes.starts_with(&whole));
    }

    #[test]
    fn a_cut_frame_is_not_given(count in 0usize..400, cut in 1usize..400) {
        let bytes = [framed(3), framed(count)].concat();
        let kept = bytes.len().saturating_sub(cut).max(5);
        prop_assert_eq!(frames(&bytes[..kept]).collect::<Vec<_>>(), [framed(3)]);
    }
}
