//! What the server says of a call, well said or not.

use super::*;

#[test]
fn trailers_may_be_all_there_is() {
    let only = [(":status", "200"), ("grpc-status", "14")];
    let end = end_of(Script::greeting().headers(flag::END_STREAM, 1, &only));
    let answer = Answer { status: 200, head: fields(&only), ..Answer::default() };
    assert_eq!(end, Some(End::Answered(answer)));
}

#[test]
fn data_may_end_the_answer() {
    let script = Script::greeting().headers(0, 1, &[(":status", "503")]).data(flag::END_STREAM, 1, b"busy");
    let answer = Answer {
        status: 503,
        head: fields(&[(":status", "503")]),
        body: b"busy".to_vec(),
        ..Answer::default()
    };
    assert_eq!(end_of(script), Some(End::Answered(answer)));
}

#[test]
fn interim_answers_are_passed_over() {
    let script = Script::greeting().headers(0, 1, &[(":status", "100")]).headers(0, 1, &[(":status", "199")]);
    assert_eq!(end_of(script.answer(1)), Some(answered()));
}

#[test]
fn a_block_may_come_in_pieces_and_padded() {
    let head = block(&[(":status", "200")]);
    let padded = [&[3][..], &head, &[0; 3]].concat();
    let script = Script::greeting()
        .frame(kind::HEADERS, flag::PADDED, 1, &padded)
        .frame(kind::CONTINUATION, 0, 1, &[])
        .frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[])
        .frame(kind::DATA, flag::PADDED, 1, &[2, 0, 0, 0, 0, 0, 9, 9])
        .headers(flag::END_STREAM, 1, &[("grpc-status", "0")]);
    assert_eq!(end_of(script), Some(answered()));
}

#[test]
fn an_answer_that_breaks_a_rule_ends_the_call_and_not_the_connection() {
    for script in [
        Script::greeting().data(0, 1, b"x"),
        Script::greeting().headers(0, 1, &[("grpc-status", "0")]),
        Script::greeting().headers(0, 1, &[(":status", "99")]),
        Script::greeting().headers(0, 1, &[(":status", "2000")]),
        Script::greeting().headers(0, 1, &[(":status", "+20")]),
        Script::greeting().headers(0, 1, &[(":status", "600")]),
        Script::greeting().headers(flag::END_STREAM, 1, &[(":status", "100")]),
        Script::greeting().headers(0, 1, &[(":status", "200")]).headers(0, 1, &[(":status", "200")]),
    ] {
        let mut conn = calling();
        conn.receive(&script.0).unwrap();
        assert_eq!(resets(&written(&mut conn)), [(1, vec![0, 0, 0, 1])], "the server is told");
        // what is said to that is for nobody
        conn.receive(
            &Script::default().data(0, 1, b"x").headers(flag::END_STREAM, 1, &[(":status", "200")]).0,
        )
        .unwrap();
        assert!(matches!(conn.take_end(), Some(End::Malformed(_))));
        assert_eq!(resets(&written(&mut conn)), [], "once");
        begin(&mut conn);
        conn.receive(&Script::default().answer(3).0).unwrap();
        assert_eq!(conn.take_end(), Some(answered()));
    }
}

#[test]
fn header_blocks_have_their_turn() {
    let head = block(&[(":status", "200")]);
    let begun = || Script::greeting().frame(kind::HEADERS, 0, 1, &head);
    for script in [
        begun().data(0, 1, b"x"),
        begun().settings(&[]),
        begun().frame(kind::PING, 0, 0, &[0; 8]),
        begun().frame(kind::HEADERS, 0, 1, &head),
        begun().frame(0x42, 0, 0, &[]),
        begun().frame(kind::CONTINUATION, 0, 3, &head),
        Script::greeting().frame(kind::CONTINUATION, flag::END_HEADERS, 1, &head),
        Script::greeting().headers(0, 1, &[(":status", "200")]).frame(
            kind::CONTINUATION,
            flag::END_HEADERS,
            1,
            &[],
        ),
    ] {
        assert_eq!(code_of(calling().receive(&script.0)), Some(Code::PROTOCOL));
    }
}

#[test]
fn a_block_that_cannot_be_decoded_ends_the_connection() {
    let mut conn = calling();
    let outcome = conn.receive(&Script::greeting().frame(kind::HEADERS, flag::END_HEADERS, 1, &[0x80]).0);
    assert_eq!(code_of(outcome), Some(Code::COMPRESSION));
}

