//! Starts, flushes and shuts down telemetry. Assembles providers, exporters and transports from a configuration.

pub(crate) mod global;
pub(crate) mod provider;
mod resource;
pub(crate) mod scope_cache;

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::config::{
    Config, ConfigError, Diagnostic, DiagnosticSeverity, Exporter, PeriodicReaderSettings, ProviderName,
    ProviderSettings, SpoolSettings, Transport, WhenFull, demand,
};
use crate::context::{Owner, Propagators, suppress_instrumentation};
use crate::logs::Logger;
use crate::metrics::{Meter, Reader, Registry};
use crate::pipeline::exporter_handle::{ExporterSpec, RecordFilter};
use crate::pipeline::exporter_set::{self, ExporterSet, FlushOutcome, ProviderSpec, StartError, deadline};
use crate::pipeline::ledger::Ledger;
use crate::pipeline::problems::ProblemReporter;
use crate::pipeline::self_observation;
use crate::problem::ProblemKind;
use crate::process::Driver;
use crate::record::{ScopeBuilder, Signal};
use crate::telemetry::provider::Provider;
use crate::trace::{OpenMarks, Tracer};
use crate::transport::{self, Opener};

/// The program's telemetry: start it first, shut it down last.
///
/// ```
/// use std::time::Duration;
/// use standpipe::{Config, Exporter, Telemetry};
///
/// # #[cfg(feature = "receiver")] {
/// # let receiver = standpipe::receiver::Receiver::start().unwrap();
/// # let endpoint = receiver.endpoint();
/// let config = Config::new().service_name("shop").exporter(Exporter::http(endpoint));
/// let telemetry = Telemetry::start(config)?;
/// let tracer = telemetry.tracer("shop");
/// tracer.span_builder("checkout").set("order.id", 4711).start().end();
/// let ledger = telemetry.shutdown(Duration::from_secs(2));
/// assert_eq!(ledger.lost(), 0);
/// # }
/// # Ok::<(), standpipe::ConfigError>(())
/// ```
///
/// Dropping the telemetry without [`shutdown`](Self::shutdown) shuts it down with a budget of two seconds, or of
/// [`Config::drop_budget`]. On an exporter's own thread, the drop returns at once, and the exporters send the remaining
/// records within that budget.
///
/// # In a forked child
///
/// A child process starts its own exporters at its first record or measurement. Inherited records are sent by the
/// parent. A child of a program that has shut down starts nothing. The new worker thread may block forever on a lock
/// that a thread of the parent held at the fork. Therefore callers, and a shutdown, wait at most five seconds for a
/// worker that has not begun to run. After that time, records that do not fit into the queue are dropped and counted.
///
/// glibc's `_Fork` is not supported: it runs no fork handlers, so the library cannot detect the child. Such a child
/// must not use the telemetry, because threads of the parent may have held its locks at the fork.
#[derive(Debug)]
#[must_use = "dropping it shuts the telemetry down"]
pub struct Telemetry {
    main: Provider,
    application: Provider,
    drop_budget: Duration,
    /// Number of calls of [`pump`](Self::pump) with a budget greater than zero. Selects the exporter that is driven
    /// first.
    pumps: AtomicUsize,
}

impl Telemetry {
    /// Starts one background thread for each exporter, or none if the configuration is [disabled](Config::disabled). A
    /// connection is made when the first records are sent. The background threads block all Unix signals except those
    /// of faults and aborts, so that signal handlers run on the program's own threads.
    ///
    /// Before this function returns, the [hook](Config::on_problem) receives each warning about the
    /// [configuration](ProblemKind::Configuration), such as an unknown variable, and a missing
    /// [service name](ProblemKind::NoServiceName).
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid, with all diagnostics at once, or if an exporter cannot be
    /// started. [`ConfigError::into_usable`] returns the configuration without its broken exporters. On targets without
    /// threads, such as `wasm32-wasip1`, no exporter can be started; use [`start_manual`](Self::start_manual) there.
    pub fn start(config: Config) -> Result<Self, ConfigError> {
        Self::start_driven_by(Driver::OwnThread, config)
    }

