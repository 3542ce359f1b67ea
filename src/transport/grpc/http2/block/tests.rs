use super::*;

#[test]
fn a_block_is_its_pieces_one_after_the_other() {
    let mut block = Block::begin(1, true, b"ab");
    block.add(1, b"").unwrap();
    block.add(1, b"cd").unwrap();
    assert_eq!((block.stream, block.ends_stream, block.bytes), (1, true, b"abcd".to_vec()));
}

#[test]
fn a_block_stays_on_its_stream() {
    let mut block = Block::begin(3, false, b"ab");
    assert_eq!(block.add(1, b"cd").map_err(|fault| fault.code), Err(Code::PROTOCOL));
}

#[test]
fn the_ninth_frame_of_a_block_is_too_many_though_all_are_empty() {
    let mut block = Block::begin(1, false, b"");
    for _ in 1..8 {
        block.add(1, b"").unwrap();
    }
    assert_eq!(block.add(1, b"").map_err(|fault| fault.code), Err(Code::ENHANCE_YOUR_CALM));
}

#[test]
fn a_block_holds_32_kib_and_not_a_byte_more() {
    let half = vec![7; 16 << 10];
    let mut block = Block::begin(1, false, &half);
    block.add(1, &half).unwrap();
    block.add(1, b"").unwrap();
    assert_eq!(block.add(1, b"x").map_err(|fault| fault.code), Err(Code::ENHANCE_YOUR_CALM));
    assert_eq!(block.bytes.len(), 32 << 10, "nothing was kept of what is too much");
}
