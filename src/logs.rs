//! Log records: a [`Logger`] begins a record, [`Log`] takes its attributes, and `emit` sends it.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use crate::context::{self, SpanContext, Suppression, unix_nanos};
use crate::pipeline::exporter_set::ExporterSet;
use crate::pipeline::ledger::NotEnqueuedReason;
use crate::process;
#[cfg(feature = "log")]
use crate::record::EncodedAttributes;
use crate::record::Pool;
use crate::record::{AsError, Exception, IntoValue, LogEnd, LogRecord, Scope, Severity, Signal, SpanRef};

/// Creates log records of one scope. Returned by [`Telemetry::logger`](crate::Telemetry::logger). Cheap to clone and to
/// share.
///
/// A record belongs to the thread's current span and carries its ids. A record that no exporter's level includes is not
/// built; the ledger counts it as [filtered](crate::ledger::Counts::filtered).
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
    shared: Arc<LoggerShared>,
}

/// State shared by all records of a logger.
struct LoggerShared {
    exporters: Arc<ExporterSet>,
    scope: Arc<Scope>,
    /// Lowest severity number that the scope's level and at least one exporter's level include.
    min_severity: u8,
    /// Size of the largest log record that any exporter can send; `None` if no exporter exports log records.
    largest: Option<usize>,
    has_baggage_attributes: bool,
}

impl LoggerShared {
    #[inline]
    fn takes(&self, severity: Severity) -> bool {
        // `min_severity` is above every number if nothing would be sent, so one comparison decides.
        severity.number() >= self.min_severity
    }

    /// Counts a record that was not built because no exporter's level includes it. Records of a thread that exports are
    /// not counted.
    #[inline]
    fn count_if_filtered(&self, severity: Severity) {
        if !self.takes(severity) && !context::may_be_suppressed() {
            self.exporters.count_log_filtered(severity);
        }
    }
}

/// Defines the methods for single severities.
macro_rules! severities {
    ($($method:ident $severity:ident),*) => {$(
        #[doc = concat!("Begins a record of [`Severity::", stringify!($severity), "`].")]
        #[inline]
        pub fn $method(&self, body: impl IntoValue) -> Log<'_> {
            self.record(Severity::$severity, body)
        }
    )*};
}

impl Logger {
    pub(crate) fn new(exporters: Arc<ExporterSet>, scope: Arc<Scope>) -> Self {
        let has_baggage_attributes = exporters.has_baggage_attributes();
        let min_severity = exporters.min_severity(&scope);
        let largest = exporters.largest_record(Signal::Logs);
        let shared = LoggerShared { exporters, scope, min_severity, largest, has_baggage_attributes };
        Self { shared: Arc::new(shared) }
    }

    severities! { trace Trace, debug Debug, info Info, warn Warn, error Error, fatal Fatal }

    /// Begins a record of any severity; [`Log::emit`] sends it.
    ///
    /// The body may be any value. A body that is nested more than 30 levels deep is left out and counted as a dropped
    /// attribute.
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
    pub fn record(&self, severity: Severity, body: impl IntoValue) -> Log<'_> {
        let mut open = match self.shared.takes(severity) {
            false => None,
            // This thread may be running exporter code, whose records are suppressed. `suppresses_log` also counts the
            // record.
            true if context::may_be_suppressed() && self.shared.exporters.suppresses_log(severity) => None,
            true => OpenLog::begin(&self.shared),
        };
        if let Some(open) = &mut open {
            // Converting the body may run code of the program, so it happens only if the record is built.
            body.with_value(|body| open.record.set_body(body));
        }
        Log { open, severity, shared: &self.shared }
    }

    /// Returns whether a record of this severity would be sent, by the levels of the exporters and of the
    /// [scope](crate::Config::scope_level). Check this before formatting an expensive text.
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
        let is_free =
            || !context::may_be_suppressed() || self.shared.exporters.suppression() == Suppression::None;
        self.shared.takes(severity) && is_free()
    }

    /// Returns whether an event of this severity and name would be sent, like [`is_enabled`](Self::is_enabled). No
    /// setting depends on the name.
    #[inline]
    pub fn is_event_enabled(&self, severity: Severity, _event_name: &str) -> bool {
        self.is_enabled(severity)
    }

    /// Returns whether a record of this severity would be sent, or counted as suppressed.
    #[cfg(any(feature = "log", feature = "tracing"))]
    #[inline]
    pub(crate) fn is_of_use(&self, severity: Severity) -> bool {
        self.shared.takes(severity) && !context::runs_exporter_code()
    }

    /// Counts a record that a bridge does not build because every exporter's level excludes it.
    #[cfg(any(feature = "log", feature = "tracing"))]
    #[cold]
    pub(crate) fn count_if_filtered(&self, severity: Severity) {
        self.shared.count_if_filtered(severity);
    }

    /// Counts a record that was lost because code of the program panicked.
    #[cfg(any(feature = "log", feature = "tracing"))]
    #[cold]
    pub(crate) fn count_panic(&self, severity: Severity) {
        self.shared.exporters.count_log_not_enqueued(severity, NotEnqueuedReason::Panicked);
    }
}