    fn start_driven_by(driver: Driver, mut config: Config) -> Result<Self, ConfigError> {
        if config.disabled {
            config.exporters.clear();
        }
        let config = config.validate()?;
        let (mut specs, faults) = provider_specs(&config, driver);
        if !faults.is_empty() {
            return Err(ConfigError::at_start(faults, config));
        }
        let meter = prepare_self_observation(&mut specs, &config);
        match Self::start_providers(specs, &config) {
            Ok(telemetry) => {
                if let Some(meter) = meter {
                    let (sets, marks) = (telemetry.providers(), telemetry.main.open_marks().clone());
                    let sets = sets.map(|provider| Arc::downgrade(provider.exporters()));
                    self_observation::observe(&sets, &meter, &config, move || marks.count());
                }
                report_configuration(&config);
                Ok(telemetry)
            }
            Err(StartError::NoThread(error)) => {
                Err(ConfigError::at_start(no_thread(&config, &error), config))
            }
            Err(StartError::Spool { exporter, error }) => {
                Err(ConfigError::at_start(vec![(exporter, error.to_string())], config))
            }
        }
    }

    /// Starts the telemetry without threads: records are sent when the program calls [`pump`](Self::pump),
    /// [`flush`](Self::flush) or [`shutdown`](Self::shutdown), on the calling thread. For single-threaded programs, and
    /// for environments in which no thread may be started.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use standpipe::{Config, Exporter, Telemetry};
    ///
    /// # #[cfg(feature = "receiver")] {
    /// # let receiver = standpipe::receiver::Receiver::start()?;
    /// # let endpoint = receiver.endpoint();
    /// # let mut turns = 0..3;
    /// # let mut wait_for_work_until = |_: Option<Instant>| turns.next();
    /// let config = Config::new().service_name("shop").exporter(Exporter::http(endpoint));
    /// let telemetry = Telemetry::start_manual(config)?;
    /// let tracer = telemetry.tracer("shop");
    /// // a loop around poll, epoll or select
    /// while let Some(job) = wait_for_work_until(telemetry.pump(Duration::from_millis(5))) {
    ///     tracer.span_builder("job").set("job.id", job).start().end();
    /// }
    /// let ledger = telemetry.shutdown(Duration::from_secs(2));
    /// assert_eq!((ledger.total().delivered, ledger.lost()), (3, 0));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Queue, batches, throttle, retries and the ledger work as with threads. The differences are:
    ///
    /// - Nothing happens between two calls. If the queue is full, a new record is dropped, or its caller sends until
    ///   there is room, within [`block_timeout`](Exporter::block_timeout). Such a caller may hold a lock of the
    ///   program, so it runs no callbacks of metrics, and problems are reported by the next call of `pump`, `flush` or
    ///   `shutdown`.
    /// - The [hook](Config::on_problem) and the callbacks of metrics run on the thread that calls `pump`, `flush` or
    ///   `shutdown`. Records that they emit to the same telemetry are not enqueued but counted, as on an exporter's own
    ///   thread.
    /// - Names are resolved on the calling thread, without a timeout. An IP address needs no resolution.
    /// - The libraries ureq and rustls may log on the calling thread, so a logger must not hold a lock while it emits a
    ///   record.
    ///
    /// The telemetry may be used by several threads. One thread at a time drives an exporter; the others wait within
    /// their budgets.
    ///
    /// # Errors
    /// Returns the errors of [`start`](Self::start), and an error if callers could [wait without
    /// limit](Exporter::block_timeout) for room in the queue. Waiting without limit is the default of exporters in
    /// configuration files in the layout of the Stalwart mail server (`[tracer.<id>]`).
    pub fn start_manual(config: Config) -> Result<Self, ConfigError> {
        Self::start_driven_by(Driver::Caller, config)
    }

