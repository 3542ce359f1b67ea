//! Processes a request after it was read, for both protocols: waits while the receiver is paused, chooses the answer,
//! runs the user's callback, and counts.

use std::collections::VecDeque;
use std::sync::Arc;

use super::answer::Answer;
use super::content::Content;
use super::refusal::Refusal;
use super::state::{ActiveRequest, Callback, Shared, Stage};
use super::store::{Batch, Protocol, ReceivedRequest};
use crate::record::Signal;

/// An answer, and the guard of its request until the answer is written.
pub(super) type Answered<'a> = (Answer, ActiveRequest<'a>);

/// Processes a decoded request and returns its answer. Everything is counted before the client can get the answer. The
/// caller drops the returned [`ActiveRequest`] when the answer is written.
///
/// `decided` is an answer that was chosen before the request was read. Returns `None` if the receiver was stopped.
pub(super) fn take_in(
    shared: &Shared,
    mut request: ReceivedRequest,
    mut content: Content,
    decided: Option<Answer>,
) -> Option<Answered<'_>> {
    let mut active = shared.begin_request(request.connection, Stage::Held);
    // The body and the decoder's intermediate message are freed by now, so only the records need memory.
    content.share.shrink_to(content.weight);
    if !shared.hold_while(|state| state.paused) {
        return None;
    }
    let answer = decided
        .or_else(|| shared.change(|state| state.script.take(content.signal)))
        .unwrap_or_else(Answer::ok);
    request.decoded = true;
    request.records = content.records.count();
    note_answer(&mut request, &answer);
    let accepted = answer.accepted_of(request.records);
    let Content { signal, records, weight, share } = content;
    let batch = Batch { signal, request, records, accepted, share: Arc::new(share) };
    if let Some(Callback(show)) = &shared.settings.on_batch {
        active.enter(Stage::InCallback);
        show(&batch);
        active.enter(Stage::Held);
    }
    // The share is released after the records are dropped or kept.
    let Batch { share: _share, request, mut records, .. } = batch;
    shared.change(|state| state.store.add_request(request));
    if !shared.rest(answer.delay) {
        return None;
    }
    if answer.accepts() {
        records.keep_first(accepted);
        shared.change(|state| state.store.add_records(signal, records, weight));
    }
    // Entered before the client has its answer: in `Held`, no new connection could replace this one.
    active.enter(Stage::Answering);
    Some((answer, active))
}

/// Reports a refused request to the user, and counts it if its head is readable. The caller drops the returned
/// [`ActiveRequest`] when the answer is written.
pub(super) fn turn_down<'a>(
    shared: &'a Shared,
    protocol: Protocol,
    connection: u64,
    mut request: Option<ReceivedRequest>,
    refusal: &Refusal,
    answer: &Answer,
) -> ActiveRequest<'a> {
    // Registered before the callback runs, so that a stop knows that this thread cannot be interrupted.
    let mut active = shared.begin_request(connection, Stage::InCallback);
    if let Some(request) = &mut request {
        note_answer(request, answer);
    }
    if let Some(Callback(show)) = &shared.settings.on_refusal {
        show(&refusal.describe(protocol, request.clone()));
    }
    active.enter(Stage::Answering);
    if let Some(request) = request {
        shared.change(|state| state.store.add_request(request));
    }
    active
}

fn note_answer(request: &mut ReceivedRequest, answer: &Answer) {
    request.status = answer.status_sent();
    request.grpc_status = match request.protocol {
        Protocol::Http => None,
        Protocol::Grpc => answer.grpc_code_sent(),
    };
}

/// The scripted answers. Answers for one signal have precedence over answers for all signals.
#[derive(Debug, Default)]
pub(super) struct Script {
    for_all: ScriptedAnswers,
    for_signal: [ScriptedAnswers; Signal::COUNT],
}

#[derive(Debug, Default)]
pub(super) struct ScriptedAnswers {
    pub(super) next: VecDeque<Answer>,
    /// Answer while `next` is empty.
    pub(super) always: Option<Answer>,
}

impl Script {
    /// Returns the answers for a signal, or those for all if `signal` is `None`.
    pub(super) fn answers_for(&mut self, signal: Option<Signal>) -> &mut ScriptedAnswers {
        match signal {
            Some(signal) => &mut self.for_signal[signal as usize],
            None => &mut self.for_all,
        }
    }

    /// Returns whether the next answer for all signals must be known before the request is read.
    pub(super) fn has_preceding(&self) -> bool {
        let upcoming = self.for_all.next.front().or(self.for_all.always.as_ref());
        upcoming.is_some_and(Answer::precedes_reading)
    }

    /// Takes the next answer for all signals if it must be known before the request is read.
    pub(super) fn take_preceding(&mut self) -> Option<Answer> {
        if self.has_preceding() { self.for_all.take() } else { None }
    }

    pub(super) fn take(&mut self, signal: Signal) -> Option<Answer> {
        self.for_signal[signal as usize].take().or_else(|| self.for_all.take())
    }
}

impl ScriptedAnswers {
    fn take(&mut self) -> Option<Answer> {
        self.next.pop_front().or_else(|| self.always.clone())
    }
}
