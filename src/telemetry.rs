//! Start, flush, shutdown: the one place where parts are put together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::config::{Config, ConfigError, Exporter, PushSettings, Transport};
use crate::fork;
use crate::logger::Logger;
use crate::meter::{Meter, Reader, Registry};
use crate::outlet::{Outlet, Plan};
use crate::pipeline::{Blueprint, Intake};
use crate::record::{Scope, Signal};
use crate::self_observation::{self, Observed};
use crate::stats::Ledger;
use crate::tracer::Tracer;
use crate::transport::{self, HttpPlan, Opener};

/// How long a drop without a shutdown may take.
const DROP_BUDGET: Duration = Duration::from_secs(2);
/// Scopes beyond this many are not remembered: their names are made up at run time.
const MOST_SCOPES: usize = 1024;

/// The program's telemetry: start it first, shut it down last.
///
/// ```
/// use std::time::Duration;
/// use standpipe::{Config, Exporter, Telemetry};
///
/// # let receiver = standpipe::receiver::Receiver::start().unwrap();
/// # let endpoint = receiver.endpoint();
/// let config = Config::new().service_name("shop").exporter(Exporter::http(endpoint));
/// let telemetry = Telemetry::start(config)?;
/// let tracer = telemetry.tracer("shop");
/// tracer.span("checkout").set("order.id", 4711);
/// let ledger = telemetry.shutdown(Duration::from_secs(2));
/// assert_eq!(ledger.lost(), 0);
/// # Ok::<(), standpipe::ConfigError>(())
/// ```
///
/// Dropped without [`shutdown`](Self::shutdown) it shuts itself down with two seconds of time.
#[derive(Debug)]
#[must_use = "dropping it shuts the telemetry down"]
pub struct Telemetry {
    outlet: Arc<Outlet>,
    registry: Arc<Registry>,
    scopes: Mutex<HashMap<(Signal, String, String), Arc<Scope>>>,
}

/// How a [`flush`](Telemetry::flush) ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Flushed {
    /// All that was accepted before the call is delivered, or counted as lost.
    Complete,
    /// The budget was used up first; so many records are still queued or being sent.
    TimedOut {
        /// Records that are still there, all exporters together.
        left: u64,
    },
}

impl Telemetry {
    /// Starts one background thread for each exporter. No connection is made before there is something to send.
    ///
    /// # Errors
    /// Every problem of the configuration at once. [`ConfigError::into_usable`] gives what can be
    /// started nevertheless.
    pub fn start(config: Config) -> Result<Self, ConfigError> {
        let config = config.validate()?;
        let resource = config.main.resource.clone().with_defaults().field();
        let registry = Arc::new(Registry::new(pushes(&config)));
        let (blueprints, faults) = blueprints(&config, &resource, &registry);
        if !faults.is_empty() {
            return Err(ConfigError::at_start(faults, config));
        }
        let plan = Arc::new(Plan {
            blueprints,
            limits: config.span_limits,
            log_limits: config.log_limits,
            sampler: config.main.sampler,
        });
        match Outlet::start(plan) {
            Ok(outlet) => Ok(Self::run(outlet, registry, &config)),
            Err(error) => {
                let ids = config.exporters.iter().map(Exporter::label);
                let faults = ids.map(|id| (id, format!("its thread cannot be started: {error}"))).collect();
                Err(ConfigError::at_start(faults, config))
            }
        }
    }

    fn run(outlet: Outlet, registry: Arc<Registry>, config: &Config) -> Self {
        let outlet = Arc::new(outlet);
        let of_child = Arc::downgrade(&outlet);
        registry.start_in_child_by(move || {
            of_child.upgrade().iter().for_each(|outlet| outlet.start_in_child());
        });
        let telemetry = Self { outlet, registry, scopes: Mutex::default() };
        if config.self_observation {
            let own = telemetry.meter_with_version(self_observation::SCOPE, env!("CARGO_PKG_VERSION"));
            self_observation::observe(&Arc::downgrade(&telemetry.outlet), &own, observed(config));
        }
        telemetry
    }

    /// The tracer of a named part of the program, by convention the name of the crate.
    pub fn tracer(&self, scope: &str) -> Tracer {
        self.tracer_with_version(scope, "")
    }

    /// The tracer of a part of the program whose version is worth telling.
    pub fn tracer_with_version(&self, scope: &str, version: &str) -> Tracer {
        Tracer::new(Arc::clone(&self.outlet), self.scope(Signal::Traces, scope, version))
    }

    /// The logger of a named part of the program, by convention the name of the crate. Keep it: asking again for
    /// each record costs more than the record.
    ///
    /// ```
    /// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
    /// telemetry.logger("shop").info("paid").set("amount", 12.5).emit();
    /// ```
    pub fn logger(&self, scope: &str) -> Logger {
        self.logger_with_version(scope, "")
    }

    /// The logger of a part of the program whose version is worth telling.
    pub fn logger_with_version(&self, scope: &str, version: &str) -> Logger {
        Logger::new(Arc::clone(&self.outlet), self.scope(Signal::Logs, scope, version))
    }