    fn start_providers(specs: [Parts; 2], config: &Config) -> Result<Self, StartError> {
        let open_marks = OpenMarks::new();
        let start =
            |(spec, registry)| Provider::start(spec, registry, open_marks.clone(), config.propagators);
        let [main, application] = specs.map(start);
        let (drop_budget, pumps) = (config.end.drop_budget, AtomicUsize::new(0));
        Ok(Self { main: main?, application: application?, drop_budget, pumps })
    }

    /// Returns the tracer of a part of the program. `scope` is the name of that part, by convention that of the crate,
    /// or a [`Scope`](ScopeBuilder) with version, schema URL and attributes.
    pub fn tracer<'s>(&self, scope: impl Into<ScopeBuilder<'s>>) -> Tracer {
        self.main.tracer(scope)
    }

    /// Returns the logger of a part of the program. `scope` is the name of that part, or a [`Scope`](ScopeBuilder).
    /// Keep the logger: this call takes longer than emitting a record.
    ///
    /// ```
    /// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
    /// telemetry.logger("shop").info("paid").set("amount", 12.5).emit();
    /// ```
    pub fn logger<'s>(&self, scope: impl Into<ScopeBuilder<'s>>) -> Logger {
        self.main.logger(scope)
    }

    /// Returns the meter of a part of the program. `scope` is the name of that part, or a [`Scope`](ScopeBuilder).
    pub fn meter<'s>(&self, scope: impl Into<ScopeBuilder<'s>>) -> Meter {
        self.main.meter(scope)
    }

    /// Returns the propagators that [`Config::propagators`], the file or `OTEL_PROPAGATORS` selects, to read the
    /// contexts of callers and to pass contexts on. They also work if the telemetry is [disabled](Config::disabled).
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use standpipe::{Context, Telemetry};
    ///
    /// fn serve(telemetry: &Telemetry, headers: &HashMap<String, String>) {
    ///     let propagators = telemetry.propagators();
    ///     let _caller = propagators.extract(|name| headers.get(name)).enter();
    ///     let _request = telemetry.tracer("shop").span("GET /orders");
    ///     propagators.inject(&Context::current(), |name, value| println!("{name}: {value}"));
    /// }
    /// ```
    pub fn propagators(&self) -> Propagators {
        self.main.propagators()
    }

    /// Returns the second provider, for a program that runs an application: it keeps the application's telemetry
    /// separate from the program's own.
    ///
    /// [`Config::application`] or a file configures it. It has its own resource, sampler, exporters and queues, even if
    /// both providers send to the same collector. Without a configuration, it is a no-op. Flush, shutdown and ledger
    /// cover both providers; the names of the application's exporters begin with `application/`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use standpipe::{Application, Config, Exporter, Telemetry};
    ///
    /// # #[cfg(feature = "receiver")] {
    /// # let receiver = standpipe::receiver::Receiver::start().unwrap();
    /// # let endpoint = &receiver.endpoint();
    /// let shop = Application::new().service_name("shop").exporter(Exporter::http(endpoint));
    /// let config = Config::new().service_name("runner").exporter(Exporter::http(endpoint)).application(shop);
    /// let telemetry = Telemetry::start(config)?;
    /// telemetry.tracer("runner").span("start the shop").end(); // service.name=runner
    /// telemetry.application().tracer("shop").span("checkout").end(); // service.name=shop
    /// let ledger = telemetry.shutdown(Duration::from_secs(2));
    /// assert_eq!(ledger.exporters[1].name, "application/otlp");
    /// # }
    /// # Ok::<(), standpipe::ConfigError>(())
    /// ```
    ///
    /// # Spans of both providers
    ///
    /// A thread has one current span, which may belong to either provider. A span of one provider inside a span of the
    /// other is its child in the same trace, and log records of both providers contain the ids of the current span. A
    /// [`parent_based`](crate::Sampler::parent_based) sampler follows the parent span, even if it belongs to the other
    /// provider. Any other sampler ignores the parent, so a trace may contain the spans of only one provider.
    /// [`SpanBuilder::root`](crate::SpanBuilder::root) begins a separate trace.
    pub fn application(&self) -> &Provider {
        &self.application
    }

    /// Returns the current counts of all records by outcome, and the open spans.
    pub fn ledger(&self) -> Ledger {
        let exporters = self.exporter_sets().into_iter().flat_map(ExporterSet::ledger).collect();
        Ledger { exporters, open_spans: self.main.open_marks().read() }
    }

    /// Drives the exporters on this thread: collects metrics, and sends and retries batches as throttle, linger and
    /// back-off allow. Returns the time of the next call; the program should also call `pump` after emitting records.
    /// Returns `None` if nothing is queued and no metrics are to be collected, and always if the exporters have
    /// [threads](Self::start).
    ///
    /// The call returns at once if nothing is due, and begins no attempt after the budget is used up. It does not
    /// interrupt an attempt, because the collector might already have the records. So a call may exceed its budget by
    /// one [`timeout`](Exporter::timeout) of an exporter; set the timeout accordingly. With a budget of zero, `pump`
    /// only returns the time of the next call.
    ///
    /// A call from a [hook](Config::on_problem) or from the callback of a metric does nothing.
    pub fn pump(&self, budget: Duration) -> Option<Instant> {
        // A call with a budget of zero does not advance the order of the exporters.
        let first = self.pumps.fetch_add(usize::from(!budget.is_zero()), Ordering::Relaxed);
        exporter_set::pump(&self.exporter_sets(), first, deadline(budget))
    }

    /// Sends all records that were accepted before the call, without waiting for throttle or linger, and collects and
    /// sends the metrics. [Without threads](Self::start_manual), this thread sends, and interrupts a running attempt
    /// when the budget is used up; the records of that attempt stay in the queue and may be sent twice. Pauses after
    /// failed attempts are shortened to 100 ms, unless the server requested them.
    ///
    /// On an exporter's own thread, for example in a [hook](crate::Config::on_problem), this function returns at once,
    /// because the thread would wait for itself.
    pub fn flush(&self, budget: Duration) -> FlushOutcome {
        exporter_set::flush(&self.exporter_sets(), deadline(budget))
    }

    /// Sends all queued records, ends the threads and returns the final ledger. Returns within the budget plus 50 ms,
    /// whatever the network does. The ledger counts records that could not be sent as dropped by the shutdown. A thread
    /// that waits for a name server or a connection cannot be interrupted; it ends later, at its timeout.
    ///
    /// If no attempt has ever reached a server, because connections were refused or the host is unknown, the shutdown
    /// makes two attempts for each signal within 300 ms and does not use the rest of the budget.
    ///
    /// Open spans are listed in the ledger and will not be sent. Later records are not enqueued but counted. A second
    /// shutdown returns the ledger again. If the first one is still running, the second waits for it within its own
    /// budget; records may then still be in flight.
    ///
    /// On an exporter's own thread, for example in a [hook](crate::Config::on_problem) or in the callback of a metric,
    /// a shutdown only begins: it returns at once, and the exporters send the remaining records within the budget.
    pub fn shutdown(&self, budget: Duration) -> Ledger {
        exporter_set::stop(&self.exporter_sets(), deadline(budget));
        self.ledger()
    }

    fn providers(&self) -> [&Provider; 2] {
        [&self.main, &self.application]
    }

    fn exporter_sets(&self) -> [&ExporterSet; 2] {
        self.providers().map(|provider| &**provider.exporters())
    }
}

