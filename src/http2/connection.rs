//! The part of a connection that client and server share: frames, header blocks, settings, flow control and flood
//! protection.
//!
//! The owner passes frames to [`Connection::handle`], which answers SETTINGS and PING, updates the connection's
//! windows, and returns the frames that concern streams as [`Event`]s. Output collects in [`Connection::out`].

use super::flow_control::{INITIAL_WINDOW, ReceiveWindow, Window};
use super::frame::{self, Code, Fault, Frame, HEAD_BYTES, Head, MIN_MAX_FRAME, Settings, setting};
use super::hpack::{Decoder, List, Malformed, encode_size_update};

/// Size of our dynamic table: the initial value of RFC 9113, section 6.5.2, which we never change.
pub(crate) const HEADER_TABLE_BYTES: usize = 4096;

/// One side of a connection. It has no `Debug`, because its output may contain credentials.
pub(crate) struct Connection {
    /// Bytes to write to the socket.
    pub(crate) out: Vec<u8>,
    inbox: FrameBuffer,
    decoder: Decoder,
    /// The unfinished header block, if there is one.
    block: Option<HeaderBlock>,
    pub(crate) peer: PeerSettings,
    /// Send window of the connection.
    pub(crate) window: Window,
    receive_window: ReceiveWindow,
    /// Number of frames that [`count_noise`](Self::count_noise) has counted since the owner last set this field to 0.
    pub(crate) noise: u32,
    max_noise: u32,
    /// True if the next header block must set the size of the dynamic table to 0 (RFC 7541, section 4.2): it is the
    /// client's first block, or the peer has sent a new limit of the table.
    pub(crate) owes_size_update: bool,
}

/// A frame that concerns streams.
pub(crate) enum Event<'a> {
    /// `Data`, `Reset`, `GoAway` or `WindowUpdate`. An increment of 0 on a stream is a stream error. An update of
    /// stream 0 was already applied to the connection's window.
    Frame(Frame<'a>),
    /// A complete, decoded header block.
    Headers { stream: u32, list: List, ends_stream: bool },
    /// The effect of SETTINGS: the send windows of all streams shift by the change of SETTINGS_INITIAL_WINDOW_SIZE,
    /// which may be 0.
    WindowsShift(i64),
}

impl Connection {
    /// Creates a connection. `list_limit` limits the decoded fields of a block, `max_noise` the frames without effect.
    pub(crate) fn new(list_limit: usize, max_noise: u32) -> Self {
        Self {
            out: Vec::new(),
            inbox: FrameBuffer::default(),
            decoder: Decoder::new(HEADER_TABLE_BYTES, list_limit),
            block: None,
            peer: PeerSettings::default(),
            window: Window::new(INITIAL_WINDOW),
            receive_window: ReceiveWindow::default(),
            noise: 0,
            max_noise,
            owes_size_update: false,
        }
    }

    /// Takes the received bytes out of the connection, with `bytes` appended. They are moved out, because frames borrow
    /// from them while the connection changes. The owner returns them by [`put_back`](Self::put_back).
    pub(crate) fn take_inbox(&mut self, bytes: &[u8]) -> FrameBuffer {
        let mut inbox = std::mem::take(&mut self.inbox);
        inbox.push(bytes);
        inbox
    }

    pub(crate) fn put_back(&mut self, inbox: FrameBuffer) {
        self.inbox = inbox;
    }

    /// Returns the received bytes after the last frame that was taken. After a fault in the first bytes or in the
    /// length of a frame, they begin with the faulty bytes.
    #[cfg(feature = "probe")]
    pub(crate) fn unread(&self) -> &[u8] {
        self.inbox.waiting()
    }

