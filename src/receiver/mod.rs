//! An embeddable OTLP receiver: a real server on a real socket, for tests and for viewing telemetry.
//!
//! It accepts traces, logs and metrics by OTLP over HTTP, in protobuf or JSON, and by OTLP over gRPC (HTTP/2 without
//! TLS), compressed or not. It keeps accepted records, counts all requests and records exactly, and can be scripted to
//! fail in the ways in which networks and collectors fail. It uses one thread per connection, further threads for gRPC
//! calls up to a limit, and no async runtime. Dropping the receiver stops it and its threads.
//!
//! A test starts a [`TestTelemetry`], which sends to its own receiver:
//!
//! ```
//! use standpipe::receiver::TestTelemetry;
//!
//! let test = TestTelemetry::start();
//! test.tracer("shop").span("checkout").set("phases", 2);
//! assert_eq!(test.received().spans()[0].attribute("phases"), 2);
//! ```
//!
//! A program that configures its telemetry itself can send to the endpoint of a [`Receiver`]:
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
//! listener → http or grpc → content → records             request: parsed, decoded
//!                 ▲            └─ request_sink ◄ script     answer: regular or scripted
//!                 └── answer ◄──────┴─► store               counts and kept records
//! ```

// Lock order: the clients in `listener::Threads`, then a connection's lock (`grpc::SharedConnection`, `grpc::Handler`),
// then `state::Shared`. No callback of the user runs while one of these locks is held.

mod answer;
mod answer_body;
mod budget;
mod builder;
mod content;
mod fixture;
mod grpc;
mod http;
mod json;
#[cfg(feature = "json")]
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
#[doc(hidden)]
pub use http::split_target;
#[cfg(feature = "json")]
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

/// Messages of the OpenTelemetry protocol, for the command and for tests of this crate.
///
/// Programs use the methods of received records instead.
#[doc(hidden)]
pub mod proto {
    pub use super::records::{Point, TreeNode, points, tree};
    pub use crate::record::schema::*;
}

/// A running OTLP receiver.
///
/// Most tests only need [`Receiver::start`]; [`Receiver::builder`] sets addresses and limits. Dropping the receiver
/// closes the listeners and all connections, and frees the ports.
#[derive(Debug)]
#[must_use = "dropping it stops the receiver"]
pub struct Receiver {
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
}

impl Receiver {
    /// Starts a receiver on two free ports of 127.0.0.1, one for HTTP and one for gRPC.
    ///
    /// # Errors
    /// Returns an error if there is no free port or no thread can be started.
    pub fn start() -> io::Result<Self> {
        Self::builder().start()
    }

