//! What a request carries, of whichever signal.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::DecodeError;

use super::logs::{self, ReceivedLog};
use super::metrics::{self, ReceivedMetric};
use super::traces::{self, ReceivedSpan};
use crate::record::Signal;

/// The records of one request: only the list of its signal has something in it.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) spans: Vec<ReceivedSpan>,
    pub(super) logs: Vec<ReceivedLog>,
    pub(super) metrics: Vec<ReceivedMetric>,
}

impl Records {
    pub(super) fn decode(signal: Signal, body: &[u8]) -> Result<Self, DecodeError> {
        Ok(match signal {
            Signal::Traces => Self { spans: traces::decode(body)?, ..Self::default() },
            Signal::Logs => Self { logs: logs::decode(body)?, ..Self::default() },
            Signal::Metrics => Self { metrics: metrics::decode(body)?, ..Self::default() },
        })
    }

    /// Whether there is nothing at all, not even a metric without data points.
    pub(super) fn is_empty(&self) -> bool {
        self.spans.is_empty() && self.logs.is_empty() && self.metrics.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        count(&self.spans, &self.logs, &self.metrics)
    }

    /// Forgets all but the first `count` spans, log records or data points.
    pub(super) fn keep_first(&mut self, count: usize) {
        self.spans.truncate(count);
        self.logs.truncate(count);
        metrics::keep_first(&mut self.metrics, count);
    }
}

/// Spans, log records and data points: what a ledger counts.
pub(super) fn count(spans: &[ReceivedSpan], logs: &[ReceivedLog], metrics: &[ReceivedMetric]) -> usize {
    spans.len() + logs.len() + metrics.iter().map(ReceivedMetric::point_count).sum::<usize>()
}

/// The value of the attribute `key`.
pub(super) fn find<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a Value> {
    attributes.iter().find(|attribute| attribute.key == key)?.value.as_ref()?.value.as_ref()
}
