//! Compiles the imports and lines that the README and the guide show in their tables of bridges.

use std::error::Error;

use opentelemetry_sdk::trace::SdkTracerProvider;
use standpipe::Telemetry;
use standpipe::bridge::log::LogBridge;
use standpipe::bridge::metrics::MetricsRecorder;
use standpipe::bridge::opentelemetry::SpanExporter;
use standpipe::bridge::tracing::TracingLayer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

/// Not called, because a process can install each bridge only once.
fn install(telemetry: Telemetry) -> Result<SdkTracerProvider, Box<dyn Error>> {
    tracing_subscriber::registry().with(TracingLayer::new(&telemetry).with_filter(LevelFilter::INFO)).init();
    LogBridge::new(&telemetry).install()?;
    MetricsRecorder::new(&telemetry).install()?;
    Ok(SdkTracerProvider::builder().with_span_processor(SpanExporter::new(&telemetry)).build())
}

#[test]
fn the_tables_have_the_imports_and_lines_that_are_compiled_here() {
    let _: fn(Telemetry) -> Result<SdkTracerProvider, Box<dyn Error>> = install;
    let compiled = include_str!("readme.rs");
    for table in [include_str!("../../README.md"), include_str!("../../src/guide/bridges.md")] {
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(" | ").collect()).collect();
        for feature in ["tracing", "log", "metrics", "opentelemetry"] {
            let is_of_feature = |row: &&Vec<&str>| row.len() == 3 && row[0] == format!("| `{feature}`");
            let row = rows.iter().find(is_of_feature).unwrap_or_else(|| panic!("{feature} has no row"));
            let imports = row[1].split('`').skip(1).step_by(2).map(|path| format!("use {path};\n"));
            let line = row[2].split('`').nth(1).unwrap_or_default().to_owned();
            for code in imports.chain([line]) {
                assert!(compiled.contains(&code), "{feature}: {code}");
            }
        }
    }
}
