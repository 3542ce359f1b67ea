//! fastrace with fastrace-opentelemetry and opentelemetry-otlp.

use std::borrow::Cow;
use std::hint::black_box;

use fastrace::collector::Config;
use fastrace::local::LocalSpan;
use fastrace::prelude::SpanContext;
use fastrace::{Event, Span};
use fastrace_opentelemetry::OpenTelemetryReporter;
use opentelemetry::InstrumentationScope;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;

use crate::support::Error;
use crate::support::program::Program;
use crate::support::workload::text;
use crate::{Contender, case};

pub(crate) const CONTENDER: Contender = Contender {
    name: "fastrace 0.7",
    cases: &[case::LOG],
    note: "events of a span instead of log records, with numbers and bools as text; it has no levels and no metrics",
    start,
};

fn start(_: &str, endpoint: &str) -> Result<Program, Error> {
    let exporter =
        SpanExporter::builder().with_http().with_endpoint(format!("{endpoint}/v1/traces")).build()?;
    let resource = Cow::Owned(Resource::builder().with_service_name("bench").build());
    let scope = InstrumentationScope::builder(text::SCOPE).build();
    fastrace::set_reporter(OpenTelemetryReporter::new(exporter, resource, scope), Config::default());
    let burst = Box::new(|calls| {
        let span = Span::root(text::ROOT, SpanContext::random());
        let _inside = span.set_local_parent();
        (0..calls).for_each(|_| log());
    });
    let flush = || {
        fastrace::flush();
        Ok(())
    };
    Ok(Program::new(burst, flush, flush))
}

fn log() {
    let event = Event::new(black_box(text::BODY)).with_properties(|| {
        [
            (text::ROUTE.0, Cow::Borrowed(black_box(text::ROUTE.1))),
            (text::HOST.0, Cow::Borrowed(black_box(text::HOST.1))),
            (text::ZONE.0, Cow::Borrowed(black_box(text::ZONE.1))),
            (text::STATUS.0, Cow::Owned(black_box(text::STATUS.1).to_string())),
            (text::CACHED.0, Cow::Owned(black_box(text::CACHED.1).to_string())),
        ]
    });
    LocalSpan::add_event(event);
}
