//! Counts what has arrived at the receiver, so that a contender cannot win by sending less.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use standpipe::receiver::proto::{Data, Number, NumberDataPoint};
use standpipe::receiver::{Batch, ReceivedMetric, ReceivedSpan, Receiver};

/// Starts a receiver that counts complete spans and keeps nothing.
///
/// A span is complete if it has a parent, at least `attributes` attributes, and exactly `events` events.
pub(crate) fn receiver_of_spans(attributes: u64, events: u64) -> io::Result<(Receiver, Arc<AtomicUsize>)> {
    let is_complete = move |received: &ReceivedSpan| {
        let span = &received.span;
        let has_content = span.attributes.len() as u64 >= attributes && span.events.len() as u64 == events;
        has_content && !span.parent_span_id.is_empty()
    };
    let counter = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&counter);
    let count = move |batch: &Batch| {
        let complete = batch.spans.iter().filter(|received| is_complete(received)).count();
        counted.fetch_add(complete, Ordering::SeqCst);
    };
    Ok((Receiver::builder().keep_bytes(0).on_batch(count).start()?, counter))
}

/// Returns the number of log records and span events, plus the total of the newest metric.
pub(crate) fn tally(receiver: &Receiver) -> u64 {
    let events: usize = receiver.spans().iter().map(|received| received.span.events.len()).sum();
    receiver.log_count() + events as u64 + receiver.metrics().last().map_or(0, total)
}

/// Returns the value of a sum or gauge, or the number of values of a histogram, over all attributes.
fn total(received: &ReceivedMetric) -> u64 {
    match &received.metric.data {
        Some(Data::Sum(sum)) => sum.data_points.iter().map(value).sum(),
        Some(Data::Gauge(gauge)) => gauge.data_points.iter().map(value).sum(),
        Some(Data::Histogram(histogram)) => histogram.data_points.iter().map(|point| point.count).sum(),
        Some(Data::ExponentialHistogram(histogram)) => {
            histogram.data_points.iter().map(|point| point.count).sum()
        }
        _ => 0,
    }
}

fn value(point: &NumberDataPoint) -> u64 {
    match point.value {
        Some(Number::AsInt(value)) => value as u64,
        Some(Number::AsDouble(value)) => value as u64,
        None => 0,
    }
}
