//! Sends the records of the [`log`](https://docs.rs/log) crate as OTLP log records.
//!
//! ```
//! use std::time::Duration;
//! use standpipe::bridge::log::LogBridge;
//! use standpipe::{Config, Exporter, Telemetry};
//!
//! # let receiver = standpipe::receiver::Receiver::start()?;
//! # let endpoint = receiver.endpoint();
//! # /*
//! let endpoint = "http://localhost:4318";
//! # */
//! let telemetry = Telemetry::start(Config::new().service_name("shop").exporter(Exporter::http(endpoint)))?;
//! LogBridge::new(&telemetry).install()?;
//! {
//!     let _checkout = telemetry.tracer("shop").span("checkout");
//!     log::info!(amount = 12.5, currency = "SEK"; "paid"); // carries the ids of checkout
//! }
//! assert_eq!(telemetry.shutdown(Duration::from_secs(2)).lost(), 0);
//! # assert_eq!(receiver.log_count(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | in `log` | in the log record |
//! |---|---|
//! | level | severity number (`error` 17, `warn` 13, `info` 9, `debug` 5, `trace` 1) and its name |
//! | message | body |
//! | target | name of the scope |
//! | file, line, module | `code.file.path`, `code.line.number`, `code.module.name` |
//! | key-values | attributes: bools, integers, doubles; everything else as text |
//!
//! An integer that does not fit into `i64` is sent as text. A key without a value (`None`, `()`) is left out. Lists and
//! maps are sent as text, formatted by their `Debug` or `Display`.
//!
//! # Filters
//!
//! A record passes these filters in order. Records that the last filter excludes are counted in the ledger as
//! [`filtered`](crate::ledger::Counts::filtered). The bridge never sees records that the first two exclude, and does
//! not count those that its own level excludes.
//!
//! | filter | set by | counted |
//! |---|---|---|
//! | static level | features of `log`, such as `release_max_level_info` | no: the call is not compiled |
//! | dynamic level | [`log::set_max_level`]; [`LogBridge::install`] sets it to [`LogBridge::max_level`] | no |
//! | level of the bridge | [`LogBridge::level`] | no |
//! | level of each exporter | [`Exporter::level`](crate::Exporter::level); `level` in a file, where the default is `info` | yes, by exporter |
//!
//! After `install`, and without a [chained](LogBridge::chain) logger, the dynamic level is at most that of the most
//! verbose exporter. The ledger then counts as filtered only records that this exporter accepts and a less verbose one
//! excludes. Calls of `enabled` and `log_enabled!` are never counted.
//!
//! The bridge ignores records that ureq, an HTTP client, logs at `trace`: they contain whole requests with credentials.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use log::kv::{self, VisitSource, VisitValue};
use log::{Level, LevelFilter, Log, Metadata, Record, SetLoggerError};

use super::{MAX_CALL_SITES, OnPanic, shows_credentials};
use crate::logs::{self, Logger};
use crate::record::{EncodedAttributes, IntoValue, LogRecord, Pool, Severity, Value};
use crate::telemetry::provider::Provider;
use crate::telemetry::scope_cache::ScopeCache;

/// Budget of [`Log::flush`], the same as that of dropping a [`Telemetry`](crate::Telemetry).
const FLUSH_BUDGET: Duration = Duration::from_secs(2);

/// A logger of the `log` crate that sends its records through a provider.
///
/// Records that a [filter](self#filters) excludes cost little. Records that the exporters themselves log are
/// ignored. If the queue is full, the caller waits, or the record is dropped and counted, as with every record. After
/// a shutdown, records are only counted.
///
/// ```standalone_crate
/// use standpipe::bridge::log::LogBridge;
///
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # struct Terminal;
/// # impl log::Log for Terminal {
/// #     fn enabled(&self, _: &log::Metadata<'_>) -> bool { true }
/// #     fn log(&self, _: &log::Record<'_>) {}
/// #     fn flush(&self) {}
/// # }
/// # let terminal = Terminal;
/// LogBridge::new(&telemetry).level(log::LevelFilter::Warn).chain(terminal).install()?;
/// log::warn!(order = 4711; "out of stock");
/// # Ok::<(), log::SetLoggerError>(())
/// ```
#[must_use = "a bridge receives no records until it is installed"]
pub struct LogBridge {
    provider: Provider,
    by_target: ScopeCache<Box<str>, Logger>,
    by_place: ScopeCache<Place, Arc<CallSite>, MAX_CALL_SITES>,
    /// Logger for checks and counts that do not depend on the target.
    any: Logger,
    level: LevelFilter,
    location: bool,
    /// Chained loggers.
    others: Vec<Box<dyn Log>>,
}

