//! Asks the collectors.

use standpipe::{Exporter, Summary};

use super::stages::Asked;

/// Asks every endpoint of the exporter, for no longer than an attempt of it may take.
pub(super) fn ask(_exporter: &Exporter, _summary: &Summary) -> Vec<Asked> {
    Vec::new()
}
