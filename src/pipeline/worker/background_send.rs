//! An attempt beside which the worker goes on: with a spool, a collector that does not answer must not let the queue fill up.
//!
//! Another thread sends, for as long as one attempt takes. Meanwhile the worker looks at its queues, and moves to the disk what
//! comes close to filling one: first the batch that is being sent, which is the oldest, and then all behind it.

use std::mem;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, bounded};

use super::Worker;
use super::spooling::write;
use crate::context;
use crate::pipeline::batch::{Batch, Origin};
use crate::pipeline::clock;
#[cfg(test)]
use crate::pipeline::simulation;
use crate::process::{contain_panic, spawn_scoped};
use crate::spool::Spool;
use crate::transport::{Payload, Verdict};

/// How often the worker looks at its queues during an attempt.
const LOOK: Duration = Duration::from_millis(50);

impl Worker {
    /// One attempt; `None` if the transport panicked.
    pub(super) fn send_beside(&mut self, at: usize, batch: &Batch, deadline: Instant) -> Option<Verdict> {
        let mut transport = self.transport.take()?;
        self.begin_attempt(batch.signal, &mut *transport);
        let payload = Payload { signal: batch.signal, body: &batch.body() };
        let owner = self.owner;
        let send = || {
            let send = || contain_panic(|| transport.send(&payload, deadline)).ok();
            context::while_exporting_for(owner, send)
        };
        let verdict = run_beside(send, || self.relieve_queues(at, batch));
        self.transport = Some(transport);
        self.end_attempt();
        verdict
    }

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
        let is_first = at != sending || batch.is_spooled() || self.state.is_sent_from_spool;
        // where the disk has others, which could not be read, a copy would not be the oldest: its answer would settle them
        let may_copy = !delivery.has_spooled;
        if is_pressing && is_in_order && (is_first || may_copy && self.spool_copy(batch)) {
            let delivery = &mut self.deliveries[at];
            delivery.has_spooled = true;
            delivery.drain_queue(clock::now());
            self.pass_on_to_spool(at);
        }
    }

    /// Writes a batch that is being sent to the spool. What comes behind it can follow.
    fn spool_copy(&mut self, batch: &Batch) -> bool {
        let Some(spool) = &mut self.spool else { return false };
        let is_written = write(spool, batch).is_ok();
        self.state.is_sent_from_spool = is_written;
        is_written
    }

    /// If the spool has got a batch while it was sent, goes on with what is there, and frees the batch. `None` if that cannot be
    /// read: the worker will try it again.
    pub(super) fn exchange_if_spooled(
        &mut self,
        at: usize,
        batch: Batch,
        verdict: Option<&Verdict>,
    ) -> Option<Batch> {
        use Verdict::{Accepted, AcceptedPartly, NotTaken, Refused};
        if !mem::take(&mut self.state.is_sent_from_spool) {
            return Some(batch);
        }
        // what is not sent again need not be read
        if let Some(Accepted | AcceptedPartly { .. } | Refused { .. } | NotTaken { .. }) = verdict {
            self.settle_in_spool(at, Spool::settle_unread);
            return Some(batch);
        }
        self.deliveries[at].note_spooled(batch);
        self.load_spooled(at);
        let is_own = |part: &Batch| matches!(part.origin, Origin::Spool { is_own: true });
        let parts = &mut self.deliveries[at].parts;
        let part = if parts.last().is_some_and(is_own) { parts.pop() } else { None };
        if part.is_none() {
            self.deliveries[at].part_is_over();
        }
        part
    }
}

/// Runs `work` on another thread, and meanwhile calls `look` every [`LOOK`]. Returns `None` if `work` panicked.
fn run_beside<T: Send>(mut work: impl FnMut() -> Option<T> + Send, mut look: impl FnMut()) -> Option<T> {
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
