//! An OTLP receiver to embed: a real server on a real socket, for tests and for looking at telemetry.
//!
//! It takes traces, logs and metrics by OTLP over HTTP, in protobuf or JSON, and by OTLP over gRPC (HTTP/2 without TLS),
//! compressed or not, keeps what it accepts, counts exactly, and can be scripted to misbehave in every way a network and a
//! collector can. It has a thread per request at a time, up to a bound, and no async runtime, and it stops, with all its threads, when
//! it is dropped.
//!
//! A test starts a [`TestTelemetry`], which sends to a receiver of its own:
//!
//! ```
//! use standpipe::receiver::TestTelemetry;
//!
//! let test = TestTelemetry::start();
//! test.tracer("shop").span("checkout").set("phases", 2);
//! assert_eq!(test.received().spans()[0].attribute("phases"), 2);
//! ```
//!
//! A program that is configured elsewhere sends to the endpoint of a [`Receiver`]:
//!
//! ```
//! use std::time::Duration;
//! use standpipe::receiver::{Answer, Receiver};
//!
//! let receiver = Receiver::start()?;
//! receiver.script([Answer::status(503).retry_after("1")]); // the first request fails, the next succeeds
//!
//! let endpoint = receiver.endpoint(); // where the program under test should send, or
//! let endpoint = receiver.grpc_endpoint();
//! # drop(endpoint);
//!
//! if receiver.wait_for_spans(1, Duration::ZERO) {
//!     println!("{}", receiver.spans()[0].name());
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! ```text
//! listener → http or grpc → content → records             what the client sent
//!                 ▲            └─ request_sink ◄ script     what becomes of it
//!                 └── answer ◄──────┴─► store               what it receives, and what you see
//! ```

mod answer;
mod answer_body;
mod budget;
mod builder;
mod content;
mod fixture;
mod grpc;
mod http;
mod json;
#[cfg(feature = "console")]
mod json_lines;
mod listener;
mod records;
mod refusal;
mod request_sink;
mod state;
mod store;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use answer::Answer;
pub use builder::Builder;
pub use fixture::TestTelemetry;
#[cfg(feature = "console")]
pub use json_lines::JsonError;
pub use records::{
    ReceivedEvent, ReceivedLink, ReceivedLog, ReceivedMetric, ReceivedPoint, ReceivedSpan, ReceivedValue,
    Records, Trace, TraceSpan,
};
pub use refusal::{RefusalKind, RefusedRequest};
pub use store::{Batch, Protocol, ReceivedRequest};

use listener::Listener;
use request_sink::Script;
use state::Shared;

use crate::record::{Signal, TraceId};

/// Messages of the OpenTelemetry protocol, for the command and for tests.
///
/// Programs use the methods of the received records, which hide them.
#[doc(hidden)]
pub mod proto {
    pub use super::records::{Point, TreeNode, points, tree};
    pub use crate::record::schema::{
        AnyValue, ArrayValue, Buckets, Data, EntityRef, Event, Exemplar, ExemplarValue, ExponentialHistogram,
        ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, InstrumentationScope, KeyValue,
        KeyValueList, Link, LogRecord, LogsRequest, Metric, MetricsRequest, Number, NumberDataPoint,
        Resource, ResourceLogs, ResourceMetrics, ResourceSpans, ScopeLogs, ScopeMetrics, ScopeSpans, Span,
        Status, Sum, Summary, SummaryDataPoint, TracesRequest, Value, ValueAtQuantile,
    };
}

/// A running OTLP receiver.
///
/// [`Receiver::start`] is all that most tests need; [`Receiver::builder`] changes address and limits.
/// Dropping it closes the listeners and all connections, and the ports are free again.
#[derive(Debug)]
#[must_use = "dropping it stops the receiver"]
pub struct Receiver {
    shared: Arc<Shared>,
    http: Listener,
    grpc: Listener,
}

impl Receiver {
    /// Starts a receiver on two free ports of 127.0.0.1, one for HTTP and one for gRPC.
    ///
    /// # Errors
    /// When there is no free port or no thread can be started.
    pub fn start() -> io::Result<Self> {
        Self::builder().start()
    }

