//! Decodes written metrics with the protocol's own messages, and compares them with a simple model of a metric.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics, ScopeMetrics};
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::record::attribute::MAX_DEPTH;
use crate::record::point::{HistogramPoint, Number};
use crate::record::wire::decode_varint;
use crate::record::{Value, frames};
use model::any_story;

/// A limit that no generated story reaches.
const AMPLE: usize = 1 << 20;

/// Returns the message in a frame, and checks the frame itself.
fn unframed(framed: &[u8]) -> &[u8] {
    let mut rest = framed;
    assert_eq!(decode_varint(&mut rest).unwrap(), 0x12, "the tag of ScopeMetrics.metrics");
    let length = decode_varint(&mut rest).unwrap();
    assert_eq!(length, rest.len() as u64);
    rest
}

/// Compares bytes, because NaN differs from itself and −0 equals 0, and prints messages.
fn assert_same(written: &Metric, expected: &Metric) -> Result<(), TestCaseError> {
    let same = written.encode_to_vec() == expected.encode_to_vec();
    prop_assert!(same, "written: {written:#?}\nexpected: {expected:#?}");
    Ok(())
}

fn gauge(name: &str) -> MetricHead<'_> {
    MetricHead { name, description: "", unit: "", point_kind: PointKind::Gauge }
}

const NOW: Period = Period { start: 0, time: 1 };

proptest! {
    // Each case takes long, so there are half as many as usual.
    #![proptest_config(ProptestConfig::with_cases(crate::tests::share_of(128)))]

    #[test]
    fn any_metric_is_read_back_as_it_was_told(stories in prop::collection::vec(any_story(), 1..4)) {
        // One record for all cases, as a collection reuses it: nothing of one metric may be left in the next.
        let mut record = MetricRecord::default();
        for story in &stories {
            story.begin(&mut record, AMPLE);
            for index in 0..story.points.len() {
                prop_assert!(story.add(index, &mut record));
            }
            prop_assert_eq!(record.points(), story.points.len() as u64);
            if story.points.is_empty() {
                prop_assert!(record.finish().is_empty());
                continue;
            }
            let message = unframed(record.finish()).to_vec();
            let written = Metric::decode(&*message).unwrap();
            assert_same(&written, &story.metric(0..story.points.len()))?;
            // No unknown field, no repeated field, no length longer than necessary.
            prop_assert_eq!(message.len(), written.encoded_len());
        }
    }

    #[test]
    fn points_that_do_not_fit_go_into_the_next_metric_and_none_is_lost(
        story in any_story(),
        max_bytes in 0usize..1500,
    ) {
        let mut record = MetricRecord::default();
        let (mut first, mut next) = (0, 0);
        while next < story.points.len() {
            story.begin(&mut record, max_bytes);
            while next < story.points.len() && story.add(next, &mut record) {
                next += 1;
            }
            prop_assert_eq!(record.points(), (next - first) as u64);
            let framed = record.finish();
            prop_assert_eq!(points_in(framed), (next - first) as u64);
            if next < story.points.len() {
                // The metric was full: with the next point, it would have exceeded the limit.
                let with_one_more = story.metric(first..next + 1).encoded_len();
                prop_assert!(field_len(with_one_more) > max_bytes);
            }
            if next == first {
                prop_assert!(framed.is_empty());
                // This point does not fit anywhere.
                next += 1;
            } else {
                prop_assert!(framed.len() <= max_bytes);
                assert_same(&Metric::decode(unframed(framed)).unwrap(), &story.metric(first..next))?;
            }
            first = next;
        }
    }

    #[test]
    fn points_are_counted_in_one_frame_and_in_many(stories in prop::collection::vec(any_story(), 0..4)) {
        let mut record = MetricRecord::default();
        let mut wire = Vec::new();
        let mut points = 0;
        for story in &stories {
            story.write(&mut record);
            points += record.points();
            wire.extend_from_slice(record.finish());
        }
        prop_assert_eq!(points_in(&wire), points);
        prop_assert_eq!(frames(&wire).map(points_in).sum::<u64>(), points);
    }

    #[test]
    fn points_in_hostile_bytes_are_none_or_what_a_decoder_reads(
        story in any_story(),
        at in any::<prop::sample::Index>(),
        byte in prop_oneof![Just(0xff), Just(0x00), Just(0x0b), any::<u8>()],
        cut in any::<prop::sample::Index>(),
        noise in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        points_in(&noise);
        let mut record = MetricRecord::default();
        story.write(&mut record);
        let mut framed = record.finish().to_vec();
        prop_assume!(!framed.is_empty());
        let kept = cut.index(framed.len());
        prop_assert!(kept == 0 || points_in(&framed[..kept]) == 0, "cut short");
        *at.get_mut(&mut framed) = byte;
        let points = points_in(&framed);
        if let Ok(scope) = ScopeMetrics::decode(&*framed) {
            let read: u64 = scope.metrics.iter().map(model::points).sum();
            // If a metric has two kinds of data, decoders keep the last.
            prop_assert!(points >= read || points == 0, "{points} {read}");
        }
    }
}

