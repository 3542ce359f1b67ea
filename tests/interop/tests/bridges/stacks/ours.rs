//! Standpipe's layer.

use std::time::Duration;

use standpipe::bridge::tracing::{Events, SpanExt, TracingLayer};
use standpipe::config::Proxy;
use standpipe::receiver::Receiver;
use standpipe::{Config, Exporter, SpanContext, Telemetry};
use tracing::Span;
use tracing_subscriber::Layer;

use super::{BoxedLayer, PROGRAM, Remote, Settings, Stack};

pub(crate) struct Ours {
    settings: Settings,
    telemetry: Telemetry,
}

impl Ours {
    pub(crate) fn start(receiver: &Receiver, settings: Settings) -> Box<dyn Stack> {
        let exporter = Exporter::http(receiver.endpoint()).proxy(Proxy::Off).throttle(Duration::ZERO);
        let config = Config::new().service_name(PROGRAM).exporter(exporter);
        Box::new(Self { settings, telemetry: Telemetry::start(config).unwrap() })
    }
}

impl Stack for Ours {
    fn layer(&self) -> BoxedLayer {
        let settings = self.settings;
        let layer = TracingLayer::new(&self.telemetry);
        if settings.untouched {
            return layer.boxed();
        }
        if settings.logs {
            return layer.events(Events::Both).location(false).boxed();
        }
        layer
            .scope(PROGRAM)
            .location(settings.location)
            .threads(settings.threads)
            .level(settings.level)
            .busy_and_idle(settings.busy_and_idle)
            .boxed()
    }

    fn set_parent(&self, span: &Span, remote: Remote) -> bool {
        extract(remote).is_some_and(|context| SpanExt::set_parent(span, &context))
    }

    fn add_link(&self, span: &Span, remote: Remote) {
        if let Some(context) = extract(remote) {
            SpanExt::add_link(span, &context);
        }
    }

    fn inject(&self, span: &Span) -> (String, String) {
        let context = SpanExt::context(span);
        context.map(|context| (context.traceparent(), context.tracestate().to_owned())).unwrap_or_default()
    }

    fn native_span(&self, name: &'static str, work: &dyn Fn()) {
        let _span = self.telemetry.tracer(PROGRAM).span(name);
        work();
    }

    fn finish(&self) {
        let ledger = self.telemetry.shutdown(Duration::from_secs(60));
        assert_eq!(ledger.lost(), 0, "{ledger}");
    }
}

fn extract(remote: Remote) -> Option<SpanContext> {
    let context = SpanContext::from_traceparent(remote.traceparent).ok()?;
    Some(context.with_tracestate(remote.tracestate))
}
