//! Log records at the call site: who makes them, and the record until it is emitted.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use crate::context::{self, SpanContext, Suppression, unix_nanos};
use crate::pipeline::exporter_set::ExporterSet;
use crate::pipeline::ledger::NotEnqueuedReason;
use crate::process;
use crate::record::pool::Pool;
use crate::record::{LogEnd, LogRecord, Scope, Severity, Signal, SpanRef, Value};

/// Makes log records of one scope. Got from [`Telemetry::logger`](crate::Telemetry::logger); cheap to clone and to
/// share.
///
/// A record belongs to this thread's current span and carries its ids. What no exporter's level lets pass costs a
/// comparison and is not in the ledger.
///
/// ```
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// let logger = telemetry.logger("shop");
/// let _checkout = telemetry.tracer("shop").span("checkout");
/// logger.info("paid").set("amount", 12.5).emit(); // carries the ids of checkout
/// logger.error("out of stock").set("order.id", 4711).event_name("stock.empty").emit();
/// ```
#[derive(Clone)]
pub struct Logger {
    source: Arc<Source>,
}

/// What the records of a logger have in common.
struct Source {
    exporters: Arc<ExporterSet>,
    scope: Arc<Scope>,
}

impl Logger {
    pub(crate) fn new(exporters: Arc<ExporterSet>, scope: Arc<Scope>) -> Self {
        Self { source: Arc::new(Source { exporters, scope }) }
    }

    /// Begins a record of [`Severity::Trace`].
    #[inline]
    pub fn trace<'v>(&self, body: impl Into<Value<'v>>) -> Log<'_> {
        self.record(Severity::Trace, body)
    }

    /// Begins a record of [`Severity::Debug`].
    #[inline]
    pub fn debug<'v>(&self, body: impl Into<Value<'v>>) -> Log<'_> {
        self.record(Severity::Debug, body)
    }

    /// Begins a record of [`Severity::Info`].
    #[inline]
    pub fn info<'v>(&self, body: impl Into<Value<'v>>) -> Log<'_> {
        self.record(Severity::Info, body)
    }

    /// Begins a record of [`Severity::Warn`].
    #[inline]
    pub fn warn<'v>(&self, body: impl Into<Value<'v>>) -> Log<'_> {
        self.record(Severity::Warn, body)
    }

    /// Begins a record of [`Severity::Error`].
    #[inline]
    pub fn error<'v>(&self, body: impl Into<Value<'v>>) -> Log<'_> {
        self.record(Severity::Error, body)
    }

    /// Begins a record of [`Severity::Fatal`].
    #[inline]
    pub fn fatal<'v>(&self, body: impl Into<Value<'v>>) -> Log<'_> {
        self.record(Severity::Fatal, body)
    }

    /// Begins a record of any severity; [`Log::emit`] sends it.
    ///
    /// The body may be any value. One that is nested more than 30 deep is left out, and counted among the dropped
    /// attributes.
    ///
    /// ```
    /// use standpipe::{Severity, Value};
    ///
    /// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
    /// # let logger = telemetry.logger("shop");
    /// let body = Value::Map(&[("order", Value::Int(4711)), ("items", Value::Strs(&["tea", "cup"]))]);
    /// logger.record(Severity::Info2, body).emit();
    /// ```
    #[inline]
    pub fn record<'v>(&self, severity: Severity, body: impl Into<Value<'v>>) -> Log<'_> {
        let open = match self.source.exporters.takes_log(severity) {
            true if context::may_be_suppressed() && self.source.exporters.suppresses_log(severity) => None,
            true => OpenLog::begin(&self.source, severity, body.into()),
            false => None,
        };
        Log { open, source: &self.source }
    }

    /// Whether a record of this severity would go anywhere: worth asking before its text is put together.
    ///
    /// ```
    /// use standpipe::{Config, Severity};
    ///
    /// let telemetry = standpipe::Telemetry::start(Config::new())?;
    /// assert!(!telemetry.logger("shop").is_enabled(Severity::Fatal)); // there is no exporter
    /// # Ok::<(), standpipe::ConfigError>(())
    /// ```
    #[inline]
    pub fn is_enabled(&self, severity: Severity) -> bool {
        self.source.exporters.takes_log(severity) && !(context::may_be_suppressed() && self.is_suppressed())
    }

    /// Whether a record of this severity would go anywhere or be counted.
    #[cfg(any(feature = "log", feature = "tracing"))]
    #[inline]
    pub(crate) fn is_of_use(&self, severity: Severity) -> bool {
        self.source.exporters.takes_log(severity) && !context::runs_exporter_code()
    }

    /// Counts a record as lost to a panic of the program's own code.
    #[cfg(any(feature = "log", feature = "tracing"))]
    #[cold]
    pub(crate) fn count_panic(&self, severity: Severity) {
        self.source.exporters.count_log_not_enqueued(severity, NotEnqueuedReason::Panicked);
    }

    #[cold]
    fn is_suppressed(&self) -> bool {
        self.source.exporters.suppression() != Suppression::None
    }
}

