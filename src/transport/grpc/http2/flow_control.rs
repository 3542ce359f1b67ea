//! Flow control: how much may still be sent.

#[cfg(test)]
mod tests;

use super::frame::{Fault, LARGEST_STREAM};

/// What every window is before anything is said.
pub(crate) const INITIAL_WINDOW: u32 = 65_535;

/// Bytes that one side may still send. A change of settings can make it negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window(i64);

impl Window {
    pub(crate) fn new(bytes: u32) -> Self {
        Self(i64::from(bytes))
    }

    pub(crate) fn available(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Takes so many bytes; an error if there are not so many.
    pub(crate) fn spend(&mut self, bytes: usize) -> Result<(), Fault> {
        if bytes > self.available() {
            return Err(Fault::flow("more data than the window allows"));
        }
        self.0 -= bytes as i64;
        Ok(())
    }

    /// Gives so many more, or takes them away when settings shrink.
    pub(crate) fn shift(&mut self, bytes: i64) -> Result<(), Fault> {
        self.0 += bytes;
        match self.0 > i64::from(LARGEST_STREAM) {
            true => Err(Fault::flow("a window that is too large")),
            false => Ok(()),
        }
    }
}

/// What a peer may send us, and what of it is to be given back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    window: Window,
    owed: u32,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { window: Window::new(INITIAL_WINDOW), owed: 0 }
    }
}

impl Allowance {
    /// Counts what came, padding included; gives the increment for a window update when one is worth its bytes.
    pub(crate) fn receive(&mut self, bytes: usize) -> Result<Option<u32>, Fault> {
        self.window.spend(bytes)?;
        self.owed += bytes as u32;
        if self.owed < INITIAL_WINDOW / 2 {
            return Ok(None);
        }
        let increment = std::mem::take(&mut self.owed);
        self.window.shift(i64::from(increment))?;
        Ok(Some(increment))
    }
}