    /// A receiver with settings of your own.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// The base URL for an exporter on this machine that speaks HTTP, `http://127.0.0.1:43180` for instance, without a
    /// path.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.shared.addresses.http)
    }

    /// The URL for an exporter on this machine that speaks gRPC, `http://127.0.0.1:43170` for instance.
    pub fn grpc_endpoint(&self) -> String {
        format!("http://{}", self.shared.addresses.grpc)
    }

    /// The address it listens on for HTTP.
    pub fn address(&self) -> SocketAddr {
        self.http.address
    }

    /// The address it listens on for gRPC.
    pub fn grpc_address(&self) -> SocketAddr {
        self.grpc.address
    }

    /// All kept spans that were accepted with a 2xx answer, in the order they were.
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        self.shared.read(|state| state.store.spans())
    }

    /// All kept log records that were accepted with a 2xx answer, in the order they were.
    pub fn logs(&self) -> Vec<ReceivedLog> {
        self.shared.read(|state| state.store.logs())
    }

    /// All kept metrics that were accepted with a 2xx answer, in the order they were. A metric that is sent again
    /// is there again.
    pub fn metrics(&self) -> Vec<ReceivedMetric> {
        self.shared.read(|state| state.store.metrics())
    }

    /// The newest kept metric of this name. One with very many data points is sent in parts, of which this is the last.
    pub fn metric(&self, name: &str) -> Option<ReceivedMetric> {
        self.metrics().into_iter().rfind(|metric| metric.name() == name)
    }

    /// The trace with this id, of all kept spans and log records. Without any, it is empty.
    ///
    /// ```
    /// use standpipe::receiver::TestTelemetry;
    ///
    /// let test = TestTelemetry::start();
    /// let checkout = test.tracer("shop").span("checkout");
    /// let id = checkout.context().trace_id();
    /// test.logger("shop").info("paid").emit();
    /// checkout.end();
    /// let trace = test.received().trace(id);
    /// assert_eq!(trace.names(), ["checkout"]);
    /// assert_eq!(trace.root().logs()[0].body(), "paid");
    /// ```
    pub fn trace(&self, id: TraceId) -> Trace {
        let (mut spans, mut logs) = self.shared.read(|state| (state.store.spans(), state.store.logs()));
        spans.retain(|span| span.trace_id() == id);
        logs.retain(|log| log.trace_id() == Some(id));
        Trace::new(id, spans, logs)
    }

    /// All traces of which a span is kept, in the order their first one arrived.
    pub fn traces(&self) -> Vec<Trace> {
        let (spans, logs) = self.shared.read(|state| (state.store.spans(), state.store.logs()));
        Trace::all(spans, logs)
    }

    /// The trace, if spans of only one are kept.
    ///
    /// # Panics
    /// When there is none, or there are several; the message draws them.
    #[track_caller]
    pub fn only_trace(&self) -> Trace {
        let mut traces = self.traces();
        match traces.len() {
            0 => panic!("no trace was received"),
            1 => traces.remove(0),
            several => {
                let drawn: Vec<_> = traces.iter().map(Trace::to_string).collect();
                panic!("{several} traces were received\n{}", drawn.join("\n"))
            }
        }
    }

    /// How many spans were ever accepted with a 2xx answer, kept or not.
    ///
    /// They are counted just before the answer is written: when a client has it, they are in.
    pub fn span_count(&self) -> u64 {
        self.record_count(Signal::Traces)
    }

    /// How many log records were ever accepted, counted as spans are.
    pub fn log_count(&self) -> u64 {
        self.record_count(Signal::Logs)
    }

    /// How many data points of metrics were ever accepted, counted as spans are.
    pub fn point_count(&self) -> u64 {
        self.record_count(Signal::Metrics)
    }

    /// All kept requests, refused ones included, in the order they arrived.
    ///
    /// A request without a readable head, and one whose body never came to its end, is none.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.read(|state| state.store.requests())
    }

    /// How many requests ever arrived, kept or not.
    pub fn request_count(&self) -> u64 {
        self.shared.read(|state| state.store.request_count)
    }

    /// How many connections were ever admitted.
    pub fn connection_count(&self) -> u64 {
        self.shared.read(|state| state.connection_count)
    }

    /// How many requests are being held: by [`Receiver::pause`], or because they are [never read](Answer::never_read), which
    /// lasts until the receiver stops.
    pub fn held_count(&self) -> u64 {
        self.shared.read(|state| state.held)
    }

    /// The kept spans, which are then forgotten together with everything else that was kept. The counts go on.
    pub fn take(&self) -> Vec<ReceivedSpan> {
        self.shared.change(|state| state.store.take())
    }

    /// Waits until `count` spans were accepted since the start. Returns `false` if `timeout` passes first.
    #[must_use]
    pub fn wait_for_spans(&self, count: u64, timeout: Duration) -> bool {
        self.wait_for_records(Signal::Traces, count, timeout)
    }

    /// Waits until `count` log records were accepted since the start. Returns `false` if `timeout` passes first.
    #[must_use]
    pub fn wait_for_logs(&self, count: u64, timeout: Duration) -> bool {
        self.wait_for_records(Signal::Logs, count, timeout)
    }

    /// Waits until `count` data points were accepted since the start. Returns `false` if `timeout` passes first.
    #[must_use]
    pub fn wait_for_points(&self, count: u64, timeout: Duration) -> bool {
        self.wait_for_records(Signal::Metrics, count, timeout)
    }

    /// Waits until `count` requests arrived since the start. Returns `false` if `timeout` passes first.
    #[must_use]
    pub fn wait_for_requests(&self, count: u64, timeout: Duration) -> bool {
        self.shared.wait_until(timeout, |state| state.store.request_count >= count)
    }

    /// Waits until `count` connections were admitted since the start. Returns `false` if `timeout` passes first.
    #[must_use]
    pub fn wait_for_connections(&self, count: u64, timeout: Duration) -> bool {
        self.shared.wait_until(timeout, |state| state.connection_count >= count)
    }

    /// Waits until no client is connected. Returns `false` if `timeout` passes first.
    #[must_use]
    pub fn wait_for_disconnection(&self, timeout: Duration) -> bool {
        self.shared.wait_until(timeout, |state| state.open.is_empty())
    }

    /// Waits until `count` requests are [being held](Receiver::held_count). Returns `false` if `timeout` passes first.
    #[must_use]
    pub fn wait_for_held(&self, count: u64, timeout: Duration) -> bool {
        self.shared.wait_until(timeout, |state| state.held >= count)
    }

    /// Queues answers for the next requests, behind those already queued.
    ///
    /// Only a valid request uses one up: what must be refused (a wrong path, a body that is not OTLP) is refused as ever.
    /// The exceptions are [`Answer::never_read`], [`Answer::reset`] and [`Answer::reset_after_request`], which are
    /// taken at a request's first byte.
    pub fn script(&self, answers: impl IntoIterator<Item = Answer>) {
        self.extend_script(None, answers);
    }

    /// Gives this answer whenever the script is empty.
    pub fn always(&self, answer: Answer) {
        self.shared.change(|state| state.script.answers_for(None).always = Some(answer));
    }

    /// Queues answers for the next requests of one signal. They go before all that is ordered without a signal.
    ///
    /// Which signal a request has is known when it was read. That is too late for the answers that are taken at a
    /// request's first byte: here, [`Answer::never_read`] hangs, and [`Answer::reset`] and
    /// [`Answer::reset_after_request`] close in good order.
    pub fn script_for(&self, signal: Signal, answers: impl IntoIterator<Item = Answer>) {
        self.extend_script(Some(signal), answers);
    }

    /// Gives this answer to every request of one signal for which [`Receiver::script_for`] has none left. It goes
    /// before all that is ordered without a signal.
    ///
    /// ```
    /// use standpipe::Signal;
    /// use standpipe::receiver::{Answer, Receiver};
    ///
    /// let receiver = Receiver::start()?;
    /// receiver.always_for(Signal::Logs, Answer::status(404)); // it takes everything but logs
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn always_for(&self, signal: Signal, answer: Answer) {
        self.shared.change(|state| state.script.answers_for(Some(signal)).always = Some(answer));
    }

    /// Forgets all answers that were ordered, for a signal or for all: answers are honest again.
    pub fn behave(&self) {
        self.shared.change(|state| state.script = Script::default());
    }

    /// From now on, requests are read and held: counted and answered only after [`Receiver::resume`].
    pub fn pause(&self) {
        self.shared.change(|state| state.paused = true);
    }

    /// Lets the requests go that were held by [`Receiver::pause`].
    pub fn resume(&self) {
        self.shared.change(|state| state.paused = false);
    }

    /// Closes the listeners and all connections, as dropping does, and leaves what arrived to be read.
    ///
    /// A new receiver can listen on the same [`address`](Receiver::address) and
    /// [`grpc_address`](Receiver::grpc_address) at once. A thread that is busy in
    /// [`Builder::on_batch`] or [`Builder::on_refusal`] is waited for no longer than a tenth of a
    /// second, and a client that does not read its answer no longer than two seconds.
    pub fn stop_listening(&self) {
        listener::stop(&[&self.http, &self.grpc], &self.shared);
    }

    fn extend_script(&self, signal: Option<Signal>, answers: impl IntoIterator<Item = Answer>) {
        let answers: Vec<Answer> = answers.into_iter().collect();
        self.shared.change(|state| state.script.answers_for(signal).next.extend(answers));
    }

    fn record_count(&self, signal: Signal) -> u64 {
        self.shared.read(|state| state.store.record_counts[signal as usize])
    }

    fn wait_for_records(&self, signal: Signal, count: u64, timeout: Duration) -> bool {
        self.shared.wait_until(timeout, |state| state.store.record_counts[signal as usize] >= count)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop_listening();
    }
}
