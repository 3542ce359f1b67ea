//! Runs a program under a layer, and returns the received records.

use std::time::Duration;

use standpipe::bridge::tracing::TracingLayer;
use standpipe::receiver::proto::{KeyValue, Value};
use standpipe::receiver::{ReceivedLog, ReceivedSpan, Receiver};
use standpipe::{Config, Exporter, Severity, Telemetry};
use tracing_subscriber::prelude::*;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// What arrived.
pub(crate) struct Arrived {
    pub(crate) spans: Vec<ReceivedSpan>,
    pub(crate) logs: Vec<ReceivedLog>,
    /// Records that were lost because a value panicked.
    pub(crate) panicked: u64,
}

/// Runs a program under a layer with default settings.
pub(crate) fn run(program: impl FnOnce()) -> Arrived {
    run_with(|layer| layer, program)
}

/// Runs a program under a layer that `set` configures.
pub(crate) fn run_with(set: impl FnOnce(TracingLayer) -> TracingLayer, program: impl FnOnce()) -> Arrived {
    run_config(Config::new(), set, |_| program())
}

/// Runs a program that gets its telemetry as an argument.
pub(crate) fn run_config(
    config: Config,
    set: impl FnOnce(TracingLayer) -> TracingLayer,
    program: impl FnOnce(&Telemetry),
) -> Arrived {
    run_telemetry(config, |telemetry| {
        let layer = set(TracingLayer::new(telemetry).location(false).threads(false));
        let _default = tracing_subscriber::registry().with(layer).set_default();
        program(telemetry);
    })
}

/// Runs a program that sets up its own subscriber.
pub(crate) fn run_telemetry(config: Config, program: impl FnOnce(&Telemetry)) -> Arrived {
    let receiver = Receiver::start().unwrap();
    let exporter = Exporter::http(receiver.endpoint()).level(Severity::Trace);
    let telemetry = Telemetry::start(config.exporter(exporter)).unwrap();
    program(&telemetry);
    let ledger = telemetry.shutdown(PATIENCE);
    let panicked = ledger.total().not_enqueued.panicked;
    assert_eq!(ledger.lost(), panicked, "{ledger}");
    Arrived { spans: receiver.spans(), logs: receiver.logs(), panicked }
}

impl Arrived {
    /// The one span of this name.
    pub(crate) fn span(&self, name: &str) -> &ReceivedSpan {
        let named: Vec<_> = self.spans.iter().filter(|received| received.span.name == name).collect();
        assert_eq!(named.len(), 1, "{name}: {:?}", self.names());
        named[0]
    }

    /// The names of all spans, in the order of their arrival.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.spans.iter().map(|received| received.span.name.as_str()).collect()
    }

    /// Fails unless one span is the other's parent.
    pub(crate) fn assert_child(&self, child: &str, parent: &str) {
        let (child, parent) = (&self.span(child).span, &self.span(parent).span);
        assert_eq!(child.parent_span_id, parent.span_id, "{} is below {}", child.name, parent.name);
        assert_eq!(child.trace_id, parent.trace_id);
    }

    /// Fails unless the span begins a trace.
    pub(crate) fn assert_root(&self, name: &str) {
        assert!(self.span(name).span.parent_span_id.is_empty(), "{name} has a parent");
    }
}

/// Attributes as text: `order=4711`.
pub(crate) fn as_texts(attributes: &[KeyValue]) -> Vec<String> {
    let value = |pair: &KeyValue| pair.value.as_ref().and_then(|value| value.value.as_ref()).map(text);
    attributes.iter().map(|pair| format!("{}={}", pair.key, value(pair).unwrap_or_default())).collect()
}

pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::StringValue(text) => format!("{text:?}"),
        Value::BoolValue(truth) => truth.to_string(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => format!("{number:?}"),
        Value::ArrayValue(array) => {
            let values = array.values.iter().filter_map(|value| value.value.as_ref());
            format!("[{}]", values.map(text).collect::<Vec<_>>().join(", "))
        }
        other => format!("{other:?}"),
    }
}