#[test]
fn late_headers_are_decoded_for_the_tables_sake() {
    // literals that become entry 62 of the table
    let indexing = |name: &str, value: &str| {
        let mut block = vec![0x40, name.len() as u8];
        block.extend_from_slice(name.as_bytes());
        block.push(value.len() as u8);
        block.extend_from_slice(value.as_bytes());
        block
    };
    let mut conn = calling();
    conn.receive(&Script::greeting().reset(1, Code::CANCEL).0).unwrap();
    assert_eq!(conn.take_end(), Some(End::Reset(Code::CANCEL)));
    let late = Script::default().frame(kind::HEADERS, flag::END_HEADERS, 1, &indexing("x-late", "words"));
    conn.receive(&late.0).unwrap();
    begin(&mut conn);
    let head = [&block(&[(":status", "200")])[..], &[0x80 | 62]].concat();
    conn.receive(&Script::default().frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 3, &head).0)
        .unwrap();
    let Some(End::Answered(answer)) = conn.take_end() else { panic!("no answer") };
    assert_eq!(answer.head, fields(&[(":status", "200"), ("x-late", "words")]));
}

#[test]
fn a_head_that_is_too_long_ends_the_call_and_not_the_connection() {
    // one entry of 4,000 bytes, named a thousand times over
    let mut bomb = vec![0x40, 1, b'x', 0x7f, 0xa1, 0x1e];
    bomb.extend_from_slice(&[b'x'; 4_000]);
    bomb.extend_from_slice(&[0x80 | 62; 1_000]);
    let mut conn = calling();
    conn.receive(&Script::greeting().frame(kind::HEADERS, flag::END_HEADERS, 1, &bomb).0).unwrap();
    assert!(matches!(conn.take_end(), Some(End::TooLong(_))));
    assert_eq!(resets(&written(&mut conn)), [(1, vec![0, 0, 0, 8])]);
    begin(&mut conn);
    conn.receive(&Script::default().answer(3).0).unwrap();
    assert_eq!(conn.take_end(), Some(answered()));
}

#[test]
fn of_a_long_answer_the_beginning_is_kept_and_the_rest_skipped() {
    let mut conn = calling();
    conn.receive(&Script::greeting().headers(0, 1, &[(":status", "200")]).0).unwrap();
    let piece = Script::default().data(0, 1, &[7; 16_000]).0;
    for _ in 0..100 {
        conn.receive(&piece).unwrap();
    }
    conn.receive(&Script::default().headers(flag::END_STREAM, 1, &[("grpc-status", "0")]).0).unwrap();
    let Some(End::Answered(answer)) = conn.take_end() else { panic!("no answer") };
    assert_eq!(answer.body.len(), 64 << 10);
    assert_eq!(answer.trailers, fields(&[("grpc-status", "0")]));
}

#[test]
fn an_answer_beyond_4_mib_is_broken_off() {
    let mut conn = calling();
    conn.receive(&Script::greeting().headers(0, 1, &[(":status", "200")]).0).unwrap();
    let piece = Script::default().data(0, 1, &[7; 16_384]).0;
    for _ in 0..256 {
        conn.receive(&piece).unwrap();
        assert_eq!(conn.take_end(), None);
    }
    written(&mut conn);
    conn.receive(&piece).unwrap();
    assert!(matches!(conn.take_end(), Some(End::TooLong(_))));
    assert_eq!(resets(&written(&mut conn)), [(1, vec![0, 0, 0, 8])]);
}

#[test]
fn every_byte_of_data_is_given_back_padding_and_late_data_too() {
    let mut conn = calling();
    conn.receive(&Script::greeting().headers(0, 1, &[(":status", "200")]).0).unwrap();
    let (mut received, mut given) = (0, 0);
    let padded = [&[200][..], &[0; 300]].concat();
    for round in 0..2_000 {
        if round == 1_000 {
            conn.receive(&Script::default().reset(1, Code::CANCEL).0).unwrap();
            assert!(conn.take_end().is_some());
        }
        conn.receive(&Script::default().frame(kind::DATA, flag::PADDED, 1, &padded).0).unwrap();
        received += padded.len();
        for frame in written(&mut conn) {
            if (frame.kind, frame.stream) == (kind::WINDOW_UPDATE, 0) {
                given += frame.payload.iter().fold(0, |given, byte| given << 8 | usize::from(*byte));
            }
        }
        assert!(received - given < 32_768, "round {round}: {received} came, {given} were given back");
    }
}
