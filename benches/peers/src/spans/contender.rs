//! Who is measured, and what all of them have in common: they make traces, flush and end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::task::Task;
use crate::support::Error;
use crate::support::arguments::Part;
use crate::support::workload::TRACE;

/// A library that makes spans.
pub(super) struct Contender {
    /// At the head of its row.
    pub(super) name: &'static str,
    /// At the head of its column, where there is less room.
    pub(super) short: &'static str,
    /// What one must know to read its figures.
    pub(super) note: &'static str,
    /// What of its spans arrives.
    pub(super) arrives: Arrives,
    /// What can be asked of it.
    pub(super) tasks: &'static [Task],
    /// How many attributes its spans can have.
    pub(super) attributes: &'static [u64],
    pub(super) can_compress: bool,
    pub(super) start: fn(&Setup) -> Result<Pipe, Error>,
}

impl Contender {
    pub(super) fn can(&self, task: Task) -> bool {
        self.tasks.contains(&task)
    }
}

/// What the collector finds of a span beside its name, its times, its parent and all attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrives {
    Everything,
    /// Integers and bools are what they are, but the kind is missing.
    WithoutKind,
    /// All attributes are text, and the kind is missing.
    TextWithoutKind,
    /// Nothing is sent.
    Nothing,
}

impl Arrives {
    /// As the table says it.
    pub(super) fn shortfall(self) -> &'static str {
        match self {
            Self::Everything | Self::Nothing => "",
            Self::WithoutKind => "no kind",
            Self::TextWithoutKind => "no kind, only text",
        }
    }
}

/// How a contender is set up.
pub(super) struct Setup {
    pub(super) endpoint: String,
    /// Spans of a burst.
    pub(super) spans: u64,
    pub(super) attributes: u64,
    pub(super) producers: u64,
    pub(super) is_compressed: bool,
    /// Nothing may be lost; or else the queue is as it is by default, and no caller waits.
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
    /// Makes a root below a remote parent, and does something within it.
    fn root(&self, within: impl FnOnce());

    /// Makes a span below the current one.
    fn child(&self);
}

/// Fills in how long calls took.
type Timed = Box<dyn Fn(&mut [u32])>;

/// A contender that has been started.
pub(super) struct Pipe {
    emit: Box<dyn Fn(u64) + Send + Sync>,
    time: Timed,
    pace: Option<Pace>,
    flush: Box<dyn Fn() -> Result<(), Error>>,
    end: Box<dyn FnOnce(Duration) -> Result<(), Error>>,
}

impl Pipe {
    /// `flush` returns when everything was sent, `end` too, or after the time that it is given.
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

    /// One that only sends, whatever it is.
    pub(super) fn raw(emit: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self {
            emit: Box::new(emit),
            time: Box::new(|_| {}),
            pace: None,
            flush: Box::new(|| Ok(())),
            end: Box::new(|_| Ok(())),
        }
    }

    /// With a caller that waits, where the queue itself would lose something.
    pub(super) fn paced(self, pace: Option<Pace>) -> Self {
        Self { pace, ..self }
    }

    /// Emits as many whole traces as make up this many spans.
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

    /// Emits one trace for each 15 times, which are how long the children took in nanoseconds.
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

/// Children of a trace.
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

/// Spans between two looks at the queue.
pub(super) const STEP: u64 = 512;
/// Between two looks while it is too long.
const NAP: Duration = Duration::from_micros(500);

/// Lets callers wait until others have done their work: the queue that blocks, for those who have none.
pub(super) struct Pace {
    /// The longest queue.
    limit: u64,
    emitted: AtomicU64,
    /// How many are waiting to be sent, by how many there ever were.
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
