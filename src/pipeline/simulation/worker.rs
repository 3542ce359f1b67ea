//! The worker's own thread as a simulation plays it: as in [`run`](Worker::run) and [`rest`](Worker::rest), but where the thread
//! would sleep, it returns.

use super::{Progress, Worker};
use crate::pipeline::clock;

impl Worker {
    /// Does one thing, or goes to sleep.
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

    /// Whether a message ends its sleep. A wake-up is taken; a stop is left to the next step.
    pub(crate) fn is_called(&self) -> bool {
        let is_stopping = self.stop_by().is_some();
        !is_stopping && (!self.commands.stop.is_empty() || self.commands.wake.try_recv().is_ok())
    }

    /// Its sleep is over.
    pub(crate) fn wake_up(&self) {
        self.deliveries.iter().for_each(|delivery| delivery.queue.stay_awake());
    }
}
