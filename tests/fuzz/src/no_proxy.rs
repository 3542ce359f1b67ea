//! Invariants of every value of `NO_PROXY`.

use std::time::Duration;

use standpipe::{Config, Exporter, Telemetry};

use crate::config::SECRET;

/// Maximum size of a diagnostic: more than any diagnostic needs.
const MAX_MESSAGE_BYTES: usize = 500;

/// An input is a value of `NO_PROXY`. The secret is inserted into private keys, which no diagnostic may show.
pub fn check(text: &str) {
    if text.contains('\0') {
        return;
    }
    let value = text.replace("-----BEGIN", &format!("-----BEGIN {SECRET}"));
    // SAFETY: the fuzzer calls this on one thread, and the threads of earlier exporters have ended.
    unsafe {
        std::env::set_var("HTTP_PROXY", "http://127.0.0.1:1");
        std::env::set_var("NO_PROXY", &value);
    }
    let config = || Config::new().exporter(Exporter::http("http://collector.test:4318"));
    let config = config().with_environment().expect("a proxy is no mistake");
    for diagnostic in config.diagnostics() {
        let said = diagnostic.to_string();
        assert!(!said.contains(SECRET), "shows a secret: {said}");
        assert!(!said.contains(char::is_control), "control characters are shown: {said:?}");
        assert!(said.len() <= MAX_MESSAGE_BYTES, "{} bytes for one entry", said.len());
    }
    let found = config.diagnostics().len();
    assert_eq!(config.clone().with_environment().expect("as before").diagnostics().len(), found);
    // The start compares the host with the entries.
    let telemetry = Telemetry::start(config).expect("it is in order");
    let lost = telemetry.shutdown(Duration::from_secs(1)).lost();
    assert_eq!(lost, 0);
}
