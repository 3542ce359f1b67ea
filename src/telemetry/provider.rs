//! The provider: exporters, resource, sampler, instruments and scopes that tracers, loggers and meters share.

use std::sync::Arc;
use std::time::Duration;

use crate::config::ExemplarFilter;
use crate::context::Propagators;
use crate::logs::Logger;
use crate::metrics::{Meter, Registry};
use crate::pipeline::exporter_set::{self, ExporterSet, FlushOutcome, ProviderSpec, StartError};
use crate::record::{Scope, ScopeBuilder, Signal};
use crate::telemetry::scope_cache::ScopeCache;
use crate::trace::{Decider, OpenMarks, Tracer};

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
    sampler: Arc<Decider>,
    propagators: Propagators,
}

/// Signal, name, version, schema URL and encoded attributes of a scope.
type ScopeKey = (Signal, String, String, String, Vec<Vec<u8>>);

impl Provider {
    /// Starts the exporters of a provider. They collect the metrics of the registry.
    ///
    /// # Errors
    /// Returns an error if a thread cannot be started or a spool cannot be opened. No thread is left running.
    pub(crate) fn start(
        spec: ProviderSpec,
        registry: Arc<Registry>,
        open_marks: OpenMarks,
        propagators: Propagators,
    ) -> Result<Self, StartError> {
        let exporters = Arc::new(ExporterSet::start(Arc::new(spec))?);
        let of_child = Arc::downgrade(&exporters);
        registry.start_in_child_by(move || {
            of_child.upgrade().iter().for_each(|exporters| exporters.start_in_child());
        });
        let sampler = Arc::new(Decider::new(exporters.spec().sampler.clone()));
        Ok(Self { exporters, registry, scopes: Arc::default(), open_marks, sampler, propagators })
    }

    /// Returns a provider without exporters.
    pub(crate) fn idle() -> Self {
        let registry = Arc::new(Registry::new(Vec::new(), Vec::new(), ExemplarFilter::default()));
        let (spec, open_marks) = (ProviderSpec::default(), OpenMarks::new());
        let started = Self::start(spec, registry, open_marks, Propagators::default());
        started.unwrap_or_else(|_| unreachable!("no thread is started"))
    }

    /// Returns the tracer of a part of the program. `scope` is the name of that part, by convention that of the crate,
    /// or a [`Scope`](ScopeBuilder) with version, schema URL and attributes.
    pub fn tracer<'s>(&self, scope: impl Into<ScopeBuilder<'s>>) -> Tracer {
        let scope = self.scope(Signal::Traces, &scope.into());
        Tracer::new(Arc::clone(&self.exporters), scope, self.open_marks.clone(), Arc::clone(&self.sampler))
    }

    /// Returns the logger of a part of the program. `scope` is the name of that part, or a [`Scope`](ScopeBuilder).
    /// Keep the logger: this call takes longer than emitting a record.
    pub fn logger<'s>(&self, scope: impl Into<ScopeBuilder<'s>>) -> Logger {
        Logger::new(Arc::clone(&self.exporters), self.scope(Signal::Logs, &scope.into()))
    }

    /// Returns the meter of a part of the program. `scope` is the name of that part, or a [`Scope`](ScopeBuilder).
    pub fn meter<'s>(&self, scope: impl Into<ScopeBuilder<'s>>) -> Meter {
        Meter::new(Arc::clone(&self.registry), self.scope(Signal::Metrics, &scope.into()))
    }

    /// Returns the selected propagators; see [`Telemetry::propagators`](crate::Telemetry::propagators).
    pub fn propagators(&self) -> Propagators {
        self.propagators
    }

    /// Sends all records that this provider accepted before the call, without waiting for throttle or linger, and
    /// collects and sends its metrics. The other provider is not affected. Pauses after failed attempts are shortened
    /// to 100 ms, unless the server requested them.
    ///
    /// On an exporter's own thread, for example in a [hook](crate::Config::on_problem), this function returns at once,
    /// because the thread would wait for itself.
    pub fn flush(&self, budget: Duration) -> FlushOutcome {
        exporter_set::flush(&[&*self.exporters], exporter_set::deadline(budget))
    }

    pub(crate) fn exporters(&self) -> &Arc<ExporterSet> {
        &self.exporters
    }

    pub(crate) fn open_marks(&self) -> &OpenMarks {
        &self.open_marks
    }

    /// Returns the encoded scope, and caches it if there is room.
    fn scope(&self, signal: Signal, scope: &ScopeBuilder<'_>) -> Arc<Scope> {
        let ScopeBuilder { name, version, schema_url, attributes } = scope;
        let is_it = |(known, its_name, its_version, url, its_attributes): &ScopeKey| {
            (*known, &**its_name, &**its_version) == (signal, *name, *version)
                && (&**url, its_attributes) == (*schema_url, attributes)
        };
        let make = || {
            let [name, version, url] = [name, version, schema_url].map(|text| (*text).to_owned());
            let key = (signal, name, version, url, attributes.clone());
            (key, Arc::new(scope.clone().into_scope(signal, None)))
        };
        self.scopes.get_or_make((signal, name, version), is_it, make).into_owned()
    }
}

impl AsRef<Provider> for Provider {
    fn as_ref(&self) -> &Provider {
        self
    }
}
