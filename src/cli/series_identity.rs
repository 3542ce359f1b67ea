//! Which data points are one series? Those of one resource, one scope, one metric and one set of attributes, in any order.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;

use standpipe::receiver::ReceivedMetric;
use standpipe::receiver::proto::KeyValue;

use super::describe;
use super::point_view::PointView;

/// A hash of what all points of a metric share.
pub(crate) fn origin(received: &ReceivedMetric) -> u64 {
    let kind = received.metric.data.as_ref().map(mem::discriminant);
    hash(&(attributes(&received.resource.attributes), received.scope_name(), received.name(), kind))
}

/// A hash of all that tells the series of a point from others.
pub(crate) fn of_point(origin: u64, view: &PointView<'_>) -> u64 {
    hash(&(attributes(view.attributes()), origin))
}

fn attributes(list: &[KeyValue]) -> u64 {
    let each =
        list.iter().map(|attribute| hash(&(&attribute.key, describe::whole_value(attribute.value.as_ref()))));
    each.fold(0, u64::wrapping_add)
}

pub(crate) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
