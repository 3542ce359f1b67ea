//! The contenders and their common interface: emit traces, flush and end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::task::Task;
use crate::support::Error;
use crate::support::arguments::Part;
use crate::support::workload::TRACE;

/// A library that makes spans.
pub(super) struct Contender {
    /// Heading of the row.
    pub(super) name: &'static str,
    /// Shorter name, for the heading of a column.
    pub(super) short: &'static str,
    /// Note below the tables that explains the figures.
    pub(super) note: &'static str,
    /// Properties of the spans that arrive.
    pub(super) arrives: Arrives,
    /// Tasks that the contender supports.
    pub(super) tasks: &'static [Task],
    /// Numbers of attributes that the spans can have.
    pub(super) attributes: &'static [u64],
    pub(super) can_compress: bool,
    pub(super) start: fn(&Setup) -> Result<Pipe, Error>,
}

impl Contender {
    pub(super) fn can(&self, task: Task) -> bool {
        self.tasks.contains(&task)
    }
}

/// Properties of a span that arrive, besides name, times, parent and attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrives {
    Everything,
    /// Integers and bools keep their types, but the kind is missing.
    WithoutKind,
    /// All attributes are text, and the kind is missing.
    TextWithoutKind,
    /// Nothing is sent.
    Nothing,
}

impl Arrives {
    /// Returns the missing properties, as the table shows them.
    pub(super) fn shortfall(self) -> &'static str {
        match self {
            Self::Everything | Self::Nothing => "",
            Self::WithoutKind => "no kind",
            Self::TextWithoutKind => "no kind, only text",
        }
    }
}

/// Settings of a contender.
pub(super) struct Setup {
    pub(super) endpoint: String,
    /// Number of spans in a burst.
    pub(super) spans: u64,
    pub(super) attributes: u64,
    pub(super) producers: u64,
    pub(super) is_compressed: bool,
    /// True if no span may be lost. Otherwise the queue has its default settings, and no caller waits.
    pub(super) is_lossless: bool,
}

impl Setup {
    pub(super) fn read(part: &Part) -> Result<Self, Error> {
        Ok(Self {
            endpoint: part.text("endpoint")?.to_owned(),
            spans: part.number("spans")?,
            attributes: part.number("attributes")?,
            producers: part.number("producers")?,
            is_compressed: part.text("gzip")? == "true",
            is_lossless: part.text("lossless")? == "true",
        })
    }
}

/// Makes the spans of a trace.
pub(super) trait Spans: Send + Sync {
    /// Makes a root span with a remote parent, and calls `within` inside the root.
    fn root(&self, within: impl FnOnce());

    /// Makes a child of the current span.
    fn child(&self);
}

/// Emits spans and stores the durations of the calls.
type Timed = Box<dyn Fn(&mut [u32])>;

/// A started contender.
pub(super) struct Pipe {
    emit: Box<dyn Fn(u64) + Send + Sync>,
    time: Timed,
    pace: Option<Pace>,
    flush: Box<dyn Fn() -> Result<(), Error>>,
    end: Box<dyn FnOnce(Duration) -> Result<(), Error>>,
}

impl Pipe {
    /// Wraps a library.
    ///
    /// `flush` must return after everything was sent. `end` must do the same, but may return earlier at the end of
    /// its budget.
    pub(super) fn new(
        spans: impl Spans + Clone + 'static,
        flush: impl Fn() -> Result<(), Error> + 'static,
        end: impl FnOnce(Duration) -> Result<(), Error> + 'static,
    ) -> Self {
        let timed = spans.clone();
        Self {
            emit: Box::new(move |count| emit(&spans, count)),
            time: Box::new(move |times| time(&timed, times)),
            pace: None,
            flush: Box::new(flush),
            end: Box::new(end),
        }
    }

    /// Wraps a function that only sends.
    pub(super) fn raw(emit: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self {
            emit: Box::new(emit),
            time: Box::new(|_| {}),
            pace: None,
            flush: Box::new(|| Ok(())),
            end: Box::new(|_| Ok(())),
        }
    }

    /// Makes callers wait where the queue itself would lose spans.
    pub(super) fn paced(self, pace: Option<Pace>) -> Self {
        Self { pace, ..self }
    }

    /// Returns a function that emits this many spans in whole traces.
    pub(super) fn emitter(&self) -> impl Fn(u64) + Sync + '_ {
        let Self { emit, pace, .. } = self;
        move |spans| match pace {
            None => emit(spans),
            Some(pace) => {
                let mut left = spans;
                while left > 0 {
                    let step = left.min(STEP);
                    emit(step);
                    pace.wait(step);
                    left -= step;
                }
            }
        }
    }

    /// Emits one trace for every 15 elements, and stores the durations of the children in nanoseconds.
    pub(super) fn time(&self, times: &mut [u32]) {
        (self.time)(times);
    }

    pub(super) fn flush(&self) -> Result<(), Error> {
        (self.flush)()
    }

    pub(super) fn end(self, budget: Duration) -> Result<(), Error> {
        (self.end)(budget)
    }
}

/// Number of children in a trace.
pub(super) const CHILDREN: usize = TRACE as usize - 1;

fn emit(spans: &impl Spans, count: u64) {
    for _ in 0..count / TRACE {
        spans.root(|| (1..TRACE).for_each(|_| spans.child()));
    }
}

fn time(spans: &impl Spans, times: &mut [u32]) {
    for times in times.chunks_mut(CHILDREN) {
        spans.root(|| {
            for time in times {
                let begun = Instant::now();
                spans.child();
                *time = u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX);
            }
        });
    }
}

/// Number of spans between two checks of the queue.
pub(super) const STEP: u64 = 512;
/// Pause between two checks while the queue is too long.
const NAP: Duration = Duration::from_micros(500);

/// Backpressure for libraries whose queue does not block: callers sleep while too many spans wait.
pub(super) struct Pace {
    /// Maximum number of waiting spans.
    limit: u64,
    emitted: AtomicU64,
    /// Returns the number of waiting spans, given the number of all spans so far.
    backlog: Box<dyn Fn(u64) -> u64 + Send + Sync>,
}

impl Pace {
    pub(super) fn new(limit: u64, backlog: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Self {
        Self { limit, emitted: AtomicU64::new(0), backlog: Box::new(backlog) }
    }

    fn wait(&self, more: u64) {
        self.emitted.fetch_add(more, Ordering::SeqCst);
        while (self.backlog)(self.emitted.load(Ordering::SeqCst)) > self.limit {
            thread::sleep(NAP);
        }
    }
}
