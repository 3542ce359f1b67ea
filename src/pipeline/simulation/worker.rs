//! Simulates the worker's thread: like [`run`](Worker::run) and [`rest`](Worker::rest), but returns where the thread
//! would sleep.

use super::{Progress, Worker};
use crate::pipeline::clock;

impl Worker {
    /// Does one thing, or returns the time until which the thread would sleep.
    pub(crate) fn step_or_sleep(&mut self) -> Progress {
        if self.is_done() {
            self.finish();
            return Progress::Ended;
        }
        if self.caught(Self::work) != Some(false) {
            return Progress::Worked;
        }
        Progress::DueAt(self.next_event(clock::now()))
    }

    /// Returns whether a message ends the sleep. Receives a wake-up, but leaves a stop for the next step.
    pub(crate) fn is_called(&self) -> bool {
        let is_stopping = self.stop_by().is_some();
        !is_stopping && (!self.commands.stop.is_empty() || self.commands.wake.try_recv().is_ok())
    }

    /// Disarms the wake-ups of the queues, as at the end of a sleep.
    pub(crate) fn wake_up(&self) {
        self.deliveries.iter().for_each(|delivery| delivery.queue.stay_awake());
    }
}
