//! The measured work: traces of 16 spans, a root with a remote parent and 15 children.

use std::hint::black_box;
use std::time::Duration;

use standpipe::config::Proxy;
use standpipe::{Config, Exporter, Span, SpanContext, SpanKind, Telemetry, Tracer};

use super::Error;

/// Spans per trace.
pub(crate) const TRACE: u64 = 16;
/// Default number of attributes: three strings, an integer and a bool.
pub(crate) const ATTRIBUTES: u64 = 5;
/// Budget of a flush and of the shutdown.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Names and values of the measured records.
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

    /// Keys after the first five, for spans with twenty attributes.
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

/// Emits traces with one tracer.
pub(crate) struct Workload {
    tracer: Tracer,
    remote: SpanContext,
    attributes: u64,
}

impl Workload {
    /// Creates a workload whose spans have 0, 1, 5 or 20 attributes.
    pub(crate) fn new(telemetry: &Telemetry, attributes: u64) -> Result<Self, Error> {
        let remote = SpanContext::from_traceparent(text::REMOTE)?;
        Ok(Self { tracer: telemetry.tracer(text::SCOPE), remote, attributes })
    }

    /// Emits whole traces with this many spans in total.
    pub(crate) fn emit(&self, spans: u64) {
        for _ in 0..spans / TRACE {
            self.emit_root(|| (1..TRACE).for_each(|_| self.emit_child()));
        }
    }

    /// Emits a root span with the remote parent, and runs `within` inside it.
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

    /// Emits a child of the current span.
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

    /// Sets the attributes as instrumented code does: the keys are constants, and `black_box` hides the values.
    ///
    /// Not inlined, so that a span without attributes does not pay for the registers that this function saves.
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

/// Values of the five attributes of a span.
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

/// Emits a span like [`Workload::emit_child`], but always with five attributes, so that it needs no branches.
#[inline(never)]
pub(crate) fn emit_values(tracer: &Tracer, values: &Values) {
    let mut span = tracer.span_builder(text::CHILD).kind(SpanKind::Client).start();
    let [route, host, zone] = values.texts;
    span.set(text::ROUTE.0, route).set(text::HOST.0, host).set(text::ZONE.0, zone);
    span.set(text::STATUS.0, values.status).set(text::CACHED.0, values.cached);
}

/// Starts telemetry with one exporter.
pub(crate) fn start(exporter: Exporter) -> Result<Telemetry, Error> {
    // A proxy from the environment must not be used on loopback.
    Ok(Telemetry::start(Config::new().service_name("bench").exporter(exporter.proxy(Proxy::Off)))?)
}

/// Returns an exporter whose worker sleeps until a flush, so that only the caller is measured.
pub(crate) fn parked(endpoint: &str) -> Exporter {
    Exporter::http(endpoint)
        .throttle(Duration::from_secs(3600))
        .linger(Duration::from_secs(3600))
        .batch_records(1 << 20)
        .queue_records(1 << 20)
        .queue_bytes(1 << 30)
}

/// Shuts telemetry down. Fails if not all spans were delivered.
pub(crate) fn finish(telemetry: &Telemetry, sent: u64) -> Result<(), Error> {
    let ledger = telemetry.shutdown(PATIENCE);
    if (ledger.total().delivered, ledger.lost()) != (sent, 0) {
        return Err(format!("{sent} spans were emitted, but {ledger}").into());
    }
    Ok(())
}