    /// Handles a frame. Returns an event if the frame concerns streams.
    pub(crate) fn handle<'a>(&mut self, frame: Frame<'a>) -> Result<Option<Event<'a>>, Fault> {
        self.check_turn(&frame)?;
        match frame {
            Frame::Data { content, flow, ends_stream, .. } => {
                if content.is_empty() && !ends_stream {
                    self.count_noise()?;
                }
                // DATA of a closed stream also uses the connection's window (section 5.1). If it were not counted, the
                // two sides' windows would drift apart.
                if let Some(increment) = self.receive_window.receive(flow)? {
                    frame::write_window_update(0, increment, &mut self.out);
                }
                Ok(Some(Event::Frame(frame)))
            }
            Frame::Headers { stream, block, ends_stream, ends_block } => {
                self.block = Some(HeaderBlock::begin(stream, ends_stream, block));
                if ends_block { self.end_block() } else { Ok(None) }
            }
            Frame::Continuation { stream, block, ends_block } => {
                if let Some(begun) = &mut self.block {
                    begun.add(stream, block)?;
                }
                if ends_block { self.end_block() } else { Ok(None) }
            }
            Frame::Settings(settings) => {
                self.count_noise()?;
                self.apply(settings).map(Some)
            }
            Frame::Ping(payload) => {
                frame::write_ping_ack(payload, &mut self.out);
                self.count_noise().map(|()| None)
            }
            Frame::WindowUpdate { stream: 0, increment: 0 } => {
                Err(Fault::protocol("WINDOW_UPDATE with an increment of 0"))
            }
            Frame::WindowUpdate { stream, increment } => {
                if stream == 0 {
                    self.window.shift(i64::from(increment))?;
                }
                Ok(Some(Event::Frame(frame)))
            }
            Frame::Reset { .. } | Frame::GoAway { .. } => {
                // Counted although a reset affects a call, because opening and resetting streams in a loop is a known
                // attack (CVE-2023-44487).
                self.count_noise()?;
                Ok(Some(Event::Frame(frame)))
            }
            Frame::PushPromise => Err(Fault::protocol("PUSH_PROMISE, although push is disabled")),
            Frame::SettingsAck | Frame::PingAck | Frame::Meaningless => self.count_noise().map(|()| None),
        }
    }

    /// Checks the order of frames: SETTINGS first (section 3.4), and only CONTINUATION within a header block (section
    /// 6.10).
    fn check_turn(&mut self, frame: &Frame<'_>) -> Result<(), Fault> {
        self.peer.has_greeted |= matches!(frame, Frame::Settings(_)) && self.block.is_none();
        match (frame, &self.block) {
            _ if !self.peer.has_greeted => Err(Fault::protocol("the first frame is not SETTINGS")),
            (Frame::Continuation { .. }, None) => Err(Fault::protocol("CONTINUATION without HEADERS")),
            (Frame::Continuation { .. }, Some(_)) | (_, None) => Ok(()),
            (_, Some(_)) => Err(Fault::protocol("another frame within a header block")),
        }
    }

    /// Decodes a complete block, even for a closed stream: later blocks depend on its changes to the dynamic table.
    fn end_block<'a>(&mut self) -> Result<Option<Event<'a>>, Fault> {
        let Some(HeaderBlock { stream, ends_stream, bytes, .. }) = self.block.take() else { return Ok(None) };
        let list = self.decoder.decode(&bytes);
        let list = list.map_err(|Malformed(what)| Fault { code: Code::COMPRESSION, what })?;
        Ok(Some(Event::Headers { stream, list, ends_stream }))
    }

    fn apply<'a>(&mut self, settings: Settings<'_>) -> Result<Event<'a>, Fault> {
        let before = i64::from(self.peer.initial_window);
        for setting in settings.each() {
            let (id, value) = setting?;
            match id {
                setting::INITIAL_WINDOW_SIZE => self.peer.initial_window = value,
                // The new value does not matter: our encoder never uses the table.
                setting::HEADER_TABLE_SIZE => self.owes_size_update = true,
                setting::MAX_CONCURRENT_STREAMS => self.peer.max_streams = value,
                setting::MAX_FRAME_SIZE => self.peer.max_frame = value as usize,
                setting::MAX_HEADER_LIST_SIZE => self.peer.max_header_list = value as usize,
                setting::ENABLE_PUSH => self.peer.wants_push = value == 1,
                _ => {}
            }
        }
        // Acknowledged after all values are applied (section 6.5.3).
        frame::write_settings_ack(&mut self.out);
        Ok(Event::WindowsShift(i64::from(self.peer.initial_window) - before))
    }

    /// Counts a frame without effect on a call. Too many of them are a flood, which costs the sender less than the
    /// receiver (section 10.5).
    pub(crate) fn count_noise(&mut self) -> Result<(), Fault> {
        self.noise += 1;
        match self.noise > self.max_noise {
            true => Err(Fault { code: Code::ENHANCE_YOUR_CALM, what: "too many frames without effect" }),
            false => Ok(()),
        }
    }

    /// Begins a header block, with a dynamic table size update if one is due.
    pub(crate) fn begin_block(&mut self) -> Vec<u8> {
        let mut block = Vec::new();
        if std::mem::take(&mut self.owes_size_update) {
            encode_size_update(0, &mut block);
        }
        block
    }

    /// Takes up to `wanted` bytes out of the send windows of a stream and the connection. Returns the number taken.
    pub(crate) fn spend(&mut self, stream: &mut Window, wanted: usize) -> usize {
        let bytes = wanted.min(stream.available()).min(self.window.available());
        // Neither call fails, because both windows have at least `bytes` available.
        let _ = self.window.spend(bytes).and(stream.spend(bytes));
        bytes
    }
}

