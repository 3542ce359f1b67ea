//! Any frames, in any pieces.

use proptest::prelude::*;

use super::*;

/// Frames that make sense more often than random bytes do.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![0u32..4, Just(65_535), Just(LARGEST_STREAM), any::<u32>()];
    let stream = prop_oneof![4 => Just(1u32), 1 => 0u32..4];
    let status = prop_oneof![Just("200"), Just("100"), Just("x")];
    prop_oneof![
        (stream.clone(), any::<bool>(), status).prop_map(|(stream, ends, status)| {
            let flags = if ends { flag::END_STREAM } else { 0 };
            Script::default().headers(flags, stream, &[(":status", status)])
        }),
        (stream.clone(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..30))
            .prop_map(|(stream, flags, content)| Script::default().data(flags & 9, stream, &content)),
        (1u16..8, number.clone()).prop_map(|entry| Script::default().settings(&[entry])),
        (stream.clone(), number.clone())
            .prop_map(|(stream, increment)| Script::default().window_update(stream, increment)),
        (stream.clone(), 0u32..15).prop_map(|(stream, code)| Script::default().reset(stream, Code(code))),
        (stream.clone(), 0u32..15).prop_map(|(last, code)| Script::default().go_away(last, Code(code), b"bye")),
        (0u8..12, any::<u8>(), stream, prop::collection::vec(any::<u8>(), 0..10))
            .prop_map(|(kind, flags, stream, payload)| Script::default().frame(kind, flags, stream, &payload)),
    ]
    .prop_map(|script| script.0)
}

/// What came of it: the ends, the fault, what was said, and whether the connection can be used again.
type Outcome = (Option<End>, Option<Fault>, Vec<u8>, bool, bool);

fn outcome_of<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Outcome {
    let mut conn = calling();
    let (mut end, mut fault) = (None, None);
    for piece in pieces {
        fault = conn.receive(piece).err();
        end = end.or(conn.take_end());
        if fault.is_some() {
            break;
        }
    }
    let said = conn.output().to_vec();
    (end, fault, said, conn.is_open(), conn.is_forsaken())
}

proptest! {
    #[test]
    fn however_bytes_are_split_the_outcome_is_the_same(
        frames in prop::collection::vec(frame(), 0..20),
        cuts in prop::collection::vec(1usize..40, 1..50),
    ) {
        let bytes = [Script::greeting().0, frames.concat()].concat();
        let whole = outcome_of([bytes.as_slice()].into_iter());
        prop_assert_eq!(&outcome_of(bytes.chunks(1)), &whole);
        let mut rest = bytes.as_slice();
        let mut pieces = Vec::new();
        for cut in cuts.iter().cycle() {
            let (piece, after) = rest.split_at(rest.len().min(*cut));
            pieces.push(piece);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(&outcome_of(pieces.into_iter()), &whole);
    }

    #[test]
    fn any_bytes_are_taken_in_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), greets: bool) {
        let greeting = if greets { Script::greeting().0 } else { Vec::new() };
        outcome_of([greeting.as_slice(), &bytes].into_iter());
    }

    #[test]
    fn a_message_goes_out_whole_within_whatever_windows(
        body in prop::collection::vec(any::<u8>(), 0..200),
        is_compressed: bool,
        window in 0u32..30,
        steps in prop::collection::vec((any::<bool>(), 1u32..40), 400),
    ) {
        let pieces: Vec<_> = body.chunks(30).collect();
        let message = Message::new(&pieces, is_compressed);
        let mut conn = Conn::new();
        conn.receive(&Script::greeting().settings(&[(4, window)]).0).expect("it is a greeting");
        conn.start(&[], 0).expect("the head is short");
        let mut frames = Vec::new();
        let (mut initial, mut room) = (i64::from(window), i64::from(window));
        for (changes_settings, bytes) in steps {
            conn.send(&message);
            let now = written(&mut conn);
            let sent = sent_on(&now, 1).0.len() as i64;
            prop_assert!(sent <= room.max(0), "{} bytes went into a window of {}", sent, room);
            room -= sent;
            frames.extend(now);
            if changes_settings {
                conn.receive(&Script::default().settings(&[(4, bytes)]).0).expect("it is in range");
                room += i64::from(bytes) - initial;
                initial = i64::from(bytes);
            } else {
                conn.receive(&Script::default().window_update(1, bytes).0).expect("it is in range");
                room += i64::from(bytes);
            }
        }
        let whole = [&[u8::from(is_compressed)][..], &(body.len() as u32).to_be_bytes(), &body].concat();
        prop_assert_eq!(sent_on(&frames, 1), (whole, true));
    }
}