    /// The meter of a named part of the program, by convention the name of the crate.
    pub fn meter(&self, scope: &str) -> Meter {
        self.meter_with_version(scope, "")
    }

    /// The meter of a part of the program whose version is worth telling.
    pub fn meter_with_version(&self, scope: &str, version: &str) -> Meter {
        Meter::new(Arc::clone(&self.registry), self.scope(Signal::Metrics, scope, version))
    }

    /// What became of all records until now.
    pub fn ledger(&self) -> Ledger {
        self.outlet.ledger()
    }

    /// Sends all that was accepted before the call, without waiting for throttle or linger, and pushes the metrics.
    pub fn flush(&self, budget: Duration) -> Flushed {
        let deadline = deadline(budget);
        let pending: Vec<_> = self.outlet.running().iter().map(|pipeline| pipeline.start_flush()).collect();
        // a worker that ended has settled or counted everything
        let timed_out = |done: &crossbeam_channel::Receiver<()>| {
            done.recv_deadline(deadline).is_err_and(|error| error.is_timeout())
        };
        match pending.iter().filter(|done| timed_out(done)).count() {
            0 => Flushed::Complete,
            _ => Flushed::TimedOut { left: self.ledger().total().in_flight },
        }
    }

    /// Sends what there is, ends the threads and gives the final ledger, within the budget plus 50 ms
    /// whatever the network does. What could not be sent is in the ledger as lost to the shutdown.
    ///
    /// Later records are turned away and counted; a second shutdown only gives the ledger again. One that comes
    /// while the first is under way waits for it within its own budget; then some may still be in flight.
    pub fn shutdown(&self, budget: Duration) -> Ledger {
        self.outlet.stop(deadline(budget));
        self.ledger()
    }

    fn scope(&self, signal: Signal, name: &str, version: &str) -> Arc<Scope> {
        // a child born while another thread holds the lock would find it locked for ever
        fork::undisturbed(|| {
            let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
            let key = (signal, name.to_owned(), version.to_owned());
            if let Some(scope) = scopes.get(&key) {
                return Arc::clone(scope);
            }
            let scope = Arc::new(Scope::new(signal, name, version));
            if scopes.len() < MOST_SCOPES {
                scopes.insert(key, Arc::clone(&scope));
            }
            scope
        })
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.outlet.stop(deadline(DROP_BUDGET));
    }
}

fn deadline(budget: Duration) -> Instant {
    // a budget beyond the clock is as good as a year
    let budget = budget.min(Duration::from_secs(365 * 24 * 3600));
    Instant::now() + budget
}

/// What an exporter's id is and why it cannot be started.
type Fault = (String, String);

fn observed(config: &Config) -> Vec<Observed> {
    let observed = |exporter: &Exporter| Observed {
        id: exporter.label(),
        signals: exporter.signals,
        capacity: exporter.queue.records,
    };
    config.exporters.iter().map(observed).collect()
}

/// The settings of all exporters that send metrics.
fn pushes(config: &Config) -> Vec<PushSettings> {
    let sends_metrics = |exporter: &&Exporter| exporter.signals.contain(Signal::Metrics);
    config.exporters.iter().filter(sends_metrics).map(|exporter| exporter.push).collect()
}

fn blueprints(config: &Config, resource: &[u8], registry: &Arc<Registry>) -> (Vec<Blueprint>, Vec<Fault>) {
    let (mut blueprints, mut faults) = (Vec::new(), Vec::new());
    let mut readers = (0..).map(|number| Reader::new(Arc::clone(registry), number));
    for exporter in &config.exporters {
        let reader = exporter.signals.contain(Signal::Metrics).then(|| readers.next()).flatten();
        match opener(exporter) {
            Ok(transport) => blueprints.push(blueprint(exporter, transport, config, resource, reader)),
            Err(fault) => faults.push((exporter.label(), fault)),
        }
    }
    (blueprints, faults)
}

fn opener(exporter: &Exporter) -> Result<Opener, String> {
    match exporter.http.transport {
        Transport::Http => {
            let http = HttpPlan::new(&exporter.http)?;
            Ok(Box::new(move || Box::new(http.open())))
        }
        Transport::Grpc => Err("this version cannot send over gRPC".to_owned()),
        Transport::Console => transport::console(),
    }
}

fn blueprint(
    exporter: &Exporter,
    transport: Opener,
    config: &Config,
    resource: &[u8],
    reader: Option<Reader>,
) -> Blueprint {
    Blueprint {
        id: exporter.label(),
        intake: Intake { signals: exporter.signals, level: exporter.level },
        queue: exporter.queue,
        batch: exporter.batch,
        pace: exporter.pace,
        retry: exporter.retry,
        attempt_timeout: exporter.http.timeout,
        resource: resource.to_vec(),
        metrics: reader.map(|reader| (reader, exporter.push.interval)),
        hook: config.on_problem.clone(),
        transport,
    }
}