/// Returns the main provider, so that functions with a provider as argument, such as bridges, also accept the
/// telemetry.
impl AsRef<Provider> for Telemetry {
    fn as_ref(&self) -> &Provider {
        &self.main
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        exporter_set::stop(&self.exporter_sets(), deadline(self.drop_budget));
    }
}

/// Prepares the exporters for self-observation, and returns the meter for it; `None` if it is off, or if nothing would
/// export its metrics.
fn prepare_self_observation(specs: &mut [Parts; 2], config: &Config) -> Option<Meter> {
    if !config.self_observation || !demand::SELF_OBSERVATION.is_raised() {
        return None;
    }
    let [(main, registry), (application, _)] = specs;
    main.exporters.iter().find(|exporter| exporter.metrics.is_some())?;
    let scope = ScopeBuilder::new(self_observation::SCOPE).version(env!("CARGO_PKG_VERSION"));
    // The main provider exports the metrics about all exporters, including those of the application.
    let meter = Meter::new(Arc::clone(registry), Arc::new(scope.into_scope(Signal::Metrics, None)));
    self_observation::prepare([main, application], &meter, config);
    Some(meter)
}

/// Reports warnings about the configuration, and a missing service name, to the hook.
fn report_configuration(config: &Config) {
    let is_warning = |diagnostic: &&Diagnostic| diagnostic.severity == DiagnosticSeverity::Warning;
    let of_diagnostic =
        |diagnostic: &Diagnostic| (String::new(), ProblemKind::Configuration, diagnostic.to_string());
    let warnings = config.diagnostics().iter().filter(is_warning).map(of_diagnostic);
    for (exporter, kind, message) in warnings.chain(missing_name(config)) {
        ProblemReporter::new(&exporter, config.on_problem.clone(), None).report_once(None, kind, message);
    }
}