#[test]
fn a_metric_without_points_is_nothing_to_send() {
    let mut record = MetricRecord::default();
    assert!(record.finish().is_empty(), "never begun");
    record.begin(&gauge("empty"), AMPLE);
    assert_eq!((record.points(), record.finish()), (0, [].as_slice()));
}

#[test]
fn a_head_that_does_not_fit_takes_no_points() {
    let mut record = MetricRecord::default();
    let name = "n".repeat(1 << 20);
    record.begin(&gauge(&name), 1000);
    assert!(!record.add(&AttributeSet::default(), NOW, &Point::Number(Number::Int(1)), &[]));
    assert!(record.finish().is_empty());
}

#[test]
fn a_metric_fits_into_exactly_its_own_length() {
    // Around the sizes at which the length of the data, or of the metric, needs another byte.
    for length in (1..200).chain(16_200..16_400) {
        let text = "t".repeat(length);
        let attributes = AttributeSet::new([("key", Value::Str(&text))]);
        let mut record = MetricRecord::default();
        let mut fits = |max_bytes| {
            record.begin(&gauge("g"), max_bytes);
            record.add(&attributes, NOW, &Point::Number(Number::Int(1)), &[]).then(|| record.finish().len())
        };
        let whole = fits(AMPLE).unwrap();
        assert_eq!((fits(whole), fits(whole - 1)), (Some(whole), None), "{length}");
    }
}

#[test]
fn a_point_of_another_kind_is_not_written() {
    let mut record = MetricRecord::default();
    let none = AttributeSet::default();
    let histogram = HistogramPoint {
        count: 1,
        sum: Some(1.0),
        min: Some(1.0),
        max: Some(1.0),
        bounds: &[],
        counts: &[1],
    };
    record.begin(&gauge("g"), AMPLE);
    assert!(!record.add(&none, NOW, &Point::Histogram(histogram), &[]));
    let point_kind = PointKind::Histogram { temporality: AggregationTemporality::Delta };
    record.begin(&MetricHead { point_kind, ..gauge("h") }, AMPLE);
    assert!(!record.add(&none, NOW, &Point::Number(Number::Int(1)), &[]));
    assert!(record.add(&none, NOW, &Point::Histogram(histogram), &[]));
    let metric = Metric::decode(unframed(record.finish())).unwrap();
    assert_eq!(model::points(&metric), 1);
}

#[test]
fn nothing_is_added_to_a_finished_metric() {
    let mut record = MetricRecord::default();
    record.begin(&gauge("g"), AMPLE);
    assert!(record.add(&AttributeSet::default(), NOW, &Point::Number(Number::Float(f64::NAN)), &[]));
    let first = record.finish().to_vec();
    assert!(!record.add(&AttributeSet::default(), NOW, &Point::Number(Number::Int(1)), &[]));
    assert_eq!(record.finish(), first);
}

#[test]
fn other_frames_have_no_points() {
    assert_eq!(points_in(&[]), 0);
    // A frame with the tag of another field.
    let mut record = MetricRecord::default();
    record.begin(&gauge("g"), AMPLE);
    assert!(record.add(&AttributeSet::default(), NOW, &Point::Number(Number::Int(1)), &[]));
    let mut framed = record.finish().to_vec();
    assert_eq!(points_in(&framed), 1);
    framed[0] = 0x0a;
    assert_eq!(points_in(&framed), 0);
}

