//! One stream of a connection: a call on its way in, then an answer on its way out.

use std::time::Instant;

use super::call::{Head, Plan};
use crate::receiver::budget::Share;
use crate::transport::grpc::http2::flow_control::{ReceiveWindow, Window};

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) receive_window: ReceiveWindow,
    pub(super) window: Window,
    /// The call, until all of it is there or it is refused.
    pub(super) incoming: Option<Incoming>,
    /// Whether someone works on the answer, who has to be able to find the stream.
    pub(super) in_hand: bool,
    /// Bytes of the call that they work on.
    pub(super) in_hand_bytes: usize,
    /// Whether the client has sent its last frame.
    pub(super) is_heard: bool,
    /// Whether we have sent ours.
    pub(super) is_answered: bool,
}

#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) head: Head,
    pub(super) plan: Plan,
    pub(super) body: Vec<u8>,
    /// The room for it in memory.
    pub(super) share: Share,
    pub(super) begun: Instant,
}

impl Stream {
    pub(super) fn new(window: u32, is_heard: bool) -> Self {
        Self {
            receive_window: ReceiveWindow::default(),
            window: Window::new(window),
            incoming: None,
            in_hand: false,
            in_hand_bytes: 0,
            is_heard,
            is_answered: false,
        }
    }
}