impl LogBridge {
    /// Creates a bridge to the main provider of a [`Telemetry`](crate::Telemetry), or to any [`Provider`].
    pub fn new(provider: impl AsRef<Provider>) -> Self {
        let provider = provider.as_ref();
        Self {
            provider: provider.clone(),
            by_target: ScopeCache::default(),
            by_place: ScopeCache::default(),
            any: provider.logger(""),
            level: LevelFilter::Trace,
            location: true,
            others: Vec::new(),
        }
    }

    /// Adds a logger that also gets every record, including those that the exporters' own threads log. The added logger
    /// is called before the bridge, so that it never waits for room in a queue, and must filter records itself.
    pub fn chain(mut self, other: impl Log + 'static) -> Self {
        self.others.push(Box::new(other));
        self
    }

    /// Sets the most verbose level that the bridge accepts, regardless of the exporters. Chained loggers are not
    /// affected.
    pub fn level(self, finest: LevelFilter) -> Self {
        Self { level: finest, ..self }
    }

    /// Sets whether records carry their source location as attributes. The default is true.
    pub fn location(self, location: bool) -> Self {
        Self { location, ..self }
    }

    /// Returns the most verbose level that the bridge and at least one exporter accept, or `Off`. With this
    /// maximum level, `log` itself skips more verbose calls at almost no cost.
    ///
    /// If there is a chained logger, this function returns `Trace` instead, because that logger may accept different
    /// levels for different targets. If a less verbose level suffices for all loggers, set it with
    /// [`log::set_max_level`] after [`install`](Self::install).
    pub fn max_level(&self) -> LevelFilter {
        if !self.others.is_empty() {
            return LevelFilter::Trace;
        }
        // `log` orders levels by verbosity: the maximum is the most verbose level.
        let taken = Level::iter().filter(|level| self.takes(*level)).max();
        taken.map_or(LevelFilter::Off, |finest| finest.to_level_filter())
    }

    /// Installs the bridge as the program's logger, and sets the program's maximum level to
    /// [`max_level`](Self::max_level).
    ///
    /// # Errors
    /// Returns an error if the program already has a logger. To use both, pass the other logger to
    /// [`chain`](Self::chain) instead of installing it.
    pub fn install(self) -> Result<(), SetLoggerError> {
        let finest = self.max_level();
        // The logger is set first: if the program already has one, the maximum level must not change.
        log::set_boxed_logger(Box::new(self))?;
        log::set_max_level(finest);
        Ok(())
    }

    #[inline]
    fn takes(&self, level: Level) -> bool {
        level <= self.level && self.any.is_enabled(severity(level))
    }