#[test]
fn the_deepest_attribute_can_be_read_in_a_whole_request() {
    let deepest =
        (0..MAX_DEPTH).fold(Value::Strs(&["leaf"]), |value, _| Value::Map(vec![("key", value)].leak()));
    let mut record = MetricRecord::default();
    record.begin(&gauge("deep"), AMPLE);
    assert!(record.add(&AttributeSet::new([("deep", deepest)]), NOW, &Point::Number(Number::Int(1)), &[]));
    let metrics = vec![Metric::decode(unframed(record.finish())).unwrap()];
    let scope_metrics = vec![ScopeMetrics { metrics, ..Default::default() }];
    let resource_metrics = vec![ResourceMetrics { scope_metrics, ..Default::default() }];
    let request = ExportMetricsServiceRequest { resource_metrics }.encode_to_vec();
    ExportMetricsServiceRequest::decode(&*request).expect("decoders stop at 100 nested messages");
}

/// Random metrics: a `Story` writes itself to a record, and returns the message that is expected there.
mod model {
    use std::ops::Range;

    use opentelemetry_proto::tonic::metrics::v1 as message;
    use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
    use opentelemetry_proto::tonic::metrics::v1::{
        ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric,
        NumberDataPoint, Sum, exemplar, metric::Data, number_data_point,
    };
    use proptest::prelude::*;

    use super::super::*;
    use crate::record::attribute_set::tests::{Pair, any_pairs, model as attributes};
    use crate::record::point::{BucketsView, ExponentialPoint, HistogramPoint, Number};
    use crate::record::{SpanId, SpanRef, TraceId};

    #[derive(Debug, Clone)]
    pub(super) struct Story {
        name: String,
        description: String,
        unit: String,
        point_kind: PointKind,
        pub(super) points: Vec<PointStory>,
    }

    /// The fields of all kinds of points. The kind of the metric determines which of them are written.
    #[derive(Debug, Clone)]
    pub(super) struct PointStory {
        pairs: Vec<Pair>,
        period: Period,
        value: Number,
        count: u64,
        sum: f64,
        min: Option<f64>,
        max: Option<f64>,
        bounds: Vec<f64>,
        counts: Vec<u64>,
        scale: i32,
        zero_count: u64,
        zero_threshold: f64,
        positive: (i32, Vec<u64>),
        negative: (i32, Vec<u64>),
        exemplars: Vec<ExemplarStory>,
    }

    #[derive(Debug, Clone)]
    struct ExemplarStory {
        value: Number,
        time: u64,
        span: Option<([u8; 16], [u8; 8])>,
        removed: Vec<Pair>,
    }

    impl Story {
        pub(super) fn begin(&self, record: &mut MetricRecord, max_bytes: usize) {
            let Self { name, description, unit, point_kind, .. } = self;
            record.begin(&MetricHead { name, description, unit, point_kind: *point_kind }, max_bytes);
        }

        /// Adds one point of the story.
        pub(super) fn add(&self, index: usize, record: &mut MetricRecord) -> bool {
            let point = &self.points[index];
            let attributes = AttributeSet::new(point.pairs.iter().copied());
            let value = match self.point_kind {
                PointKind::Gauge | PointKind::Sum { .. } => Point::Number(point.value),
                PointKind::Histogram { .. } => Point::Histogram(point.histogram()),
                PointKind::ExponentialHistogram { .. } => Point::Exponential(point.exponential()),
            };
            let exemplars: Vec<_> = point.exemplars.iter().map(ExemplarStory::exemplar).collect();
            record.add(&attributes, point.period, &value, &exemplars)
        }

        /// Begins a metric in the record, and adds all points.
        pub(super) fn write(&self, record: &mut MetricRecord) {
            self.begin(record, usize::MAX);
            for index in 0..self.points.len() {
                assert!(self.add(index, record));
            }
        }

