//! Reads any text as a part of OpenTelemetry's declarative configuration, including files whose other parts contain a
//! secret.
#![no_main]

use libfuzzer_sys::fuzz_target;
use standpipe::Config;
use standpipe_fuzz::config::{Frame, Lines, SECRET, check, prepare, text_of};

const FORMAT: &str = "file_format: '1.0'\n";

fuzz_target!(init: prepare(), |input: &[u8]| {
    // Inputs that insert the variable themselves are skipped: outside of headers, its value may be shown.
    let Some(text) = text_of(input).filter(|text| !text.contains("FUZZ")) else { return };
    let header = format!("headers: [{{name: authorization, value: 'Bearer {SECRET} ${{FUZZ}}'}}]");
    let processor = format!("processors: [{{batch: {{exporter: {{otlp_http: {{{header}}}}}}}}}]");
    for text in [
        format!("{FORMAT}{text}"),
        format!("{FORMAT}tracer_provider:\n  {processor}\n{text}"),
        format!("{FORMAT}tracer_provider:\n  {processor}\n  sampler: {text}\n"),
        format!("{FORMAT}resource: {text}\n"),
    ] {
        check(&text, Frame::Nothing, Lines::Yaml, || Config::from_yaml_str(&text));
    }
});
