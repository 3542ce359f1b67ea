//! What is measured: traces of 16 spans, a root below a remote parent and 15 children.

use std::hint::black_box;
use std::time::Duration;

use standpipe::config::Proxy;
use standpipe::{Config, Exporter, Span, SpanContext, SpanKind, Telemetry, Tracer};

use super::Error;

/// Spans of one trace.
pub(crate) const TRACE: u64 = 16;
/// Attributes of a span, unless said otherwise: three strings, an integer and a bool.
pub(crate) const ATTRIBUTES: u64 = 5;
/// Whatever must happen happens within this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Names and values of the spans, and of what is measured beside them.
pub(crate) mod text {
    pub(crate) const SCOPE: &str = "shop.orders";
    pub(crate) const REMOTE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    pub(crate) const ROOT: &str = "GET /orders/{id}";
    pub(crate) const CHILD: &str = "SELECT shop.orders";
    pub(crate) const BODY: &str = "order placed";

    pub(crate) const ROUTE: (&str, &str) = ("http.route", "/v1/orders/{id}");
    pub(crate) const HOST: (&str, &str) = ("server.address", "orders.eu.shop.internal");
    pub(crate) const ZONE: (&str, &str) = ("cloud.region", "eu-north-1a");
    pub(crate) const STATUS: (&str, i64) = ("http.response.status_code", 200);
    pub(crate) const CACHED: (&str, bool) = ("cache.hit", true);

    /// Keys beyond the first five, for spans with twenty attributes.
    pub(crate) const MORE: [&str; 15] = [
        "client.address",
        "client.port",
        "code.function.name",
        "code.line.number",
        "db.namespace",
        "db.operation.name",
        "db.response.returned_rows",
        "enduser.id",
        "network.protocol.name",
        "network.protocol.version",
        "session.id",
        "thread.id",
        "thread.name",
        "url.path",
        "url.scheme",
    ];
}

/// Emits traces through one tracer.
pub(crate) struct Workload {
    tracer: Tracer,
    remote: SpanContext,
    attributes: u64,
}

impl Workload {
    /// # Errors
    /// Never, as the remote parent is well-formed.
    pub(crate) fn new(telemetry: &Telemetry, attributes: u64) -> Result<Self, Error> {
        let remote = SpanContext::from_traceparent(text::REMOTE)?;
        Ok(Self { tracer: telemetry.tracer(text::SCOPE), remote, attributes })
    }

    /// Emits as many whole traces as make up this many spans.
    pub(crate) fn emit(&self, spans: u64) {
        for _ in 0..spans / TRACE {
            self.emit_root(|| (1..TRACE).for_each(|_| self.emit_child()));
        }
    }

    /// Emits a root below the remote parent, and does something within it.
    pub(crate) fn emit_root(&self, within: impl FnOnce()) {
        let mut root = self
            .tracer
            .span_builder(black_box(text::ROOT))
            .parent(&self.remote)
            .kind(SpanKind::Server)
            .start();
        self.fill(&mut root);
        within();
    }

    /// Emits one span below the current one.
    pub(crate) fn emit_child(&self) {
        let mut child = self.tracer.span_builder(black_box(text::CHILD)).kind(SpanKind::Client).start();
        self.fill(&mut child);
    }

    #[inline(always)]
    fn fill(&self, span: &mut Span) {
        if self.attributes > 0 {
            self.set_attributes(span);
        }
    }

    /// As instrumented code does it: keys are constants, values are not. A span without attributes does not pay for the registers
    /// that this function saves.
    #[inline(never)]
    fn set_attributes(&self, span: &mut Span) {
        span.set(text::ROUTE.0, black_box(text::ROUTE.1));
        if self.attributes >= 5 {
            span.set(text::HOST.0, black_box(text::HOST.1));
            span.set(text::ZONE.0, black_box(text::ZONE.1));
            span.set(text::STATUS.0, black_box(text::STATUS.1));
            span.set(text::CACHED.0, black_box(text::CACHED.1));
        }
        if self.attributes >= 20 {
            for key in text::MORE {
                span.set(key, black_box(text::ROUTE.1));
            }
        }
    }
}

/// The five values of a span.
pub(crate) struct Values {
    texts: [&'static str; 3],
    status: i64,
    cached: bool,
}

pub(crate) const VALUES: Values = Values {
    texts: [text::ROUTE.1, text::HOST.1, text::ZONE.1],
    status: text::STATUS.1,
    cached: text::CACHED.1,
};

/// Emits the same span as the workload does, without the work of choosing how many attributes it has.
#[inline(never)]
pub(crate) fn emit_values(tracer: &Tracer, values: &Values) {
    let mut span = tracer.span_builder(text::CHILD).kind(SpanKind::Client).start();
    let [route, host, zone] = values.texts;
    span.set(text::ROUTE.0, route).set(text::HOST.0, host).set(text::ZONE.0, zone);
    span.set(text::STATUS.0, values.status).set(text::CACHED.0, values.cached);
}

/// Telemetry with one exporter.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn start(exporter: Exporter) -> Result<Telemetry, Error> {
    // a proxy of the environment has no business on loopback
    Ok(Telemetry::start(Config::new().service_name("bench").exporter(exporter.proxy(Proxy::Off)))?)
}

/// An exporter whose worker sleeps until a flush, so that only the caller is measured.
pub(crate) fn parked(endpoint: &str) -> Exporter {
    Exporter::http(endpoint)
        .throttle(Duration::from_secs(3600))
        .linger(Duration::from_secs(3600))
        .batch_records(1 << 20)
        .queue_records(1 << 20)
        .queue_bytes(1 << 30)
}

/// Ends telemetry and makes sure that nothing was lost.
///
/// # Errors
/// When something was.
pub(crate) fn finish(telemetry: &Telemetry, sent: u64) -> Result<(), Error> {
    let ledger = telemetry.shutdown(PATIENCE);
    if (ledger.total().delivered, ledger.lost()) != (sent, 0) {
        return Err(format!("{sent} spans were emitted, but {ledger}").into());
    }
    Ok(())
}
