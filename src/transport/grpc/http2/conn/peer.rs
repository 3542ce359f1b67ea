//! What the server asked for in its settings.

use super::super::frame::LEAST_MAX_FRAME;
use super::super::window::INITIAL_WINDOW;

#[derive(Debug)]
pub(super) struct Peer {
    /// Its first settings have come. Calls need not wait for them.
    pub(super) has_greeted: bool,
    pub(super) initial_window: u32,
    pub(super) max_frame: usize,
    pub(super) max_streams: u32,
    pub(super) max_header_list: usize,
}

impl Default for Peer {
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