    #[inline]
    fn logger(&self, target: &str) -> Cow<'_, Logger> {
        let make = || (target.into(), self.provider.logger(target));
        self.by_target.get_or_make(target, |known| **known == *target, make)
    }

    /// Returns the cached call site of a record that a `log` macro created. Returns `None` for other records, and if
    /// the target of the record differs from the cached target.
    #[inline]
    fn call_site(&self, record: &Record<'_>) -> Option<Cow<'_, Arc<CallSite>>> {
        let place =
            Place { file: record.file_static()?, module: record.module_path_static()?, line: record.line()? };
        let make = || (place, Arc::new(self.describe(record)));
        let found = self.by_place.get_or_make_hashed(place.hash(), |known| known.is(&place), make);
        // The target of a call site may vary at run time: `log!(target: name, …)`.
        (*found.target == *record.target()).then_some(found)
    }

    fn describe(&self, record: &Record<'_>) -> CallSite {
        // Encoded even if it is not sent now: the program may log through the bridge before it calls `location`.
        let attributes: Vec<_> = location(record).collect();
        CallSite {
            target: record.target().into(),
            logger: self.logger(record.target()).into_owned(),
            location: LogRecord::encode(&attributes),
        }
    }

    fn emit(&self, record: &Record<'_>) {
        match self.call_site(record) {
            Some(known) => self.emit_by(&known.logger, known.location.as_ref(), record),
            None => self.emit_by(&self.logger(record.target()), None, record),
        }
    }

    #[inline(always)]
    fn emit_by(&self, logger: &Logger, encoded_location: Option<&EncodedAttributes>, record: &Record<'_>) {
        // Formatting runs code of the program, which may itself emit log records, so nothing is borrowed or locked
        // meanwhile.
        let mut scratch = Pool::take(&POOL).unwrap_or_default();
        let body = match record.args().as_str() {
            Some(literal) => literal,
            None => format(&mut scratch, record.args()),
        };
        let mut log = logger.record(severity(record.level()), body);
        if self.location && !encoded_location.is_some_and(|location| log.set_encoded(location)) {
            location(record).for_each(|(key, value)| log.set_in_place(key, value));
        }
        // If reading the key-values fails, those before the failure are kept.
        let _ = record.key_values().visit(&mut Setter { key: "", log: &mut log, scratch: &mut scratch });
        log.emit();
        let bytes = scratch.capacity();
        Pool::keep(&POOL, scratch, bytes);
    }
}

impl Log for LogBridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let shows_credentials = shows_credentials(metadata.level() == Level::Trace, metadata.target());
        self.takes(metadata.level()) && !shows_credentials
            || self.others.iter().any(|other| other.enabled(metadata))
    }

    fn log(&self, record: &Record<'_>) {
        // Chained loggers are called first, because they must not wait for room in a queue.
        self.others.iter().for_each(|other| other.log(record));
        let severity = severity(record.level());
        let shows_credentials = shows_credentials(record.level() == Level::Trace, record.target());
        if record.level() > self.level || shows_credentials {
            return;
        }
        if self.any.is_of_use(severity) {
            // If formatting the message or a value panics, dropping the guard counts the record. Otherwise `forget`
            // disarms the guard.
            let on_panic = OnPanic(|| self.any.count_panic(severity));
            self.emit(record);
            mem::forget(on_panic);
        } else {
            // Also reached on threads that run exporter code, whose records `count_if_filtered` does not count.
            self.any.count_if_filtered(severity);
        }
    }

    /// Flushes the chained loggers, then waits at most two seconds until the provider's exporters have delivered their
    /// records. On an exporter's own thread, it does not wait for the delivery.
    fn flush(&self) {
        self.others.iter().for_each(|other| other.flush());
        // This method cannot return an outcome; the ledger shows it.
        let _ = self.provider.flush(FLUSH_BUDGET);
    }
}

impl fmt::Debug for LogBridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogBridge")
            .field("level", &self.level)
            .field("location", &self.location)
            .field("chained", &self.others.len())
            .finish_non_exhaustive()
    }
}

/// Returns the attributes for the source location of a record.
fn location<'a>(record: &Record<'a>) -> impl Iterator<Item = (&'static str, Value<'a>)> {
    let file = record.file().map(|file| ("code.file.path", Value::Str(file)));
    let line = record.line().map(|line| ("code.line.number", Value::Int(line.into())));
    let module = record.module_path().map(|module| ("code.module.name", Value::Str(module)));
    [file, line, module].into_iter().flatten()
}

/// The cached logger and encoded location of a call site of `log`'s macros. A record then needs no search for the
/// logger, and copies the location as one slice. This saves 370 of 2,240 instructions per record.
struct CallSite {
    target: Box<str>,
    logger: Logger,
    /// `None` if the location cannot be encoded in advance; its attributes are then set one by one.
    location: Option<EncodedAttributes>,
}

