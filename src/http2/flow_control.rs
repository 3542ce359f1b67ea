//! Credit-based flow control (RFC 9113, sections 5.2 and 6.9): the number of DATA bytes that each side may still send.

use super::frame::{Fault, MAX_STREAM};

/// Initial size of every window (section 6.9.2). We never change ours.
pub(crate) const INITIAL_WINDOW: u32 = 65_535;

/// A send window. A change of SETTINGS_INITIAL_WINDOW_SIZE can make the window negative (section 6.9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Window(i64);

impl Window {
    pub(crate) fn new(bytes: u32) -> Self {
        Self(i64::from(bytes))
    }

    pub(crate) fn available(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Takes `bytes` out of the window, or fails and takes nothing if the window is smaller.
    pub(crate) fn spend(&mut self, bytes: usize) -> Result<(), Fault> {
        if bytes > self.available() {
            return Err(Fault::flow("more data than the window allows"));
        }
        self.0 -= bytes as i64;
        Ok(())
    }

    /// Adds `bytes` to the window. `bytes` is negative if new settings shrink the window.
    pub(crate) fn shift(&mut self, bytes: i64) -> Result<(), Fault> {
        self.0 += bytes;
        match self.0 > i64::from(MAX_STREAM) {
            true => Err(Fault::flow("a flow-control window above 2^31-1")),
            false => Ok(()),
        }
    }
}

/// A receive window.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReceiveWindow {
    /// Received bytes whose credit is not returned to the peer yet. The rest of the window is open.
    owed: u32,
}

impl ReceiveWindow {
    /// Counts received bytes, padding included. Returns the increment of a WINDOW_UPDATE once half of the window is
    /// used: an update per frame would double the number of packets.
    pub(crate) fn receive(&mut self, bytes: usize) -> Result<Option<u32>, Fault> {
        let owed = self.owed.saturating_add(bytes as u32);
        // A peer that sends more than its credit violates the protocol (section 6.9.1).
        if owed > INITIAL_WINDOW {
            return Err(Fault::flow("more data than the window allows"));
        }
        let is_due = owed >= INITIAL_WINDOW / 2;
        self.owed = if is_due { 0 } else { owed };
        Ok(is_due.then_some(owed))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::frame::Code;
    use super::*;

    #[test]
    fn a_window_is_spent_to_its_end_and_not_beyond() {
        let mut window = Window::new(5);
        assert_eq!(window.spend(3), Ok(()));
        assert_eq!(window.available(), 2);
        assert_eq!(window.spend(3).map_err(|fault| fault.code), Err(Code::FLOW_CONTROL));
        assert_eq!(window.available(), 2, "what was not allowed was not taken");
        assert_eq!((window.spend(2), window.spend(0), window.available()), (Ok(()), Ok(()), 0));
    }

    #[test]
    fn a_window_can_be_negative_and_has_to_be_filled_up_first() {
        let mut window = Window::new(10);
        window.shift(-30).unwrap();
        assert_eq!(window.available(), 0);
        window.shift(20).unwrap();
        assert_eq!(window.available(), 0, "that was the debt");
        window.shift(1).unwrap();
        assert_eq!(window.available(), 1);
    }

    #[test]
    fn a_window_has_31_bits() {
        let mut window = Window::new(MAX_STREAM - 1);
        assert_eq!(window.shift(1), Ok(()));
        assert_eq!(window.available(), MAX_STREAM as usize);
        assert_eq!(window.shift(1).map_err(|fault| fault.code), Err(Code::FLOW_CONTROL));
        // The first shift brings this window to the lowest value that a change of settings can cause.
        let mut window = Window::new(0);
        window.shift(-i64::from(MAX_STREAM)).unwrap();
        window.shift(i64::from(MAX_STREAM)).unwrap();
        window.shift(i64::from(MAX_STREAM)).unwrap();
        assert_eq!(window.available(), MAX_STREAM as usize);
    }

    #[test]
    fn little_is_given_back_when_it_has_become_much() {
        let mut receive_window = ReceiveWindow::default();
        assert_eq!(receive_window.receive(32_766), Ok(None));
        assert_eq!(receive_window.receive(0), Ok(None));
        assert_eq!(receive_window.receive(1), Ok(Some(32_767)));
        assert_eq!(receive_window.receive(65_535), Ok(Some(65_535)));
    }

    #[test]
    fn more_than_was_allowed_is_a_fault() {
        let mut receive_window = ReceiveWindow::default();
        assert_eq!(receive_window.receive(65_536).map_err(|fault| fault.code), Err(Code::FLOW_CONTROL));
        let mut receive_window = ReceiveWindow::default();
        assert_eq!(receive_window.receive(32_766), Ok(None));
        assert_eq!(receive_window.receive(32_770).map_err(|fault| fault.code), Err(Code::FLOW_CONTROL));
    }

    proptest! {
        /// Losing one byte of credit per response would stall a connection after tens of thousands of responses.
        #[test]
        fn all_that_came_is_given_back_or_owed(pieces in prop::collection::vec(0usize..=16_384, 0..300)) {
            let mut receive_window = ReceiveWindow::default();
            let (mut received, mut given) = (0, 0);
            for piece in pieces {
                // Never fails: after each call, more than half of the window is left, which exceeds the largest piece.
                given += u64::from(receive_window.receive(piece).expect("there is room").unwrap_or(0));
                received += piece as u64;
                prop_assert_eq!(given + u64::from(receive_window.owed), received);
                prop_assert!(receive_window.owed < 32_767);
            }
        }

        #[test]
        fn a_window_is_what_was_given_less_what_was_spent(
            start in 0..=MAX_STREAM,
            steps in prop::collection::vec((any::<bool>(), 0u32..1 << 20), 0..100),
        ) {
            let mut window = Window::new(start);
            let mut model = i64::from(start);
            for (spends, bytes) in steps {
                match spends {
                    true => {
                        let is_spent = window.spend(bytes as usize).is_ok();
                        prop_assert_eq!(is_spent, i64::from(bytes) <= model.max(0));
                        model -= if is_spent { i64::from(bytes) } else { 0 };
                    }
                    false => {
                        // A change of settings may reduce the window by any amount.
                        model -= i64::from(bytes);
                        prop_assert!(window.shift(-i64::from(bytes)).is_ok());
                    }
                }
                prop_assert_eq!(window.available() as i64, model.max(0));
            }
        }
    }
}