    /// Returns a builder, to change settings.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Returns the base URL for an exporter over HTTP on this machine, without a path, such as
    /// `http://127.0.0.1:43180`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.shared.addresses.http)
    }

    /// Returns the URL for an exporter over gRPC on this machine, such as `http://127.0.0.1:43170`.
    pub fn grpc_endpoint(&self) -> String {
        format!("http://{}", self.shared.addresses.grpc)
    }

    /// Returns the address of the HTTP listener.
    pub fn address(&self) -> SocketAddr {
        self.shared.addresses.bound[0]
    }

    /// Returns the address of the gRPC listener.
    pub fn grpc_address(&self) -> SocketAddr {
        self.shared.addresses.bound[1]
    }

    /// Returns all kept spans that were accepted with a 2xx answer, in the order of their acceptance.
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        self.shared.read(|state| state.store.spans())
    }

    /// Returns all kept log records that were accepted with a 2xx answer, in the order of their acceptance.
    pub fn logs(&self) -> Vec<ReceivedLog> {
        self.shared.read(|state| state.store.logs())
    }

    /// Returns all kept metrics that were accepted with a 2xx answer, in the order of their acceptance. A metric that
    /// is sent again appears again.
    pub fn metrics(&self) -> Vec<ReceivedMetric> {
        self.shared.read(|state| state.store.metrics())
    }

    /// Returns the newest kept metric with this name. If a large metric was sent in parts, returns the last part.
    pub fn metric(&self, name: &str) -> Option<ReceivedMetric> {
        self.metrics().into_iter().rfind(|metric| metric.name() == name)
    }

    /// Returns the trace with this id from all kept spans and log records. The trace has no spans if no kept span has
    /// this id.
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

    /// Returns all traces with kept spans, in the order in which their first spans arrived.
    pub fn traces(&self) -> Vec<Trace> {
        let (spans, logs) = self.shared.read(|state| (state.store.spans(), state.store.logs()));
        Trace::all(spans, logs)
    }

    /// Returns the only trace of the kept spans.
    ///
    /// # Panics
    /// Panics if there is no trace, or more than one. The message shows the traces.
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

    /// Returns the number of spans accepted with a 2xx answer since the start, kept or not.
    ///
    /// Spans are counted just before the answer is written, so they are included once a client has its answer.
    pub fn span_count(&self) -> u64 {
        self.record_count(Signal::Traces)
    }

    /// Returns the number of accepted log records since the start, counted like spans.
    pub fn log_count(&self) -> u64 {
        self.record_count(Signal::Logs)
    }

    /// Returns the number of accepted data points since the start, counted like spans.
    pub fn point_count(&self) -> u64 {
        self.record_count(Signal::Metrics)
    }

    /// Returns all kept requests, including refused ones, in the order in which they were counted.
    ///
    /// Requests whose head is malformed or too long, or whose body is truncated, are not counted.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.read(|state| state.store.requests())
    }

    /// Returns the number of requests since the start, kept or not.
    pub fn request_count(&self) -> u64 {
        self.shared.read(|state| state.store.request_count)
    }

    /// Returns the number of admitted connections since the start.
    pub fn connection_count(&self) -> u64 {
        self.shared.read(|state| state.connection_count)
    }

    /// Returns the number of requests that are held: by [`Receiver::pause`] until [`Receiver::resume`], or by
    /// [`Answer::never_read`] until the receiver stops.
    pub fn held_count(&self) -> u64 {
        self.shared.read(|state| state.held)
    }

    /// Returns the kept spans, and drops all kept records and requests. The counts stay.
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
    /// Only a valid request consumes an answer; requests with a wrong path or a malformed body are refused as usual.
    /// The exceptions are [`Answer::never_read`], [`Answer::reset`] and [`Answer::reset_after_request`], which are
    /// consumed at the first byte of a request (over gRPC, at its header block), before it is known to be valid.
    pub fn script(&self, answers: impl IntoIterator<Item = Answer>) {
        self.extend_script(None, answers);
    }

    /// Sets the answer for requests while the script is empty.
    pub fn always(&self, answer: Answer) {
        self.shared.change(|state| state.script.answers_for(None).always = Some(answer));
    }

    /// Queues answers for the next requests of one signal. These answers have precedence over answers for all signals.
    ///
    /// The signal is known only after the request was read, too late for answers that must be chosen at its first byte.
    /// Queued here, [`Answer::never_read`] acts like [`Answer::hang`], and [`Answer::reset`] and
    /// [`Answer::reset_after_request`] close the connection normally.
    pub fn script_for(&self, signal: Signal, answers: impl IntoIterator<Item = Answer>) {
        self.extend_script(Some(signal), answers);
    }

    /// Sets the answer for requests of one signal while no answer of [`Receiver::script_for`] is queued for it. This
    /// answer has precedence over answers for all signals.
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

    /// Removes all scripted answers, so that requests get regular answers again.
    pub fn behave(&self) {
        self.shared.change(|state| state.script = Script::default());
    }

    /// Holds valid requests from now on: they are read, but counted and answered only after [`Receiver::resume`].
    /// Invalid requests are refused as usual.
    pub fn pause(&self) {
        self.shared.change(|state| state.paused = true);
    }

    /// Releases the requests that [`Receiver::pause`] holds.
    pub fn resume(&self) {
        self.shared.change(|state| state.paused = false);
    }

    /// Closes the listeners and all connections, as dropping the receiver does, but keeps the received telemetry.
    ///
    /// Immediately afterwards, a new receiver can listen on the same [`address`](Receiver::address) and
    /// [`grpc_address`](Receiver::grpc_address). The call waits at most 0.1 s for callbacks of [`Builder::on_batch`] or
    /// [`Builder::on_refusal`], and at most two seconds for a client that does not read its answer.
    pub fn stop_listening(&self) {
        listener::stop(&self.listeners, &self.shared);
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