/// Received bytes, from which complete frames are taken.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    bytes: Vec<u8>,
    /// Start of the bytes that have not been taken yet.
    start: usize,
}

impl FrameBuffer {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        // Compacts once per read, not once per frame.
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the bytes that have not been taken yet.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Takes the next frame if it is complete. A length above the limit is a fault as soon as the frame's head has
    /// arrived.
    pub(crate) fn take(&mut self) -> Result<Option<(Head, &[u8])>, Fault> {
        let Some((head, rest)) = self.bytes[self.start..].split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let head = Head::read(head);
        if head.length > MIN_MAX_FRAME {
            return Err(Fault::size("a frame longer than 16 KiB"));
        }
        let Some(payload) = rest.get(..head.length) else { return Ok(None) };
        self.start += HEAD_BYTES + head.length;
        Ok(Some((head, payload)))
    }
}

/// Maximum frames of a header block, empty ones included. Unlimited CONTINUATION frames are a known attack
/// (CVE-2024-27316 and others).
const MAX_BLOCK_FRAMES: u32 = 8;
/// Maximum bytes of an encoded header block.
pub(crate) const MAX_BLOCK_BYTES: usize = 32 << 10;

/// An unfinished header block. No other frame may arrive before the block ends.
struct HeaderBlock {
    stream: u32,
    ends_stream: bool,
    bytes: Vec<u8>,
    frames: u32,
}

impl HeaderBlock {
    fn begin(stream: u32, ends_stream: bool, piece: &[u8]) -> Self {
        Self { stream, ends_stream, bytes: piece.to_vec(), frames: 1 }
    }

    fn add(&mut self, stream: u32, piece: &[u8]) -> Result<(), Fault> {
        if stream != self.stream {
            return Err(Fault::protocol("CONTINUATION on another stream"));
        }
        self.frames += 1;
        if self.frames > MAX_BLOCK_FRAMES || self.bytes.len() + piece.len() > MAX_BLOCK_BYTES {
            return Err(Fault { code: Code::ENHANCE_YOUR_CALM, what: "a header block that is too long" });
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }
}

/// The peer's settings, at first the defaults of section 6.5.2. Only `wants_push` differs: it is false until the peer
/// sends SETTINGS_ENABLE_PUSH = 1, which a server must not do.
pub(crate) struct PeerSettings {
    /// True once the first SETTINGS have arrived. Calls do not wait for them.
    pub(crate) has_greeted: bool,
    pub(crate) wants_push: bool,
    pub(crate) initial_window: u32,
    pub(crate) max_frame: usize,
    pub(crate) max_streams: u32,
    pub(crate) max_header_list: usize,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            has_greeted: false,
            wants_push: false,
            initial_window: INITIAL_WINDOW,
            max_frame: MIN_MAX_FRAME,
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

        /// Takes all complete frames, up to the first fault.
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
            write_head(0, 0, 1, MIN_MAX_FRAME + 1, &mut head);
            let mut inbox = FrameBuffer::default();
            inbox.push(&head);
            assert_eq!(inbox.take().map_err(|fault| fault.code), Err(Code::FRAME_SIZE));

            let longest = written(&[(0, vec![7; MIN_MAX_FRAME])]);
            let mut inbox = FrameBuffer::default();
            inbox.push(&longest);
            assert!(inbox.take().unwrap().is_some(), "as long as it may be");
        }

        #[test]
        fn what_was_taken_out_is_forgotten() {
            let mut inbox = FrameBuffer::default();
            let bytes = written(&[(0, vec![7; MIN_MAX_FRAME])]);
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
