//! How does `check --json` write what was found?

use serde::Serialize;
use standpipe::config::{Diagnostic, DiagnosticSeverity, ExporterSummary};

use standpipe::escape::shows_itself;

#[derive(Serialize)]
struct Document {
    exporters: Vec<ExporterSummary>,
    warnings: Vec<String>,
    errors: Vec<String>,
}

/// One object. Notes are left out: they need no action.
pub(super) fn write(
    exporters: Vec<ExporterSummary>,
    diagnostics: &[Diagnostic],
    failures: &[String],
) -> String {
    let texts = |severity| {
        let of_it = diagnostics.iter().filter(move |diagnostic| diagnostic.severity == severity);
        of_it.map(without_severity).collect::<Vec<_>>()
    };
    let mut errors = texts(DiagnosticSeverity::Error);
    errors.extend_from_slice(failures);
    let document = Document { exporters, warnings: texts(DiagnosticSeverity::Warning), errors };
    // strings, numbers and lists always can be written
    let written = serde_json::to_string_pretty(&document).unwrap_or_default();
    escaped(&written)
}

/// The same to a program, and harmless to a terminal: JSON leaves invisible characters and some control characters as
/// they are.
fn escaped(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        match c == '\n' || shows_itself(c) {
            true => escaped.push(c),
            false => {
                let mut units = [0; 2];
                let written = c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}"));
                escaped.extend(written);
            }
        }
    }
    escaped
}

/// The list that it is in states the severity.
fn without_severity(diagnostic: &Diagnostic) -> String {
    let mut diagnostic = diagnostic.clone();
    diagnostic.severity = DiagnosticSeverity::Error;
    diagnostic.to_string()
}

#[cfg(test)]
mod tests {
    use standpipe::{Config, Exporter, Signal};

    use super::*;

    #[test]
    fn the_form_is_the_documented_one() {
        let exporter = Exporter::http("https://collector.example:4318")
            .header("Authorization", "Bearer hunter2")
            .signals([Signal::Traces]);
        let config = Config::new().service_name("shop").exporter(exporter);
        let written = write(config.summaries(), &[], &["it is down".to_owned()]);
        let expected = r#"{
  "exporters": [
    {
      "id": "otlp",
      "signals": [
        "traces"
      ],
      "transport": "http",
      "endpoints": {
        "traces": "https://collector.example:4318/v1/traces"
      },
      "tls": true,
      "headers": [
        "authorization"
      ],
      "level": "info",
      "throttle_ms": 1000,
      "lossy": false,
      "timeout_ms": 10000,
      "interval_ms": null,
      "service_name": "shop",
      "sampling": 100.0,
      "route": null
    }
  ],
  "warnings": [],
  "errors": [
    "it is down"
  ]
}"#;
        assert_eq!(written, expected);
    }
}
