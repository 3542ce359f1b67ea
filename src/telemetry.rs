//! Starts, flushes and shuts down telemetry. The one place where configuration becomes providers, exporters and transports.

pub(crate) mod global;
pub(crate) mod provider;
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
use crate::context::Owner;
use crate::logs::Logger;
use crate::metrics::{Meter, Reader, Registry};
use crate::pipeline::exporter_handle::{ExporterSpec, RecordFilter, StartError};
use crate::pipeline::exporter_set::{self, ExporterSet, FlushOutcome, ProviderSpec, deadline};
use crate::pipeline::ledger::Ledger;
use crate::pipeline::problems::ProblemReporter;
use crate::pipeline::self_observation;
use crate::problem::ProblemKind;
use crate::process::Driver;
use crate::record::Signal;
use crate::telemetry::provider::Provider;
use crate::trace::{OpenMarks, Tracer};
use crate::transport::{self, HttpSpec, Opener};

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
/// Dropped without [`shutdown`](Self::shutdown) it shuts itself down, with two seconds of time unless
/// [`Config::drop_budget`] says otherwise; dropped on an exporter's own thread it waits for nothing, and the exporters have
/// that time.
///
/// # In a forked child
///
/// A child starts exporters of its own at its first record or measurement; what it inherited is the parent's to send. A child
/// of a program that had shut down starts nothing. Its exporter's thread may never get to its work, as it may wait for a
/// lock that a thread of the parent held: callers, and a shutdown, wait for five seconds at most for one that has not begun
/// to run. From then on a record that finds no room is counted, and the caller goes on.
///
/// glibc's `_Fork` is not supported: it runs no handlers, so that its child does not know that it is one. Such a child must
/// not use the telemetry, whose locks may be held by threads of the parent.
#[derive(Debug)]
#[must_use = "dropping it shuts the telemetry down"]
pub struct Telemetry {
    main: Provider,
    application: Provider,
    drop_budget: Duration,
    /// How often it was pumped.
    pumps: AtomicUsize,
}

impl Telemetry {
    /// Starts one background thread for each exporter, or none if the configuration is
    /// [disabled](Config::disabled). No connection is made before there is something to send. All signals are blocked
    /// on these threads: a program's handlers run on the program's own.
    ///
    /// Before this returns, the [hook](Config::on_problem) is called with each warning of the
    /// [configuration](ProblemKind::Configuration), such as an unknown variable, and if
    /// [no service name](ProblemKind::NoServiceName) is set.
    ///
    /// # Errors
    /// Every problem of the configuration at once. [`ConfigError::into_usable`] gives what can be
    /// started nevertheless. Without a thread, as on targets that have none, such as `wasm32-wasip1`, that is nothing:
    /// [`start_manual`](Self::start_manual) is for them.
    pub fn start(config: Config) -> Result<Self, ConfigError> {
        Self::start_driven_by(Driver::OwnThread, config)
    }