        /// Returns the expected message for these points.
        pub(super) fn metric(&self, points: Range<usize>) -> Metric {
            let points = self.points[points].iter();
            let data = match self.point_kind {
                PointKind::Gauge => {
                    Data::Gauge(Gauge { data_points: points.map(PointStory::number).collect() })
                }
                PointKind::Sum { monotonic, temporality } => Data::Sum(Sum {
                    data_points: points.map(PointStory::number).collect(),
                    aggregation_temporality: number_of(temporality),
                    is_monotonic: monotonic,
                }),
                PointKind::Histogram { temporality } => Data::Histogram(Histogram {
                    data_points: points.map(PointStory::histogram_message).collect(),
                    aggregation_temporality: number_of(temporality),
                }),
                PointKind::ExponentialHistogram { temporality } => {
                    Data::ExponentialHistogram(ExponentialHistogram {
                        data_points: points.map(PointStory::exponential_message).collect(),
                        aggregation_temporality: number_of(temporality),
                    })
                }
            };
            Metric {
                name: self.name.clone(),
                description: self.description.clone(),
                unit: self.unit.clone(),
                data: Some(data),
                ..Default::default()
            }
        }
    }

    impl ExemplarStory {
        fn exemplar(&self) -> Exemplar {
            let span = |(trace_id, span_id)| SpanRef {
                trace_id: TraceId(trace_id),
                span_id: SpanId(span_id),
                trace_flags: 1,
            };
            let removed = AttributeSet::new(self.removed.iter().copied());
            Exemplar { value: self.value, time: self.time, span: self.span.map(span), removed }
        }

        fn message(&self) -> message::Exemplar {
            let (trace_id, span_id) = self.span.unzip();
            message::Exemplar {
                filtered_attributes: attributes(&self.removed),
                time_unix_nano: self.time,
                trace_id: trace_id.map_or(Vec::new(), Vec::from),
                span_id: span_id.map_or(Vec::new(), Vec::from),
                value: Some(match self.value {
                    Number::Int(number) => exemplar::Value::AsInt(number),
                    Number::Float(number) => exemplar::Value::AsDouble(number),
                }),
            }
        }
    }

    impl PointStory {
        fn exemplars(&self) -> Vec<message::Exemplar> {
            self.exemplars.iter().map(ExemplarStory::message).collect()
        }

        fn histogram(&self) -> HistogramPoint<'_> {
            let Self { count, sum, min, max, bounds, counts, .. } = self;
            HistogramPoint { count: *count, sum: Some(*sum), min: *min, max: *max, bounds, counts }
        }

