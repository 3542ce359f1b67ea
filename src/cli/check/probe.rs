//! Asks the collectors.

use standpipe::Exporter;

use super::stages::Asked;

/// Asks every endpoint of the exporter.
pub(super) fn ask(_exporter: &Exporter) -> Vec<Asked> {
    Vec::new()
}
