//! What becomes of a request that was read, however it came: held at the gate, answered by the script, shown, counted.

use std::collections::VecDeque;
use std::sync::Arc;

use super::answer::Answer;
use super::content::Content;
use super::refusal::Refusal;
use super::state::{ActiveRequest, Callback, Shared, Stage};
use super::store::{Batch, Protocol, ReceivedRequest};
use crate::record::Signal;

/// Takes a request in and says what to answer, once it is time. All is counted before the client can know. The caller drops
/// the request when the answer is written.
///
/// `decided` is an answer that was taken before the request was read. `None` if the receiver was stopped.
pub(super) fn take_in(
    shared: &Shared,
    mut request: ReceivedRequest,
    mut content: Content,
    decided: Option<Answer>,
) -> Option<(Answer, ActiveRequest<'_>)> {
    let mut active = shared.begin_request(request.connection, Stage::Held);
    // the body, and what the decoder built besides, is freed by now
    content.share.shrink_to(content.weight);
    if !shared.pass_gate() {
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
    // The share is given back after the records are gone or kept.
    let Batch { share: _share, request, mut records, .. } = batch;
    shared.change(|state| state.store.add_request(request));
    if !shared.rest(answer.delay) {
        return None;
    }
    if answer.accepts() {
        records.keep_first(accepted);
        shared.change(|state| state.store.add_records(signal, records, weight));
    }
    // Before the answer is sent: a client that has it may make room for others at once.
    active.enter(Stage::Answering);
    Some((answer, active))
}

/// Shows a request that is refused, and counts it if it has a readable head. The caller drops what is returned when the answer
/// is written.
pub(super) fn turn_down<'a>(
    shared: &'a Shared,
    protocol: Protocol,
    connection: u64,
    mut request: Option<ReceivedRequest>,
    refusal: &Refusal,
    answer: &Answer,
) -> ActiveRequest<'a> {
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

/// The answers to give instead of the honest one: what was ordered for a signal outranks what was ordered for all.
#[derive(Debug, Default)]
pub(super) struct Script {
    for_all: ScriptedAnswers,
    for_signal: [ScriptedAnswers; Signal::COUNT],
}

#[derive(Debug, Default)]
pub(super) struct ScriptedAnswers {
    pub(super) next: VecDeque<Answer>,
    /// The answer once there is no next one.
    pub(super) always: Option<Answer>,
}

impl Script {
    /// Returns the answers for a signal, or those for all.
    pub(super) fn answers_for(&mut self, signal: Option<Signal>) -> &mut ScriptedAnswers {
        match signal {
            Some(signal) => &mut self.for_signal[signal as usize],
            None => &mut self.for_all,
        }
    }

    /// Whether the next answer for all is one that must be known before the request is read.
    pub(super) fn has_preceding(&self) -> bool {
        let upcoming = self.for_all.next.front().or(self.for_all.always.as_ref());
        upcoming.is_some_and(Answer::precedes_reading)
    }

    /// The next answer for all, if it is such a one.
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
