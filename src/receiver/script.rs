//! The answers to give instead of the honest one.

use std::collections::VecDeque;

use super::answer::Answer;
use crate::record::Signal;

/// What was ordered for a signal outranks what was ordered for all.
#[derive(Debug, Default)]
pub(super) struct Script {
    for_all: Orders,
    for_signal: [Orders; Signal::COUNT],
}

#[derive(Debug, Default)]
struct Orders {
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

impl Orders {
    fn take(&mut self) -> Option<Answer> {
        self.next.pop_front().or_else(|| self.always.clone())
    }
}