/// A place in the source code. The strings are `'static`, so their addresses identify them.
#[derive(Clone, Copy)]
struct Place {
    file: &'static str,
    module: &'static str,
    line: u32,
}

impl Place {
    #[inline]
    fn hash(&self) -> u64 {
        // The addresses are hashed, not the contents: the strings are literals of the call site.
        self.file.as_ptr().addr() as u64
            ^ u64::from(self.line) << 32
            ^ self.module.as_ptr().addr() as u64 >> 4
    }

    #[inline]
    fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self.file, other.file)
            && std::ptr::eq(self.module, other.module)
            && self.line == other.line
    }
}

/// Sets the key-values of a record as attributes, one after the other.
struct Setter<'a, 'l> {
    key: &'a str,
    log: &'a mut logs::Log<'l>,
    scratch: &'a mut String,
}

impl<'kvs> VisitSource<'kvs> for Setter<'_, '_> {
    fn visit_pair(&mut self, key: kv::Key<'kvs>, value: kv::Value<'kvs>) -> Result<(), kv::Error> {
        value.visit(Setter { key: key.as_str(), log: self.log, scratch: self.scratch })
    }
}

impl Setter<'_, '_> {
    #[inline]
    fn set(&mut self, value: impl IntoValue) -> Result<(), kv::Error> {
        self.log.set_in_place(self.key, value);
        Ok(())
    }

    fn set_text(&mut self, value: &dyn fmt::Display) -> Result<(), kv::Error> {
        self.log.set_in_place(self.key, format(self.scratch, value));
        Ok(())
    }

    /// Sets an integer, or its text if it does not fit into `i64`, the integer type of OTLP.
    fn set_integer(&mut self, value: impl TryInto<i64> + fmt::Display + Copy) -> Result<(), kv::Error> {
        match value.try_into() {
            Ok(value) => self.visit_i64(value),
            Err(_) => self.set_text(&value),
        }
    }
}

impl VisitValue<'_> for Setter<'_, '_> {
    /// Called for values captured by `Display` or `Debug`, and for errors, lists and maps.
    fn visit_any(&mut self, value: kv::Value<'_>) -> Result<(), kv::Error> {
        self.set_text(&value)
    }

    /// Sets no attribute: a missing attribute means the same as null.
    fn visit_null(&mut self) -> Result<(), kv::Error> {
        Ok(())
    }

    fn visit_bool(&mut self, value: bool) -> Result<(), kv::Error> {
        self.set(value)
    }

    fn visit_i64(&mut self, value: i64) -> Result<(), kv::Error> {
        self.set(value)
    }

    fn visit_u64(&mut self, value: u64) -> Result<(), kv::Error> {
        self.set_integer(value)
    }

    fn visit_i128(&mut self, value: i128) -> Result<(), kv::Error> {
        self.set_integer(value)
    }

    fn visit_u128(&mut self, value: u128) -> Result<(), kv::Error> {
        self.set_integer(value)
    }

    fn visit_f64(&mut self, value: f64) -> Result<(), kv::Error> {
        self.set(value)
    }

    fn visit_str(&mut self, value: &str) -> Result<(), kv::Error> {
        self.set(value)
    }
}

fn severity(level: Level) -> Severity {
    match level {
        Level::Error => Severity::Error,
        Level::Warn => Severity::Warn,
        Level::Info => Severity::Info,
        Level::Debug => Severity::Debug,
        Level::Trace => Severity::Trace,
    }
}

thread_local! {
    /// Storage for formatted text. It is taken out of the pool, not borrowed from it, because the program's code that
    /// formats a value may itself emit log records. Storage that is lost to a panic is allocated again.
    static POOL: Pool<String, 2> = const { Pool::new() };
}

/// Returns the text of `value`, or the part that was written before an error.
fn format<'a>(scratch: &'a mut String, value: &dyn fmt::Display) -> &'a str {
    scratch.clear();
    let _ = write!(scratch, "{value}");
    scratch
}