impl fmt::Debug for Logger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logger").field("scope", &self.source.scope.name).finish_non_exhaustive()
    }
}

/// A log record before it is emitted. Got from [`Logger::info`] and its siblings; without [`emit`](Self::emit)
/// it is not sent.
///
/// ```
/// # use std::time::SystemTime;
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # let logger = telemetry.logger("shop");
/// logger.warn("slow").set("query.ms", 812).time(SystemTime::now()).severity_text("WARNING").emit();
/// ```
#[must_use = "a log record is sent by emit()"]
pub struct Log<'a> {
    /// `None` where nothing is recorded.
    open: Option<Box<OpenLog>>,
    source: &'a Source,
}

impl Log<'_> {
    /// Sets an attribute. The last value of a key counts; above the limit an attribute is dropped and counted.
    #[inline]
    pub fn set<'v>(mut self, key: &str, value: impl Into<Value<'v>>) -> Self {
        self.add(key, value);
        self
    }

    /// Sets an attribute in place: for a loop over many.
    #[inline]
    pub fn add<'v>(&mut self, key: &str, value: impl Into<Value<'v>>) {
        if let Some(open) = &mut self.open {
            open.record.set(key, value.into());
        }
    }

    /// Names the kind of event that this record is one of: all records of a name have the same attributes.
    #[inline]
    pub fn event_name(mut self, name: &str) -> Self {
        if let Some(open) = &mut self.open {
            open.record.set_event_name(name);
        }
        self
    }

    /// When it happened, if not now.
    #[inline]
    pub fn time(mut self, time: SystemTime) -> Self {
        if let Some(open) = &mut self.open {
            open.time = Some(unix_nanos(time));
        }
        self
    }

    /// The span that it belongs to, instead of the thread's current one.
    #[inline]
    pub fn context(mut self, context: &SpanContext) -> Self {
        if let Some(open) = &mut self.open {
            open.span = Of::Span(context.span_ref());
        }
        self
    }

    /// It belongs to no span, whatever the thread is in.
    #[inline]
    pub fn without_context(mut self) -> Self {
        if let Some(open) = &mut self.open {
            open.span = Of::Nobody;
        }
        self
    }

    /// The severity in the words of where it comes from; [`Severity::name`] unless set.
    #[inline]
    pub fn severity_text(mut self, text: &str) -> Self {
        if let Some(open) = &mut self.open {
            open.record.set_severity_text(text);
        }
        self
    }

    /// Sends the record.
    #[inline]
    pub fn emit(self) {
        if let Some(open) = self.open {
            open.emit(self.source);
        }
    }
}

impl fmt::Debug for Log<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("scope", &self.source.scope.name).finish_non_exhaustive()
    }
}

/// A record's storage and what its last bytes are made of. Reused on its thread.
struct OpenLog {
    record: LogRecord,
    severity: Severity,
    time: Option<u64>,
    span: Of,
    generation: u32,
}

/// Which span a record belongs to.
#[derive(Clone, Copy)]
enum Of {
    /// The thread's current one, when it is emitted.
    Thread,
    Span(SpanRef),
    Nobody,
}

thread_local! {
    static POOL: Pool<OpenLog, 4> = const { Pool::new() };
}

impl OpenLog {
    /// `None` if there is no exporter to send it.
    #[inline(never)]
    fn begin(source: &Source, severity: Severity, body: Value<'_>) -> Option<Box<Self>> {
        let largest = source.exporters.largest_record(Signal::Logs)?;
        let mut open = Pool::take(&POOL).unwrap_or_else(|| {
            let record = LogRecord::default();
            Box::new(Self { record, severity, time: None, span: Of::Thread, generation: 0 })
        });
        open.severity = severity;
        (open.time, open.span) = (None, Of::Thread);
        open.generation = process::generation();
        open.record.begin(body, source.exporters.log_limits(), largest);
        Some(open)
    }

    #[inline(never)]
    fn emit(mut self: Box<Self>, source: &Source) {
        // a record that was begun before a fork is the parent's to send
        if self.generation == process::generation() {
            let end = self.end();
            match self.record.finish(self.severity, &end) {
                Some(record) => source.exporters.push_log(&source.scope, self.severity, record),
                None => source.exporters.count_log_not_enqueued(self.severity, NotEnqueuedReason::TooLarge),
            }
        }
        let bytes = self.record.capacity();
        Pool::keep(&POOL, self, bytes);
    }

    /// A record that is made here is observed when it happens: both times are the same, unless one was given.
    fn end(&self) -> LogEnd {
        let (current, observed) = context::span_and_time();
        let span = match self.span {
            Of::Thread => current,
            Of::Span(span) => Some(span),
            Of::Nobody => None,
        };
        LogEnd { time: self.time.unwrap_or(observed), observed, span }
    }
}
