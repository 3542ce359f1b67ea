//! Telemetry and a receiver that belong together, for tests of the user's own.

use std::ops::Deref;
use std::time::Duration;

use super::Receiver;
use crate::config::{Config, Exporter, Proxy};
use crate::pipeline::exporter_set::FlushOutcome;
use crate::record::Severity;
use crate::telemetry::Telemetry;
use crate::telemetry::provider::Provider;

/// Longer than any test waits, unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(10);

/// Telemetry for a test: it sends to a receiver of its own, and there is nothing to wait for.
///
/// Give its tracers, loggers, meters or the whole of it to the code under test, then look at what was
/// [`received`](Self::received). Tests that run in parallel each have their own.
///
/// ```
/// use standpipe::receiver::TestTelemetry;
///
/// fn check_out(tracer: &standpipe::Tracer) {
///     let mut span = tracer.span("checkout");
///     span.set("phases", 2);
///     tracer.span("payment").end();
/// }
///
/// let test = TestTelemetry::start();
/// check_out(&test.tracer("shop"));
/// let trace = test.received().only_trace();
/// trace.assert_tree("checkout\n  payment");
/// assert_eq!(trace.span("checkout").attribute("phases"), 2);
/// ```
///
/// It derefs to [`Telemetry`]. A bridge takes it as it takes telemetry: `TracingLayer::new(&test)`.
#[derive(Debug)]
#[must_use = "dropping it stops the telemetry and its receiver"]
pub struct TestTelemetry {
    // first: it is shut down while its receiver is there
    telemetry: Telemetry,
    receiver: Receiver,
}

impl TestTelemetry {
    /// Starts telemetry of the service `test`, and its receiver.
    ///
    /// # Panics
    /// When there is no free port or no thread can be started.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(Config::new().service_name("test"))
    }

    /// Starts telemetry with a configuration of its own, to which an exporter to the receiver is added: over HTTP, of log
    /// records of every severity, without a throttle, and quick to retry.
    ///
    /// ```
    /// use standpipe::receiver::TestTelemetry;
    /// use standpipe::{Config, Sampler};
    ///
    /// let test = TestTelemetry::start_with(Config::new().service_name("shop").sampler(Sampler::always_off()));
    /// test.tracer("shop").span("checkout").end();
    /// assert_eq!(test.received().span_count(), 0);
    /// ```
    ///
    /// # Panics
    /// When there is no free port, no thread can be started, or the configuration cannot be used.
    #[track_caller]
    pub fn start_with(config: Config) -> Self {
        let receiver =
            Receiver::start().unwrap_or_else(|error| panic!("the receiver cannot be started: {error}"));
        let exporter = Exporter::http(receiver.endpoint())
            .named("test")
            .proxy(Proxy::Off)
            .level(Severity::Trace)
            .throttle(Duration::ZERO)
            .retry_delays(Duration::from_millis(1), Duration::from_millis(20));
        let telemetry = Telemetry::start(config.exporter(exporter)).unwrap_or_else(|error| panic!("{error}"));
        Self { telemetry, receiver }
    }

    /// Flushes the telemetry, then gives the receiver: all spans that ended and all log records before the call are in it,
    /// and the metrics as they are now.
    ///
    /// # Panics
    /// When not all was sent after 10 s; the message has the ledger.
    #[track_caller]
    pub fn received(&self) -> &Receiver {
        if let FlushOutcome::TimedOut { left } = self.telemetry.flush(PATIENCE) {
            panic!("{left} records were not sent in {PATIENCE:?}\n{}", self.telemetry.ledger());
        }
        &self.receiver
    }

    /// The receiver as it is, without a flush: to script its answers, to pause it, to wait for something.
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// Shuts the telemetry down and keeps the receiver, with all that was sent.
    pub fn finish(self) -> Receiver {
        self.telemetry.shutdown(PATIENCE);
        self.receiver
    }
}

impl Deref for TestTelemetry {
    type Target = Telemetry;

    fn deref(&self) -> &Telemetry {
        &self.telemetry
    }
}

impl AsRef<Provider> for TestTelemetry {
    fn as_ref(&self) -> &Provider {
        self.telemetry.as_ref()
    }
}