/// Returns the problem of a missing service name, if any: exporter, kind and message.
fn missing_name(config: &Config) -> Option<(String, ProblemKind, String)> {
    let exporter = config.exporters.iter().find(|exporter| !config.provider(exporter).is_named())?;
    let fix = match exporter.provider() {
        Some(ProviderName::Application) => "the application's name in the program, serviceName in the file",
        _ => "the service's name in the program, service-name in [telemetry] of the file",
    };
    let name = config.provider(exporter).shown_service_name();
    let message =
        format!("no service name is set, records are sent as {name}: set {fix}, or OTEL_SERVICE_NAME");
    Some((exporter.name().to_owned(), ProblemKind::NoServiceName, message))
}

/// The name of an exporter, and the reason why it cannot be started.
type Fault = (String, String);

fn no_thread(config: &Config, error: &io::Error) -> Vec<Fault> {
    let why = match error.kind() {
        io::ErrorKind::Unsupported => "this target has no threads; use Telemetry::start_manual".to_owned(),
        _ => error.to_string(),
    };
    let fault =
        |exporter: &Exporter| (exporter.name().to_owned(), format!("its thread cannot be started: {why}"));
    config.exporters.iter().map(fault).collect()
}

/// The parts of a provider: its exporters, and the instruments that they read.
type Parts = (ProviderSpec, Arc<Registry>);

/// Returns the parts of the main provider and of the application's, and the exporters that cannot be started.
fn provider_specs(config: &Config, driver: Driver) -> ([Parts; 2], Vec<Fault>) {
    let is_of_application = |exporter: &&Exporter| exporter.provider() == Some(ProviderName::Application);
    let (application, main): (Vec<_>, Vec<_>) = config.exporters.iter().partition(is_of_application);
    let (owner, mut faults) = (Owner::default(), Vec::new());
    let providers = [(&config.main, main), (&config.application, application)];
    let specs = providers
        .map(|(settings, exporters)| provider_spec(settings, &exporters, config, driver, owner, &mut faults));
    (specs, faults)
}