impl fmt::Debug for Logger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logger").field("scope", &self.shared.scope.name).finish_non_exhaustive()
    }
}

/// A log record before it is emitted. Returned by [`Logger::info`] and similar methods. Nothing is sent without
/// [`emit`](Self::emit).
///
/// ```
/// # use std::time::SystemTime;
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # let logger = telemetry.logger("shop");
/// logger.warn("slow").set("query.ms", 812).time(SystemTime::now()).severity_text("WARNING").emit();
/// ```
#[must_use = "a log record is sent by emit()"]
pub struct Log<'a> {
    /// `None` if nothing is recorded.
    open: Option<Box<OpenLog>>,
    severity: Severity,
    shared: &'a LoggerShared,
}

impl Log<'_> {
    /// Sets an attribute, replacing an earlier value of the key. An attribute beyond the limit is dropped and counted.
    // `always`: most keys are literals, which the compiler then writes by constant stores.
    #[inline(always)]
    pub fn set(mut self, key: &str, value: impl IntoValue) -> Self {
        if let Some(open) = &mut self.open {
            match value.as_value() {
                Some(value) => open.record.set_inlined(key, value),
                None => value.with_value(|value| open.record.set(key, value)),
            }
        }
        self
    }

    /// Like [`set`](Self::set), for a record behind a reference.
    #[inline]
    pub fn set_in_place(&mut self, key: &str, value: impl IntoValue) {
        if let Some(open) = &mut self.open {
            match value.as_value() {
                Some(value) => open.record.set(key, value),
                None => value.with_value(|value| open.record.set(key, value)),
            }
        }
    }

    /// Sets encoded attributes. Returns false without effect if they must be set one by one.
    #[cfg(feature = "log")]
    #[inline]
    pub(crate) fn set_encoded(&mut self, attributes: &EncodedAttributes) -> bool {
        self.open.as_mut().is_none_or(|open| open.record.set_encoded(attributes))
    }

    /// Records an error: `exception.type`, `exception.message`, and its causes as `exception.stacktrace`, as
    /// [`Span::error`](crate::Span::error) does. Attributes that are set afterwards replace these.
    ///
    /// ```
    /// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
    /// # let logger = telemetry.logger("shop");
    /// if let Err(error) = "4711!".parse::<u32>() {
    ///     logger.error("no valid order").exception(&error).emit();
    /// }
    /// ```
    pub fn exception<Kind>(self, error: &(impl AsError<Kind> + ?Sized)) -> Self {
        self.change(|open| Exception::of(error).set(|key, value| open.record.set(key, value)))
    }

    /// Sets the event name. All records with the same event name should have the same attributes.
    #[inline]
    pub fn event_name(self, name: &str) -> Self {
        self.change(|open| open.record.set_event_name(name))
    }

    /// Sets the time at which the event occurred. The default is the time of [`emit`](Self::emit).
    #[inline]
    pub fn time(self, time: SystemTime) -> Self {
        self.change(|open| open.time = Some(unix_nanos(time)))
    }

    /// Sets the span to which the record belongs. The default is the thread's current span.
    #[inline]
    pub fn context(self, context: &SpanContext) -> Self {
        self.change(|open| open.span = SpanChoice::Explicit(context.span_ref()))
    }

    /// Emits the record without a span, even if the thread has a current span.
    #[inline]
    pub fn without_context(self) -> Self {
        self.change(|open| open.span = SpanChoice::None)
    }

    /// Sets the severity text: the name that the source of the record uses for the severity. The default is
    /// [`Severity::name`].
    #[inline]
    pub fn severity_text(self, text: &str) -> Self {
        self.change(|open| open.record.set_severity_text(text))
    }

    #[inline]
    fn change(mut self, change: impl FnOnce(&mut OpenLog)) -> Self {
        if let Some(open) = &mut self.open {
            change(open);
        }
        self
    }

    /// Sends the record.
    #[inline]
    pub fn emit(self) {
        match self.open {
            Some(open) => open.emit(self.severity, self.shared),
            // Counted here, not when the record was begun: a record that is never emitted is not counted.
            None => self.shared.count_if_filtered(self.severity),
        }
    }
}

