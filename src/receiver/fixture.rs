//! Telemetry with its own receiver, for tests of user code.

use std::ops::Deref;
use std::time::Duration;

use super::Receiver;
use crate::config::{Config, Exporter, Proxy};
use crate::pipeline::exporter_set::FlushOutcome;
use crate::record::Severity;
use crate::telemetry::Telemetry;
use crate::telemetry::provider::Provider;

/// Timeout of a flush. No test waits this long unless something is wrong.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// Telemetry for a test, with its own receiver. [`received`](Self::received) waits until everything has arrived, so a
/// test needs no other waits.
///
/// Pass its tracers, loggers and meters, or the whole telemetry, to the code under test, then check the telemetry that
/// was [`received`](Self::received). Tests can run in parallel, because each has its own telemetry and receiver.
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
/// A `TestTelemetry` derefs to [`Telemetry`], and bridges accept it like telemetry: `TracingLayer::new(&test)`.
#[derive(Debug)]
#[must_use = "dropping it stops the telemetry and its receiver"]
pub struct TestTelemetry {
    // Declared first, so that the telemetry is shut down before its receiver is dropped.
    telemetry: Telemetry,
    receiver: Receiver,
}

impl TestTelemetry {
    /// Starts telemetry of the service `test`, and its receiver.
    ///
    /// # Panics
    /// Panics if there is no free port or no thread can be started.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(Config::new().service_name("test"))
    }

    /// Starts telemetry with `config` and an additional exporter to the receiver: over HTTP, for log records of every
    /// severity, without a throttle, and with short retry delays.
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
    /// Panics if there is no free port, no thread can be started, or the configuration cannot be used.
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

    /// Flushes the telemetry, then returns the receiver. The receiver has all spans that ended and all log records that
    /// were emitted before the call, and the current metrics.
    ///
    /// # Panics
    /// Panics if the flush takes longer than 10 s. The message contains the ledger.
    #[track_caller]
    pub fn received(&self) -> &Receiver {
        if let FlushOutcome::TimedOut { left } = self.telemetry.flush(FLUSH_TIMEOUT) {
            panic!("{left} records were not sent in {FLUSH_TIMEOUT:?}\n{}", self.telemetry.ledger());
        }
        &self.receiver
    }

    /// Returns the receiver without a flush, to script its answers, to pause it, or to wait for something.
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// Shuts the telemetry down and returns the receiver with everything that was sent.
    pub fn finish(self) -> Receiver {
        self.telemetry.shutdown(FLUSH_TIMEOUT);
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
