//! A transport without a network, for tests: each send waits at a gate until the test decides its verdict.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Payload, Transport, Verdict};
use crate::process::lock;

/// Time that a test waits for an expected send.
const PATIENCE: Duration = Duration::from_secs(10);

/// The test's side of the gate. Clones share the gate, which serves one transport at a time.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    shared: Arc<Shared>,
}

/// A send that waits at the gate.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) body: Vec<u8>,
    pub(crate) deadline: Instant,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Option<Sent>,
    fate: Option<Fate>,
    interrupted: bool,
    is_cut: bool,
}

enum Fate {
    Verdict(Verdict),
    Panic,
}

impl Gate {
    pub(crate) fn open_transport(&self) -> Box<dyn Transport> {
        Box::new(Memory { shared: Arc::clone(&self.shared) })
    }

    /// Waits for the next send, which stays at the gate.
    pub(crate) fn next(&self) -> Sent {
        self.next_within(PATIENCE).expect("nothing was sent")
    }

    /// Waits up to `time` for the next send, which stays at the gate.
    pub(crate) fn next_within(&self, time: Duration) -> Option<Sent> {
        let waited = self
            .shared
            .changed
            .wait_timeout_while(lock(&self.shared.state), time, |state| state.waiting.is_none());
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting.clone()
    }

    /// Waits for the next send and lets it return `verdict`.
    pub(crate) fn answer(&self, verdict: Verdict) -> Sent {
        self.decide(Fate::Verdict(verdict))
    }

    /// Makes the next send return `verdict` without a wait.
    pub(crate) fn answer_in_advance(&self, verdict: Verdict) {
        lock(&self.shared.state).fate = Some(Fate::Verdict(verdict));
    }

    /// Waits for the next send and lets it panic.
    pub(crate) fn panic(&self) -> Sent {
        self.decide(Fate::Panic)
    }

    fn decide(&self, fate: Fate) -> Sent {
        let sent = self.next();
        let mut state = lock(&self.shared.state);
        state.fate = Some(fate);
        self.shared.changed.notify_all();
        // Waits until the send has left, so that the next call does not find the same send.
        let waited = self.shared.changed.wait_timeout_while(state, PATIENCE, |state| state.fate.is_some());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        sent
    }
}

struct Memory {
    shared: Arc<Shared>,
}

impl Transport for Memory {
    fn forget_cut(&mut self) {
        lock(&self.shared.state).is_cut = false;
    }

    fn send(&mut self, payload: &Payload<'_>, deadline: Instant) -> Verdict {
        let mut state = lock(&self.shared.state);
        state.waiting = Some(Sent { body: payload.body.concat(), deadline });
        self.shared.changed.notify_all();
        let left = deadline.saturating_duration_since(Instant::now());
        let undecided = |state: &mut State| state.fate.is_none() && !state.interrupted && !state.is_cut;
        let waited = self.shared.changed.wait_timeout_while(state, left, undecided);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting = None;
        let fate = state.fate.take();
        drop(state);
        self.shared.changed.notify_all();
        match fate {
            Some(Fate::Verdict(verdict)) => verdict,
            Some(Fate::Panic) => panic!("on purpose"),
            None => Verdict::TryLater { after: None, reason: "the gate stayed shut".to_owned() },
        }
    }

    fn interrupter(&self) -> Box<dyn Fn() + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Box::new(move || {
            lock(&shared.state).interrupted = true;
            shared.changed.notify_all();
        })
    }

    fn cutter(&self) -> Box<dyn Fn() + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Box::new(move || {
            lock(&shared.state).is_cut = true;
            shared.changed.notify_all();
        })
    }
}
