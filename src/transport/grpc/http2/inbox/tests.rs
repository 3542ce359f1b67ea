use proptest::prelude::*;

use super::super::frame::{Code, write_head};
use super::*;

/// All frames that are whole, until a fault if there is one.
fn take_all(inbox: &mut Inbox) -> (Vec<(Head, Vec<u8>)>, Option<Fault>) {
    let mut frames = Vec::new();
    loop {
        match inbox.take() {
            Ok(Some((head, payload))) => frames.push((head, payload.to_vec())),
            Ok(None) => return (frames, None),
            Err(fault) => return (frames, Some(fault)),
        }
    }
}

fn written(frames: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, payload) in frames {
        write_head(*kind, 0, 1, payload.len(), &mut bytes);
        bytes.extend_from_slice(payload);
    }
    bytes
}

#[test]
fn a_frame_comes_out_when_its_last_byte_came_in() {
    let bytes = written(&[(6, b"standing".to_vec())]);
    let mut inbox = Inbox::default();
    for byte in &bytes[..bytes.len() - 1] {
        inbox.push(&[*byte]);
        assert_eq!(inbox.take(), Ok(None));
    }
    inbox.push(&bytes[bytes.len() - 1..]);
    assert_eq!(inbox.take().map(|frame| frame.map(|(_, payload)| payload)), Ok(Some(&b"standing"[..])));
    assert_eq!(inbox.take(), Ok(None));
    assert!(inbox.waiting().is_empty());
}

#[test]
fn a_frame_that_is_too_long_is_a_fault_before_it_comes() {
    let mut head = Vec::new();
    write_head(0, 0, 1, LEAST_MAX_FRAME + 1, &mut head);
    let mut inbox = Inbox::default();
    inbox.push(&head);
    assert_eq!(inbox.take().map_err(|fault| fault.code), Err(Code::FRAME_SIZE));

    let longest = written(&[(0, vec![7; LEAST_MAX_FRAME])]);
    let mut inbox = Inbox::default();
    inbox.push(&longest);
    assert!(inbox.take().unwrap().is_some(), "as long as it may be");
}

#[test]
fn what_was_taken_out_is_forgotten() {
    let mut inbox = Inbox::default();
    let bytes = written(&[(0, vec![7; LEAST_MAX_FRAME])]);
    for _ in 0..100 {
        inbox.push(&bytes);
        assert_eq!(take_all(&mut inbox).0.len(), 1);
    }
    assert!(inbox.bytes.capacity() <= 4 * bytes.len(), "{} bytes are held", inbox.bytes.capacity());
}

proptest! {
    #[test]
    fn however_bytes_are_split_the_frames_are_the_same(
        frames in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)), 0..10),
        rest in prop::collection::vec(any::<u8>(), 0..30),
        cuts in prop::collection::vec(1usize..20, 1..100),
    ) {
        let mut bytes = written(&frames);
        bytes.extend_from_slice(&rest);
        let mut whole = Inbox::default();
        whole.push(&bytes);
        let expected = take_all(&mut whole);
        prop_assert!(expected.0.len() >= frames.len());

        let mut pieces = Inbox::default();
        let (mut taken, mut fault) = (Vec::new(), None);
        let mut left = bytes.as_slice();
        for cut in cuts.iter().cycle() {
            let (piece, after) = left.split_at(left.len().min(*cut));
            left = after;
            pieces.push(piece);
            let (more, found) = take_all(&mut pieces);
            taken.extend(more);
            fault = found;
            if left.is_empty() || fault.is_some() {
                break;
            }
        }
        prop_assert_eq!((taken, fault), expected);
    }
}
