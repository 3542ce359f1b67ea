//! What becomes of a request that was read, however it came: held at the gate, answered by the script, shown, counted.

use std::collections::VecDeque;
use std::sync::Arc;

use super::answer::Answer;
use super::content::Content;
use super::records::Records;
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
    if !accept(shared, request, content, &answer, &mut active) {
        return None;
    }
    // before the answer is sent: a client that has it may make room for others at once
    active.enter(Stage::Answering);
    Some((answer, active))
}

/// Shows the batch, counts it and waits out the answer's delay. Says whether to go on.
fn accept(
    shared: &Shared,
    request: ReceivedRequest,
    content: Content,
    answer: &Answer,
    active: &mut ActiveRequest<'_>,
) -> bool {
    let accepted = answer.accepted_of(request.records);
    let Content { signal, records: Records { spans, logs, metrics }, weight, share } = content;
    let share = Arc::new(share);
    let batch = Batch { signal, request, spans, logs, metrics, accepted, share: share.clone() };
    if let Some(Callback(show)) = &shared.settings.on_batch {
        active.enter(Stage::InCallback);
        show(&batch);
        active.enter(Stage::Held);
    }
    let Batch { request, spans, logs, metrics, .. } = batch;
    shared.change(|state| state.store.add_request(request));
    if !shared.rest(answer.delay) {
        return false;
    }
    if answer.accepts() {
        let mut records = Records { spans, logs, metrics };
        records.keep_first(accepted);
        shared.change(|state| state.store.add_records(signal, records, weight));
    }
    // not before the records are gone or kept
    drop(share);
    true
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
struct ScriptedAnswers {
    next: VecDeque<Answer>,
    always: Option<Answer>,
}

impl Script {
    pub(super) fn extend(&mut self, answers: impl IntoIterator<Item = Answer>) {
        self.for_all.next.extend(answers);
    }

    pub(super) fn set_always(&mut self, answer: Answer) {
        self.for_all.always = Some(answer);
    }

    pub(super) fn extend_for(&mut self, signal: Signal, answers: impl IntoIterator<Item = Answer>) {
        self.for_signal[signal as usize].next.extend(answers);
    }

    pub(super) fn set_always_for(&mut self, signal: Signal, answer: Answer) {
        self.for_signal[signal as usize].always = Some(answer);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
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