impl fmt::Debug for Log<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("scope", &self.shared.scope.name).finish_non_exhaustive()
    }
}

/// Storage of a record, and the fields that are written last. Its thread reuses it for later records.
struct OpenLog {
    record: LogRecord,
    time: Option<u64>,
    span: SpanChoice,
    generation: u32,
}

/// The span to which a record belongs.
#[derive(Clone, Copy)]
enum SpanChoice {
    /// The thread's current span at the time of `emit`.
    Current,
    Explicit(SpanRef),
    None,
}

thread_local! {
    static POOL: Pool<OpenLog, 4> = const { Pool::new() };
}

impl OpenLog {
    /// Returns a new record; `None` if no exporter would send it.
    #[inline(never)]
    fn begin(shared: &LoggerShared) -> Option<Box<Self>> {
        // Checked first, so that no storage is taken from the pool if no exporter exports log records.
        let largest = shared.largest?;
        let mut open = Pool::take(&POOL).unwrap_or_else(|| {
            let record = LogRecord::default();
            Box::new(Self { record, time: None, span: SpanChoice::Current, generation: 0 })
        });
        (open.time, open.span) = (None, SpanChoice::Current);
        // A record that is open at a fork must not be sent twice, see `emit`.
        open.generation = process::generation();
        open.record.begin(&shared.exporters.spec().log_limits, largest);
        // Set before the program's own attributes, which therefore replace a baggage attribute of the same key.
        if shared.has_baggage_attributes {
            shared.exporters.set_baggage_attributes(|key, value| open.record.set(key, value));
        }
        Some(open)
    }

    #[inline(never)]
    fn emit(mut self: Box<Self>, severity: Severity, shared: &LoggerShared) {
        // A record that was begun before a fork is sent by the parent.
        if self.generation == process::generation() {
            let end = self.end();
            match self.record.finish(severity, &end) {
                Some(record) => shared.exporters.enqueue_log(&shared.scope, severity, record),
                None => shared.exporters.count_log_not_enqueued(severity, NotEnqueuedReason::TooLarge),
            }
        }
        // The storage is reused even if the record was not sent. The pool frees storage that has become too large.
        let bytes = self.record.capacity();
        Pool::keep(&POOL, self, bytes);
    }

    /// Returns the fields that are written last. `time` equals `observed` unless the program has set a time.
    fn end(&self) -> LogEnd {
        // Read together, because the time comes from the clock of the current span: a log record and the span around
        // it then have consistent times.
        let (current, observed) = context::span_and_time();
        let span = match self.span {
            SpanChoice::Current => current,
            SpanChoice::Explicit(span) => Some(span),
            SpanChoice::None => None,
        };
        LogEnd { time: self.time.unwrap_or(observed), observed, span }
    }
}
