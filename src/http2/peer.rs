//! What one side keeps of what its peer sent: bytes up to a whole frame, a header block up to its end, and settings.

use super::flow_control::INITIAL_WINDOW;
use super::frame::{Code, Fault, HEAD_BYTES, Head, LEAST_MAX_FRAME};

/// Holds less than a frame once everything that is whole was taken out.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    bytes: Vec<u8>,
    /// Where what was not taken out begins.
    start: usize,
}

impl FrameBuffer {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// What has come and was not taken out.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The next frame, if all of it is there. Its length is judged as soon as its head is.
    pub(crate) fn take(&mut self) -> Result<Option<(Head, &[u8])>, Fault> {
        let Some((head, rest)) = self.bytes[self.start..].split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let head = Head::read(head);
        if head.length > LEAST_MAX_FRAME {
            return Err(Fault::size("a frame that is too long"));
        }
        let Some(payload) = rest.get(..head.length) else { return Ok(None) };
        self.start += HEAD_BYTES + head.length;
        Ok(Some((head, payload)))
    }
}

/// A peer that needs more frames than this for a block attacks us. Empty ones count.
const MOST_FRAMES: u32 = 8;
/// The longest block.
pub(crate) const MOST_BYTES: usize = 32 << 10;

/// A block that was begun. Until it ends, nothing else may come.
#[derive(Debug)]
pub(crate) struct HeaderBlock {
    pub(crate) stream: u32,
    pub(crate) ends_stream: bool,
    pub(crate) bytes: Vec<u8>,
    frames: u32,
}

impl HeaderBlock {
    pub(crate) fn begin(stream: u32, ends_stream: bool, piece: &[u8]) -> Self {
        Self { stream, ends_stream, bytes: piece.to_vec(), frames: 1 }
    }

    pub(crate) fn add(&mut self, stream: u32, piece: &[u8]) -> Result<(), Fault> {
        if stream != self.stream {
            return Err(Fault::protocol("a header block that goes on in another stream"));
        }
        self.frames += 1;
        if self.frames > MOST_FRAMES || self.bytes.len() + piece.len() > MOST_BYTES {
            return Err(Fault { code: Code::ENHANCE_YOUR_CALM, what: "a header block without end" });
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct PeerSettings {
    /// Its first settings have come. Calls need not wait for them.
    pub(crate) has_greeted: bool,
    pub(crate) initial_window: u32,
    pub(crate) max_frame: usize,
    pub(crate) max_streams: u32,
    pub(crate) max_header_list: usize,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            has_greeted: false,
            initial_window: INITIAL_WINDOW,
            max_frame: LEAST_MAX_FRAME,
            max_streams: u32::MAX,
            max_header_list: usize::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    mod frame_buffer {
        use proptest::prelude::*;

        use super::super::super::frame::{Code, write_head};
        use super::*;

        /// All frames that are whole, until a fault if there is one.
        fn take_all(inbox: &mut FrameBuffer) -> (Vec<(Head, Vec<u8>)>, Option<Fault>) {
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
            let mut inbox = FrameBuffer::default();
            for byte in &bytes[..bytes.len() - 1] {
                inbox.push(&[*byte]);
                assert_eq!(inbox.take(), Ok(None));
            }
            inbox.push(&bytes[bytes.len() - 1..]);
            assert_eq!(
                inbox.take().map(|frame| frame.map(|(_, payload)| payload)),
                Ok(Some(&b"standing"[..]))
            );
            assert_eq!(inbox.take(), Ok(None));
            assert!(inbox.waiting().is_empty());
        }

        #[test]
        fn a_frame_that_is_too_long_is_a_fault_before_it_comes() {
            let mut head = Vec::new();
            write_head(0, 0, 1, LEAST_MAX_FRAME + 1, &mut head);
            let mut inbox = FrameBuffer::default();
            inbox.push(&head);
            assert_eq!(inbox.take().map_err(|fault| fault.code), Err(Code::FRAME_SIZE));

            let longest = written(&[(0, vec![7; LEAST_MAX_FRAME])]);
            let mut inbox = FrameBuffer::default();
            inbox.push(&longest);
            assert!(inbox.take().unwrap().is_some(), "as long as it may be");
        }

        #[test]
        fn what_was_taken_out_is_forgotten() {
            let mut inbox = FrameBuffer::default();
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
                let mut whole = FrameBuffer::default();
                whole.push(&bytes);
                let expected = take_all(&mut whole);
                prop_assert!(expected.0.len() >= frames.len());

                let mut pieces = FrameBuffer::default();
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
    }

    mod header_block {
        use super::*;

        #[test]
        fn a_block_is_its_pieces_one_after_the_other() {
            let mut block = HeaderBlock::begin(1, true, b"ab");
            block.add(1, b"").unwrap();
            block.add(1, b"cd").unwrap();
            assert_eq!((block.stream, block.ends_stream, block.bytes), (1, true, b"abcd".to_vec()));
        }

        #[test]
        fn a_block_stays_on_its_stream() {
            let mut block = HeaderBlock::begin(3, false, b"ab");
            assert_eq!(block.add(1, b"cd").map_err(|fault| fault.code), Err(Code::PROTOCOL));
        }

        #[test]
        fn the_ninth_frame_of_a_block_is_too_many_though_all_are_empty() {
            let mut block = HeaderBlock::begin(1, false, b"");
            for _ in 1..8 {
                block.add(1, b"").unwrap();
            }
            assert_eq!(block.add(1, b"").map_err(|fault| fault.code), Err(Code::ENHANCE_YOUR_CALM));
        }

        #[test]
        fn a_block_holds_32_kib_and_not_a_byte_more() {
            let half = vec![7; 16 << 10];
            let mut block = HeaderBlock::begin(1, false, &half);
            block.add(1, &half).unwrap();
            block.add(1, b"").unwrap();
            assert_eq!(block.add(1, b"x").map_err(|fault| fault.code), Err(Code::ENHANCE_YOUR_CALM));
            assert_eq!(block.bytes.len(), 32 << 10, "nothing was kept of what is too much");
        }
    }
}
