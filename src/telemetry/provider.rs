//! The provider: exporters, resource, sampler, instruments and scopes that tracers, loggers and meters share.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{LogLimits, Sampler, SpanLimits};
use crate::context::Owner;
use crate::logs::Logger;
use crate::metrics::{Meter, Registry};
use crate::pipeline::exporter_handle::StartError;
use crate::pipeline::exporter_set::{self, ExporterSet, FlushOutcome, ProviderSpec};
use crate::record::{Scope, Signal};
use crate::telemetry::scope_cache::ScopeCache;
use crate::trace::{OpenMarks, Tracer};

/// A provider of tracers, loggers and meters, with its own resource, sampler, exporters and queues. The first provider
/// is the [`Telemetry`](crate::Telemetry) itself; [`Telemetry::application`](crate::Telemetry::application) returns the
/// second.
///
/// The two providers share only the thread's current span, and end together with the [`Telemetry`](crate::Telemetry). A
/// clone refers to the same provider. A provider without an exporter is a no-op: it has no thread and no queue, and its
/// records use no memory. Its spans are left out of the trace, which stays connected: they propagate the context of
/// their parent.
///
/// ```
/// use standpipe::Provider;
///
/// fn serve(provider: &Provider) {
///     let _request = provider.tracer("shop").span("GET /orders");
///     provider.logger("shop").info("served").emit();
///     provider.meter("shop").counter("requests").add(1, ());
/// }
///
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// serve(telemetry.application());
/// ```
#[derive(Debug, Clone)]
pub struct Provider {
    exporters: Arc<ExporterSet>,
    registry: Arc<Registry>,
    scopes: Arc<ScopeCache<ScopeKey, Arc<Scope>>>,
    open_marks: OpenMarks,
}

/// Signal, name and version of a scope.
type ScopeKey = (Signal, String, String);

impl Provider {
    /// Starts the exporters of a provider. They collect the metrics of the registry.
    ///
    /// # Errors
    /// Returns an error if a thread cannot be started or a spool cannot be opened. No thread is left running.
    pub(crate) fn start(
        spec: ProviderSpec,
        registry: Arc<Registry>,
        open_marks: OpenMarks,
    ) -> Result<Self, StartError> {
        let exporters = Arc::new(ExporterSet::start(Arc::new(spec))?);
        let of_child = Arc::downgrade(&exporters);
        registry.start_in_child_by(move || {
            of_child.upgrade().iter().for_each(|exporters| exporters.start_in_child());
        });
        Ok(Self { exporters, registry, scopes: Arc::default(), open_marks })
    }

    /// Returns a provider without exporters.
    pub(crate) fn idle() -> Self {
        let spec = ProviderSpec {
            owner: Owner::new(),
            exporters: Vec::new(),
            limits: SpanLimits::default(),
            log_limits: LogLimits::default(),
            baggage_attributes: Vec::new(),
            sampler: Sampler::default(),
        };
        let started = Self::start(spec, Arc::new(Registry::new(Vec::new())), OpenMarks::new());
        started.unwrap_or_else(|_| unreachable!("no thread is started"))
    }

    /// Returns the tracer of a part of the program, by convention named after the crate.
    pub fn tracer(&self, scope: &str) -> Tracer {
        self.tracer_with_version(scope, "")
    }

    /// Returns the tracer of a part of the program, with its version.
    pub fn tracer_with_version(&self, scope: &str, version: &str) -> Tracer {
        let scope = self.scope(Signal::Traces, scope, version);
        Tracer::new(Arc::clone(&self.exporters), scope, self.open_marks.clone())
    }

    /// Returns the logger of a part of the program, by convention named after the crate. Keep it: this call takes
    /// longer than emitting a record.
    pub fn logger(&self, scope: &str) -> Logger {
        self.logger_with_version(scope, "")
    }

    /// Returns the logger of a part of the program, with its version.
    pub fn logger_with_version(&self, scope: &str, version: &str) -> Logger {
        Logger::new(Arc::clone(&self.exporters), self.scope(Signal::Logs, scope, version))
    }

    /// Returns the meter of a part of the program, by convention named after the crate.
    pub fn meter(&self, scope: &str) -> Meter {
        self.meter_with_version(scope, "")
    }

    /// Returns the meter of a part of the program, with its version.
    pub fn meter_with_version(&self, scope: &str, version: &str) -> Meter {
        Meter::new(Arc::clone(&self.registry), self.scope(Signal::Metrics, scope, version))
    }

    /// Sends all records that this provider accepted before the call, without waiting for throttle or linger, and
    /// collects and sends its metrics. The other provider is not affected. Pauses after failed attempts are shortened
    /// to 100 ms, unless the server requested them.
    ///
    /// On an exporter's own thread, for example in a [hook](crate::Config::on_problem), this function returns at once,
    /// because the thread would wait for itself.
    pub fn flush(&self, budget: Duration) -> FlushOutcome {
        exporter_set::flush([&*self.exporters], exporter_set::deadline(budget))
    }

    pub(crate) fn exporters(&self) -> &Arc<ExporterSet> {
        &self.exporters
    }

    pub(crate) fn open_marks(&self) -> &OpenMarks {
        &self.open_marks
    }

    /// Returns the scope of this name, and caches it if there is room.
    fn scope(&self, signal: Signal, name: &str, version: &str) -> Arc<Scope> {
        let is_it = |known: &ScopeKey| (known.0, &*known.1, &*known.2) == (signal, name, version);
        let make = || {
            let key = (signal, name.to_owned(), version.to_owned());
            (key, Arc::new(Scope::new(signal, name, version)))
        };
        self.scopes.get_or_make((signal, name, version), is_it, make).into_owned()
    }
}

impl AsRef<Provider> for Provider {
    fn as_ref(&self) -> &Provider {
        self
    }
}
