//! Sending in the background: with a spool, a collector that does not answer must not let the queue fill up.
//!
//! Another thread sends for the length of one attempt. Meanwhile the worker looks at its queues and moves to the disk what
//! comes close to filling one, oldest first. The oldest is the batch in flight, so that is copied first:
//!
//! 1. The spool gets a copy of the batch. The batch itself stays in memory, and the attempt goes on with it.
//! 2. All that follows the batch goes to the spool.
//! 3. Once the attempt has a verdict, the batch gives up its room in the queue and stands for its entry in the spool, as if it
//!    had been read from there. The verdict settles both, or the batch is sent again from memory.
//!
//! A process that dies in between leaves one entry in the spool, which the next process sends.

use std::mem;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, bounded};

use super::Worker;
use super::attempt::NO_DEADLINE;
use super::spooling::write;
use crate::pipeline::batch::Batch;
use crate::pipeline::clock;
#[cfg(test)]
use crate::pipeline::simulation;
use crate::process::{contain_panic, spawn_scoped};

/// How often the worker looks at its queues during an attempt.
const LOOK: Duration = Duration::from_millis(50);

impl Worker {
    /// Moves queues to the disk that are close to being full. After a panic, the records that had left the queue are lost, but
    /// not the batch that is being sent.
    pub(super) fn relieve_queues(&mut self, sending: usize, batch: &Batch) {
        for at in 0..self.deliveries.len() {
            let being_sent = mem::take(&mut self.deliveries[at].in_hand);
            if contain_panic(|| self.relieve_queue(at, sending, batch)).is_err() {
                self.report_panic(at);
                self.deliveries[at].write_off_unsent();
            }
            let in_hand = &mut self.deliveries[at].in_hand;
            *in_hand = (in_hand.0 + being_sent.0, in_hand.1 + being_sent.1);
        }
    }

    fn relieve_queue(&mut self, at: usize, sending: usize, batch: &Batch) {
        let delivery = &self.deliveries[at];
        let is_pressing = delivery.queue.is_pressing(delivery.queue.level());
        let is_in_order = delivery.parts.iter().all(Batch::is_spooled);
        let is_first = at != sending || batch.is_spooled() || self.state.is_copied_to_spool;
        // where the disk has others, which could not be read, a copy would not be the oldest: its answer would settle them
        let may_copy = !delivery.has_spooled;
        if is_pressing && is_in_order && (is_first || may_copy && self.copy_to_spool(batch)) {
            let delivery = &mut self.deliveries[at];
            delivery.has_spooled = true;
            delivery.drain_queue(clock::now());
            self.pass_on_to_spool(at);
        }
    }

    /// Writes a batch in flight to the spool, so that what comes behind it can follow.
    fn copy_to_spool(&mut self, batch: &Batch) -> bool {
        let Some(spool) = &mut self.spool else { return false };
        self.state.is_copied_to_spool = write(spool, batch).is_ok();
        self.state.is_copied_to_spool
    }

    /// If the spool got a copy of the batch while it was sent, makes the batch stand for that entry.
    pub(super) fn adopt_entry(&mut self, at: usize, batch: &mut Batch) {
        if !mem::take(&mut self.state.is_copied_to_spool) {
            return;
        }
        let (delivery, Some(spool)) = (&mut self.deliveries[at], &mut self.spool) else { return };
        spool.take_unread(delivery.signal);
        delivery.move_out_of_queue(batch);
        // from now on the age of the entry is the bound
        delivery.give_up = Some(clock::now() + NO_DEADLINE);
    }
}

/// Runs `work` on another thread, and meanwhile calls `look` every [`LOOK`]. Returns `None` if `work` panicked.
pub(super) fn run_beside<T: Send>(
    mut work: impl FnMut() -> Option<T> + Send,
    mut look: impl FnMut(),
) -> Option<T> {
    #[cfg(test)]
    if let Some(worked) = simulation::run_beside(LOOK, &mut work, &mut look) {
        return worked;
    }
    let (running, ended) = bounded::<()>(0);
    let worked = thread::scope(|scope| {
        let work = || {
            let _running = running;
            work()
        };
        let thread = spawn_scoped(scope, "standpipe-send", work).ok()?;
        while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            look();
        }
        // The request of a thread that panicked may have arrived, so it is not sent again.
        Some(thread.join().ok().flatten())
    });
    // Without a thread, the worker waits for the answer itself.
    worked.unwrap_or_else(work)
}

#[cfg(test)]
mod tests {
    use std::panic::resume_unwind;

    use super::*;

    #[test]
    fn calls_work_once_though_its_thread_panics() {
        let mut calls = 0;
        let work = || -> Option<()> {
            calls += 1;
            resume_unwind(Box::new("on purpose"));
        };
        assert_eq!(run_beside(work, || ()), None);
        assert_eq!(calls, 1);
    }
}
