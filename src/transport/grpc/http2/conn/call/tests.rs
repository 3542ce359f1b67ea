use proptest::prelude::*;

use super::*;

fn copied(message: &Message<'_>, start: usize, length: usize) -> Vec<u8> {
    let mut out = b"before".to_vec();
    message.copy(start, length, &mut out);
    out.split_off("before".len())
}

#[test]
fn the_prefix_says_how_long_the_rest_is_and_whether_it_is_compressed() {
    assert_eq!(copied(&Message::new(&[], false), 0, 5), [0; 5]);
    let body = vec![7; 0x01_02_03];
    assert_eq!(copied(&Message::new(&[&body], true), 0, 6), [1, 0, 1, 2, 3, 7]);
    assert_eq!(Message::new(&[&body], true).len(), 0x01_02_08);
}

#[test]
fn only_three_digits_are_a_status() {
    let status = |value: &str| {
        status_of(&[
            Field { name: b"status".to_vec(), value: b"500".to_vec() },
            Field { name: b":status".to_vec(), value: value.into() },
        ])
    };
    assert_eq!((status("100"), status("200"), status("999")), (Some(100), Some(200), Some(999)));
    for value in ["", "2", "20", "2000", "020", " 200", "+20", "2x0", "２００"] {
        assert_eq!(status(value), None, "{value:?}");
    }
    assert_eq!(status_of(&[]), None);
}

proptest! {
    #[test]
    fn a_part_of_a_message_is_that_part_of_all_its_bytes(
        body in prop::collection::vec(any::<u8>(), 0..50),
        is_compressed: bool,
        start: prop::sample::Index,
        end: prop::sample::Index,
    ) {
        let pieces: Vec<_> = body.chunks(7).collect();
        let message = Message::new(&pieces, is_compressed);
        let whole = [&[u8::from(is_compressed)][..], &(body.len() as u32).to_be_bytes(), &body].concat();
        prop_assert_eq!(message.len(), whole.len());
        let (start, end) = (start.index(whole.len() + 1), end.index(whole.len() + 1));
        let (start, end) = (start.min(end), start.max(end));
        prop_assert_eq!(copied(&message, start, end - start), &whole[start..end]);
    }
}