fn provider_spec(
    settings: &ProviderSettings,
    exporters: &[&Exporter],
    config: &Config,
    driver: Driver,
    owner: Owner,
    faults: &mut Vec<Fault>,
) -> Parts {
    let resource = resource::source(settings, &config.detectors);
    let registry = Arc::new(Registry::new(readers(exporters), settings.views.clone(), config.exemplars));
    let mut readers = (0..).map(|number| Reader::new(Arc::clone(&registry), number));
    let mut specs = Vec::new();
    for exporter in exporters {
        let reader = exporter.signals.contain(Signal::Metrics).then(|| readers.next()).flatten();
        match opener(exporter, driver) {
            Ok(transport) => {
                let connects = exporter.connection.transport.connects() || exporter.spool.drains;
                specs.push(ExporterSpec {
                    name: exporter.name().to_owned(),
                    filter: RecordFilter { signals: exporter.signals, level: exporter.level },
                    queue: exporter.queue,
                    batch: exporter.batch,
                    pace: exporter.pace,
                    retry: exporter.retry,
                    spool: if connects { exporter.spool.clone() } else { SpoolSettings::default() },
                    attempt_timeout: exporter.attempt_timeout(),
                    resource: Arc::clone(&resource),
                    metrics: reader.map(|reader| (reader, exporter.reader.interval)),
                    hook: config.on_problem.clone(),
                    transport,
                    driver,
                    observer: None,
                });
            }
            Err(error) => faults.push((exporter.name().to_owned(), error.to_string())),
        }
    }
    let spec = ProviderSpec {
        owner,
        exporters: specs,
        limits: config.span_limits,
        log_limits: config.log_limits,
        baggage_attributes: config.baggage_attributes.clone(),
        sampler: settings.sampler.clone(),
        id_generator: config.id_generator.clone(),
        scope_levels: config.scope_levels.clone(),
        span_counts: None,
    };
    (spec, registry)
}

/// Returns the reader settings of all exporters that send metrics.
fn readers(exporters: &[&Exporter]) -> Vec<PeriodicReaderSettings> {
    let sends_metrics = |exporter: &&&Exporter| exporter.signals.contain(Signal::Metrics);
    exporters.iter().filter(sends_metrics).map(|exporter| exporter.reader).collect()
}

fn opener(exporter: &Exporter, driver: Driver) -> Result<Opener, Box<dyn Error + Send + Sync>> {
    if driver == Driver::Caller {
        check_waits(exporter)?;
    }
    let mut connection = exporter.connection.clone();
    for source in &mut connection.header_sources {
        // Records that the function emits would cause requests, for which the function would run again.
        let get = Arc::clone(&source.get);
        source.get = Arc::new(move || suppress_instrumentation(|| get()));
    }
    match connection.transport {
        Transport::Http | Transport::HttpJson => Ok(transport::http(&connection, driver)?),
        Transport::Grpc if demand::GRPC.is_raised() => Ok(transport::grpc(&connection, driver)?),
        // Unreachable: every function that selects gRPC sets the flag. The branch lets the linker remove gRPC.
        Transport::Grpc => Err("nothing in this program asks for gRPC".into()),
        _ => Ok(transport::lines(&exporter.connection, exporter.spool.drains)?),
    }
}

/// Refuses a configuration in which callers wait without limit although no thread sends: the program would hang.
fn check_waits(exporter: &Exporter) -> Result<(), &'static str> {
    let is_endless = exporter.queue.when_full == WhenFull::Block && exporter.queue.block_timeout.is_none();
    let has_callers = [Signal::Traces, Signal::Logs].iter().any(|&signal| exporter.signals.contain(signal));
    if !is_endless || !has_callers {
        return Ok(());
    }
    Err(
        "without threads, callers must not wait without limit for room in the queue: set block-timeout, or lossy = true to \
         drop records when it is full (Exporter::block_timeout, WhenFull::DropNewest)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_threads_is_named_as_the_reason() {
        let config = Config::new().exporter(Exporter::http("http://127.0.0.1:4318"));
        let words = "its thread cannot be started: this target has no threads; use Telemetry::start_manual";
        let faults = no_thread(&config, &io::ErrorKind::Unsupported.into());
        assert_eq!(faults, [("otlp".to_owned(), words.to_owned())]);
    }
}