        fn exponential(&self) -> ExponentialPoint<'_> {
            ExponentialPoint {
                count: self.count,
                sum: Some(self.sum),
                min: self.min,
                max: self.max,
                scale: self.scale,
                zero_count: self.zero_count,
                zero_threshold: self.zero_threshold,
                positive: BucketsView { offset: self.positive.0, counts: &self.positive.1 },
                negative: BucketsView { offset: self.negative.0, counts: &self.negative.1 },
            }
        }

        fn number(&self) -> NumberDataPoint {
            NumberDataPoint {
                attributes: attributes(&self.pairs),
                exemplars: self.exemplars(),
                start_time_unix_nano: self.period.start,
                time_unix_nano: self.period.time,
                value: Some(match self.value {
                    Number::Int(number) => number_data_point::Value::AsInt(number),
                    Number::Float(number) => number_data_point::Value::AsDouble(number),
                }),
                ..Default::default()
            }
        }

        fn histogram_message(&self) -> HistogramDataPoint {
            HistogramDataPoint {
                attributes: attributes(&self.pairs),
                exemplars: self.exemplars(),
                start_time_unix_nano: self.period.start,
                time_unix_nano: self.period.time,
                count: self.count,
                sum: Some(self.sum),
                bucket_counts: self.counts.clone(),
                explicit_bounds: self.bounds.clone(),
                min: self.min,
                max: self.max,
                ..Default::default()
            }
        }

        fn exponential_message(&self) -> ExponentialHistogramDataPoint {
            let buckets = |(offset, counts): &(i32, Vec<u64>)| {
                (!counts.is_empty()).then(|| Buckets { offset: *offset, bucket_counts: counts.clone() })
            };
            ExponentialHistogramDataPoint {
                attributes: attributes(&self.pairs),
                exemplars: self.exemplars(),
                start_time_unix_nano: self.period.start,
                time_unix_nano: self.period.time,
                count: self.count,
                sum: Some(self.sum),
                scale: self.scale,
                zero_count: self.zero_count,
                zero_threshold: self.zero_threshold,
                positive: buckets(&self.positive),
                negative: buckets(&self.negative),
                min: self.min,
                max: self.max,
                ..Default::default()
            }
        }
    }

    /// Returns OTLP's number of the temporality.
    fn number_of(temporality: AggregationTemporality) -> i32 {
        match temporality {
            AggregationTemporality::Delta => 1,
            AggregationTemporality::Cumulative => 2,
        }
    }

    /// Returns the number of points that a decoder finds.
    pub(super) fn points(metric: &Metric) -> u64 {
        let points = match &metric.data {
            None => 0,
            Some(Data::Gauge(data)) => data.data_points.len(),
            Some(Data::Sum(data)) => data.data_points.len(),
            Some(Data::Histogram(data)) => data.data_points.len(),
            Some(Data::ExponentialHistogram(data)) => data.data_points.len(),
            Some(Data::Summary(data)) => data.data_points.len(),
        };
        points as u64
    }

    pub(super) fn any_story() -> impl Strategy<Value = Story> {
        let exemplars = prop::collection::vec(any_exemplar(), 0..3);
        let point = (any_point(), exemplars).prop_map(|(point, exemplars)| PointStory { exemplars, ..point });
        let points = prop::collection::vec(point, 0..8);
        (any_text(), any_text(), any_text(), any_shape(), points).prop_map(
            |(name, description, unit, point_kind, points)| Story {
                name,
                description,
                unit,
                point_kind,
                points,
            },
        )
    }

    fn any_shape() -> impl Strategy<Value = PointKind> {
        let temporality =
            || prop::sample::select(vec![AggregationTemporality::Cumulative, AggregationTemporality::Delta]);
        prop_oneof![
            Just(PointKind::Gauge),
            (any::<bool>(), temporality())
                .prop_map(|(monotonic, temporality)| PointKind::Sum { monotonic, temporality }),
            temporality().prop_map(|temporality| PointKind::Histogram { temporality }),
            temporality().prop_map(|temporality| PointKind::ExponentialHistogram { temporality }),
        ]
    }

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![
            Just(String::new()),
            "[a-zé水]{0,12}",
            (100usize..300).prop_map(|length| "ä".repeat(length))
        ]
    }

    fn any_point() -> impl Strategy<Value = PointStory> {
        let float = || prop_oneof![Just(0.0), prop::num::f64::ANY];
        let small = || prop_oneof![Just(0u64), any::<u64>()];
        let counts = || prop::collection::vec(prop_oneof![0u64..300, any::<u64>()], 0..20);
        let side = || (prop_oneof![-2i32..3, any::<i32>()], counts());
        let totals = (small(), float(), prop::option::of(float()), prop::option::of(float()));
        let zeros = (small(), prop_oneof![Just(0.0), 0.0..1e9f64]);
        let explicit = (prop::collection::vec(float(), 0..20), counts());
        let exponential = (prop_oneof![-10i32..21, any::<i32>()], zeros, side(), side());
        (any_pairs(), small(), small(), any_number(), totals, explicit, exponential).prop_map(
            |(pairs, start, time, value, totals, explicit, exponential)| {
                let (count, sum, min, max) = totals;
                let (bounds, counts) = explicit;
                let (scale, (zero_count, zero_threshold), positive, negative) = exponential;
                PointStory {
                    pairs,
                    period: Period { start, time },
                    value,
                    count,
                    sum,
                    min,
                    max,
                    bounds,
                    counts,
                    scale,
                    zero_count,
                    zero_threshold,
                    positive,
                    negative,
                    exemplars: Vec::new(),
                }
            },
        )
    }

    fn any_number() -> impl Strategy<Value = Number> {
        let float = prop_oneof![Just(0.0), prop::num::f64::ANY];
        prop_oneof![prop_oneof![Just(0), any::<i64>()].prop_map(Number::Int), float.prop_map(Number::Float)]
    }

    fn any_exemplar() -> impl Strategy<Value = ExemplarStory> {
        let time = prop_oneof![Just(0u64), any::<u64>()];
        (any_number(), time, any::<Option<([u8; 16], [u8; 8])>>(), any_pairs())
            .prop_map(|(value, time, span, removed)| ExemplarStory { value, time, span, removed })
    }
}
