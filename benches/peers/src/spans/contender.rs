//! The interface of the contenders: each emits traces, flushes and shuts down.

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::task::Task;
use crate::support::Error;
use crate::support::arguments::Part;
use crate::support::workload::TRACE;

/// A library that emits spans.
pub(super) struct Contender {
    /// Row header.
    pub(super) name: &'static str,
    /// Shorter name for column headers.
    pub(super) short: &'static str,
    /// Remark below the tables that explains the figures.
    pub(super) note: &'static str,
    /// Properties of its spans that arrive at the collector.
    pub(super) arrives: Arrives,
    /// Tasks that it supports.
    pub(super) tasks: &'static [Task],
    /// Numbers of attributes that its spans can have.
    pub(super) attributes: &'static [u64],
    pub(super) can_compress: bool,
    pub(super) start: fn(&Setup) -> Result<Pipe, Error>,
}

impl Contender {
    pub(super) fn can(&self, task: Task) -> bool {
        self.tasks.contains(&task)
    }
}

/// Properties of a span that arrive in addition to its name, times, parent and number of attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrives {
    Everything,
    /// Integers and bools keep their types, but the kind is missing.
    WithoutKind,
    /// All attributes are strings, and the kind is missing.
    TextWithoutKind,
    /// No spans are sent.
    Nothing,
}

impl Arrives {
    /// Returns the missing properties, as shown in the table.
    pub(super) fn shortfall(self) -> &'static str {
        match self {
            Self::Everything | Self::Nothing => "",
            Self::WithoutKind => "no kind",
            Self::TextWithoutKind => "no kind, only text",
        }
    }
}

/// Configuration of a contender.
pub(super) struct Setup {
    pub(super) endpoint: String,
    /// Spans per burst.
    pub(super) spans: u64,
    pub(super) attributes: u64,
    pub(super) producers: u64,
    pub(super) is_compressed: bool,
    /// Whether nothing may be lost. Otherwise the queue has its default settings, and callers do not wait.
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

/// Emits the spans of a trace.
pub(super) trait Spans: Send + Sync {
    /// Emits a root span with a remote parent, and runs `within` inside it.
    fn root(&self, within: impl FnOnce());

    /// Emits a child of the current span.
    fn child(&self);
}

/// Emits traces and stores the duration of each call.
type Timed = Box<dyn Fn(&mut [u32], Duration)>;

/// A contender that has been started.
pub(super) struct Pipe {
    emit: Box<dyn Fn(u64) + Send + Sync>,
    time: Timed,
    pace: Option<Pace>,
    flush: Box<dyn Fn() -> Result<(), Error>>,
    end: Box<dyn FnOnce(Duration) -> Result<(), Error>>,
}

impl Pipe {
    /// Creates a contender. `flush` returns when everything has been sent. `end` also returns when its budget is used
    /// up.
    pub(super) fn new(
        spans: impl Spans + Clone + 'static,
        flush: impl Fn() -> Result<(), Error> + 'static,
        end: impl FnOnce(Duration) -> Result<(), Error> + 'static,
    ) -> Self {
        let timed = spans.clone();
        let pipe = Self::raw(move |count| emit(&spans, count)).timed(timed);
        Self { flush: Box::new(flush), end: Box::new(end), ..pipe }
    }

    /// Creates a contender that only emits.
    pub(super) fn raw(emit: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self {
            emit: Box::new(emit),
            time: Box::new(|_, _| {}),
            pace: None,
            flush: Box::new(|| Ok(())),
            end: Box::new(|_| Ok(())),
        }
    }

    /// Times these spans.
    pub(super) fn timed(self, spans: impl Spans + 'static) -> Self {
        Self { time: Box::new(move |times, distance| time(&spans, times, distance)), ..self }
    }

    /// Makes callers wait where the queue would drop spans.
    pub(super) fn paced(self, pace: Option<Pace>) -> Self {
        Self { pace, ..self }
    }

    /// Returns a function that emits whole traces with the given number of spans in total.
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

    /// Emits one child per element of `times`, in traces of 15 children, and stores in the element the nanoseconds that
    /// the child took. The children begin `distance` apart.
    pub(super) fn time(&self, times: &mut [u32], distance: Duration) {
        (self.time)(times, distance);
    }

    pub(super) fn flush(&self) -> Result<(), Error> {
        (self.flush)()
    }

    pub(super) fn end(self, budget: Duration) -> Result<(), Error> {
        (self.end)(budget)
    }
}

/// Children per trace.
pub(super) const CHILDREN: usize = TRACE as usize - 1;

fn emit(spans: &impl Spans, count: u64) {
    for _ in 0..count / TRACE {
        spans.root(|| (1..TRACE).for_each(|_| spans.child()));
    }
}

fn time(spans: &impl Spans, times: &mut [u32], distance: Duration) {
    let mut due = Instant::now();
    for times in times.chunks_mut(CHILDREN) {
        spans.root(|| {
            for time in times {
                due += distance;
                while !distance.is_zero() && Instant::now() < due {
                    hint::spin_loop();
                }
                let begun = Instant::now();
                spans.child();
                *time = u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX);
            }
        });
    }
}

/// Spans between two checks of the backlog.
pub(super) const STEP: u64 = 512;
/// Pause between two checks while the backlog is too long.
const NAP: Duration = Duration::from_micros(500);

/// Makes callers wait while the backlog is too long, for libraries whose queue does not block.
pub(super) struct Pace {
    /// Longest backlog at which callers continue.
    limit: u64,
    emitted: AtomicU64,
    /// Returns the number of spans waiting to be sent, from the number of spans emitted so far.
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