    fn start_driven_by(driver: Driver, mut config: Config) -> Result<Self, ConfigError> {
        if config.disabled {
            config.exporters.clear();
        }
        let config = config.validate()?;
        let (specs, faults) = provider_specs(&config, driver);
        if !faults.is_empty() {
            return Err(ConfigError::at_start(faults, config));
        }
        match Self::start_providers(specs, config.end.drop_budget) {
            Ok(telemetry) => {
                telemetry.start_self_observation(&config);
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

    /// As [`start`](Self::start), but without any thread: records are sent when the program calls [`pump`](Self::pump),
    /// [`flush`](Self::flush) or [`shutdown`](Self::shutdown), on the thread that calls. For programs of one thread, and for
    /// places where none may be started.
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
    /// // as poll, epoll or a select of the program's own does it
    /// while let Some(job) = wait_for_work_until(telemetry.pump(Duration::from_millis(5))) {
    ///     tracer.span_builder("job").set("job.id", job).start().end();
    /// }
    /// let ledger = telemetry.shutdown(Duration::from_secs(2));
    /// assert_eq!((ledger.total().delivered, ledger.lost()), (3, 0));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Queue, batches, throttle, retries and the ledger are as they are with threads. These are different:
    ///
    /// - Nothing happens between two calls. What finds no room in the queue is dropped, or has its caller send until there is
    ///   room, within [`block_timeout`](Exporter::block_timeout). While it does, it collects no metrics, and problems are kept
    ///   for the next call: the caller may hold a lock that the program's own code needs.
    /// - The [hook](Config::on_problem) and the callbacks of metrics are called on the thread that calls `pump`, `flush` or
    ///   `shutdown`. What they record there for the same telemetry is not enqueued and counted, as on an exporter's own thread.
    /// - The system looks up names on the calling thread, and that has no timeout. An address needs no look-up.
    /// - Libraries that send, ureq and rustls, may log on the calling thread: a logger must not hold a lock while it makes a
    ///   record.
    ///
    /// It may be used from several threads. One at a time drives an exporter, and the others wait for it within their
    /// budgets.
    ///
    /// # Errors
    /// As [`start`](Self::start); and where callers would [wait without limit](Exporter::block_timeout) for room, as they do
    /// in Stalwart's files unless they say otherwise.
    pub fn start_manual(config: Config) -> Result<Self, ConfigError> {
        Self::start_driven_by(Driver::Caller, config)
    }

    fn start_providers(specs: [Parts; 2], drop_budget: Duration) -> Result<Self, StartError> {
        let open_marks = OpenMarks::new();
        let start = |(spec, registry)| Provider::start(spec, registry, open_marks.clone());
        let [main, application] = specs.map(start);
        Ok(Self { main: main?, application: application?, drop_budget, pumps: AtomicUsize::new(0) })
    }

    fn start_self_observation(&self, config: &Config) {
        if config.self_observation && demand::SELF_OBSERVATION.is_raised() {
            // the health of the exporters is the program's own telemetry, whichever provider they belong to
            let own = self.meter_with_version(self_observation::SCOPE, env!("CARGO_PKG_VERSION"));
            let exporter_sets = self.providers().map(|provider| Arc::downgrade(provider.exporters()));
            self_observation::observe(&exporter_sets, &own, &config.exporters);
        }
    }

    /// The tracer of a named part of the program, by convention the name of the crate.
    pub fn tracer(&self, scope: &str) -> Tracer {
        self.main.tracer(scope)
    }

    /// The tracer of a part of the program that has a version.
    pub fn tracer_with_version(&self, scope: &str, version: &str) -> Tracer {
        self.main.tracer_with_version(scope, version)
    }

    /// The logger of a named part of the program, by convention the name of the crate. Keep it: getting it for
    /// each record costs more than the record.
    ///
    /// ```
    /// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
    /// telemetry.logger("shop").info("paid").set("amount", 12.5).emit();
    /// ```
    pub fn logger(&self, scope: &str) -> Logger {
        self.main.logger(scope)
    }

    /// The logger of a part of the program that has a version.
    pub fn logger_with_version(&self, scope: &str, version: &str) -> Logger {
        self.main.logger_with_version(scope, version)
    }

    /// The meter of a named part of the program, by convention the name of the crate.
    pub fn meter(&self, scope: &str) -> Meter {
        self.main.meter(scope)
    }

    /// The meter of a part of the program that has a version.
    pub fn meter_with_version(&self, scope: &str, version: &str) -> Meter {
        self.main.meter_with_version(scope, version)
    }

    /// The second provider: telemetry of the application that the program runs, apart from its own.
    ///
    /// It is set up by [`Config::application`] or by a file, and has its own resource, sampler, exporters and queues,
    /// even where both go to the same collector. What is not configured is a no-op. Flush, shutdown and ledger are for both
    /// providers; there the names of its exporters begin with `application/`.
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
    /// A thread has one current span, whichever provider it belongs to: a span of one provider inside a span of the other is
    /// its child and of the same trace, and log records of either provider carry its ids. A
    /// [`parent_based`](crate::Sampler::parent_based) sampler follows that parent; any other decides for its own provider
    /// alone. [`SpanBuilder::root`](crate::SpanBuilder::root) begins a trace that stands apart.
    pub fn application(&self) -> &Provider {
        &self.application
    }

    /// What became of all records until now, and which spans are open.
    pub fn ledger(&self) -> Ledger {
        let exporters = self.exporter_sets().flat_map(ExporterSet::ledger).collect();
        Ledger { exporters, open_spans: self.main.open_marks().read() }
    }

    /// Does what is due on this thread: collects metrics, sends and retries what throttle, linger and back-off allow. Gives
    /// when more will be due: then, or after it has made records, the program should call it again. `None` if nothing
    /// is queued and no metrics are to be collected; always, if the exporters have [threads](Self::start), as there is
    /// nothing to do.
    ///
    /// It begins nothing once the budget is used up, and returns at once if nothing is due. An attempt that has begun is not
    /// cut short, as the collector might have its records already: a call may last as long as one
    /// [`timeout`](Exporter::timeout) of an exporter more. Set that to what the program can bear. With a budget of zero it
    /// only gives the time.
    ///
    /// Nothing is done in a [hook](Config::on_problem) or in the callback of a metric.
    pub fn pump(&self, budget: Duration) -> Option<Instant> {
        // a call that only asks for the time takes no turn from the exporters
        let first = self.pumps.fetch_add(usize::from(!budget.is_zero()), Ordering::Relaxed);
        exporter_set::pump(self.exporter_sets(), first, deadline(budget))
    }

    /// Sends all that was accepted before the call, without waiting for throttle or linger, and collects and sends the
    /// metrics. If it was started [without threads](Self::start_manual), this thread sends, and ends an attempt when the
    /// budget is used up; its records stay in the queue, and may be sent twice. A pause after a failed attempt is cut to
    /// 100 ms, unless the server asked for it.
    ///
    /// Nothing is sent or waited for on an exporter's own thread, as in a [hook](crate::Config::on_problem): it would wait
    /// for itself.
    pub fn flush(&self, budget: Duration) -> FlushOutcome {
        exporter_set::flush(self.exporter_sets(), deadline(budget))
    }

    /// Sends what there is, ends the threads and gives the final ledger, within the budget plus 50 ms
    /// whatever the network does. What could not be sent is in the ledger as lost to the shutdown. A thread that waits
    /// for a name server or a connection cannot be woken: it ends by itself, at its time-out.
    ///
    /// The budget is not used up where no attempt has ever found a server, as each was refused or the host is not known:
    /// then it makes two attempts of each signal, within 300 ms.
    ///
    /// Spans that are still open are named in the ledger, and will not be sent.
    /// Later records are not enqueued and counted; a second shutdown only gives the ledger again. One that comes
    /// while the first is under way waits for it within its own budget; then some may still be in flight.
    ///
    /// On an exporter's own thread, as in a [hook](crate::Config::on_problem) or in the callback of a metric, it only
    /// begins: it returns at once with what is still in flight, and the exporters send that within the budget.
    pub fn shutdown(&self, budget: Duration) -> Ledger {
        exporter_set::stop(self.exporter_sets(), deadline(budget));
        self.ledger()
    }

    fn providers(&self) -> [&Provider; 2] {
        [&self.main, &self.application]
    }

    fn exporter_sets(&self) -> impl Iterator<Item = &ExporterSet> {
        self.providers().into_iter().map(|provider| &**provider.exporters())
    }
}

/// The main provider: what takes either, such as a bridge, takes the telemetry for it.
impl AsRef<Provider> for Telemetry {
    fn as_ref(&self) -> &Provider {
        &self.main
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        exporter_set::stop(self.exporter_sets(), deadline(self.drop_budget));
    }
}

/// Calls the hook with what is probably not meant: warnings of the configuration, and a name that is made up.
fn report_configuration(config: &Config) {
    let is_warning = |diagnostic: &&Diagnostic| diagnostic.severity == DiagnosticSeverity::Warning;
    let of_diagnostic =
        |diagnostic: &Diagnostic| (String::new(), ProblemKind::Configuration, diagnostic.to_string());
    let warnings = config.diagnostics().iter().filter(is_warning).map(of_diagnostic);
    for (exporter, kind, message) in warnings.chain(missing_name(config)) {
        ProblemReporter::new(&exporter, config.on_problem.clone(), None).report_once(None, kind, message);
    }
}

/// The problem of records that would be sent under a name that is made up: its exporter, kind and message.
fn missing_name(config: &Config) -> Option<(String, ProblemKind, String)> {
    let exporter = config.exporters.iter().find(|exporter| !config.provider(exporter).is_named())?;
    let fix = match exporter.provider() {
        Some(ProviderName::Application) => "the application's name in the program, serviceName in the file",
        _ => "the service's name in the program, service-name in [telemetry] of the file",
    };
    let name = config.provider(exporter).shown_service_name();
    let message = format!("records are sent as {name}: set {fix}, or OTEL_SERVICE_NAME");
    Some((exporter.name().to_owned(), ProblemKind::NoServiceName, message))
}

/// The name of an exporter, and why it cannot be started.
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

/// What a provider is built from: its exporters, and the instruments that they read.
type Parts = (ProviderSpec, Arc<Registry>);

/// Returns the parts of the main provider and of the application's, and which exporters cannot be started.
fn provider_specs(config: &Config, driver: Driver) -> ([Parts; 2], Vec<Fault>) {
    let is_of_application = |exporter: &&Exporter| exporter.provider() == Some(ProviderName::Application);
    let (application, main): (Vec<_>, Vec<_>) = config.exporters.iter().partition(is_of_application);
    let (owner, mut faults) = (Owner::new(), Vec::new());
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
    let resource = settings.complete_resource().field();
    let registry = Arc::new(Registry::new(readers(exporters)));
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
                    resource: resource.clone(),
                    metrics: reader.map(|reader| (reader, exporter.reader.interval)),
                    hook: config.on_problem.clone(),
                    transport,
                    driver,
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
        sampler: settings.sampler,
    };
    (spec, registry)
}

/// The settings of all exporters that send metrics.
fn readers(exporters: &[&Exporter]) -> Vec<PeriodicReaderSettings> {
    let sends_metrics = |exporter: &&&Exporter| exporter.signals.contain(Signal::Metrics);
    exporters.iter().filter(sends_metrics).map(|exporter| exporter.reader).collect()
}

fn opener(exporter: &Exporter, driver: Driver) -> Result<Opener, Box<dyn Error + Send + Sync>> {
    if driver == Driver::Caller {
        check_waits(exporter)?;
    }
    match exporter.connection.transport {
        Transport::Http => {
            let http = HttpSpec::new(&exporter.connection)?;
            Ok(Box::new(move || Box::new(http.open(driver))))
        }
        Transport::Grpc if demand::GRPC.is_raised() => Ok(transport::grpc(&exporter.connection, driver)?),
        // not met: what sets gRPC raises the demand
        Transport::Grpc => Err("nothing in this program asks for gRPC".into()),
        Transport::Console => Ok(transport::console(exporter.spool.drains)?),
    }
}

/// Refuses callers that wait without limit where no thread sends: the whole program would wait with them.
fn check_waits(exporter: &Exporter) -> Result<(), &'static str> {
    let is_endless = exporter.queue.when_full == WhenFull::Block && exporter.queue.block_timeout.is_none();
    let has_callers = [Signal::Traces, Signal::Logs].iter().any(|&signal| exporter.signals.contain(signal));
    if !is_endless || !has_callers {
        return Ok(());
    }
    Err(
        "without a thread that sends, callers may not wait for room without limit: set block-timeout, or lossy = true \
         to drop what finds none (Exporter::block_timeout, WhenFull::DropNewest)",
    )
}

#[cfg(test)]
mod tests;
