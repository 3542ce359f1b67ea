//! Examples from the documentation of programs that use these layouts: each loads without an error and describes
//! exactly the exporters of the JSON file next to it.

use std::fs;

use serde_json::Value;
use standpipe::Config;

use crate::support::command;

/// The documents, with the names of their files.
pub(crate) const ALL: [&str; 5] = [
    "tracer-grpc.toml",
    "tracer-http.toml",
    "metrics.toml",
    "tracetest-config.yaml",
    "quality-trace-config.yaml",
];

const FOLDER: &str = "tests/config/acceptance/documents";

/// The expected outcome of a document.
fn expected(document: &str) -> Value {
    let (name, _) = document.split_once('.').unwrap();
    serde_json::from_str(&fs::read_to_string(format!("{FOLDER}/{name}.json")).unwrap()).unwrap()
}

#[test]
fn every_document_says_to_programs_what_it_describes() {
    for document in ALL {
        let output = command::run(&["check", "--json", "--offline", &format!("{FOLDER}/{document}")]);
        assert_eq!(output.status.code(), Some(0), "{document}: {}", command::stderr(&output));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told, expected(document), "{document}: {told:#}");
    }
}

#[test]
fn every_document_is_summarised_as_it_is_told() {
    for document in ALL {
        let config = Config::from_file(format!("{FOLDER}/{document}")).unwrap();
        let mut summaries = serde_json::to_value(config.summaries()).unwrap();
        for summary in summaries.as_array_mut().unwrap() {
            // The command cannot know which program a file is for, so its default service name contains no program.
            if summary["service_name"].as_str().unwrap().starts_with("unknown_service:") {
                summary["service_name"] = "unknown_service".into();
            }
        }
        assert_eq!(summaries, expected(document)["exporters"], "{document}");
    }
}
