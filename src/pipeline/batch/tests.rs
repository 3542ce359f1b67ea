use std::collections::HashMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value::StringValue;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::record::{Resource, ScopeBuilder, Value};

/// A record to be queued: the index of its scope, and the padding of its name.
type Queued = (usize, usize);

/// A backlog that a test fills, and the spans that must come out of it.
struct World {
    scopes: Vec<Arc<Scope>>,
    resource: Vec<u8>,
    /// Each span in the order of pushing: its unique name, the name of its scope, and its framed length.
    expected: Vec<(String, String, usize)>,
    backlog: Backlog,
}

impl World {
    fn new(chunks: &[Vec<Queued>]) -> Self {
        let plain = ["a", "", "the scope with the long name"];
        let plain = plain.map(|name| Arc::new(Scope::new(Signal::Traces, name, "1.0")));
        // Two scopes have equal resources, each in a separate allocation.
        let foreign = ["b of bank", "c of bank", "d of café"].map(|name| Arc::new(foreign_scope(name)));
        let mut world = Self {
            scopes: [plain, foreign].concat(),
            resource: resource("shop").field(),
            expected: Vec::new(),
            backlog: Backlog::default(),
        };
        for records in chunks {
            let mut chunk = Chunk::with_capacity(Signal::Traces, 64);
            for (scope, padding) in records {
                let name = format!("{}:{}", world.expected.len(), "x".repeat(*padding));
                let scope = &world.scopes[*scope];
                let record = framed(&Span { name: name.clone(), ..Default::default() });
                chunk.append(scope, &record, 1);
                world.expected.push((name, scope.name.clone(), record.len()));
            }
            world.backlog.push(Box::new(chunk));
        }
        world
    }

    fn next(&mut self, settings: &BatchSettings) -> Option<Next> {
        self.backlog.next(settings, usize::MAX, usize::MAX, &self.resource)
    }

    /// Returns the one batch that has all records.
    fn whole(&mut self) -> Batch {
        match self.next(&BatchSettings { records: usize::MAX, bytes: usize::MAX }) {
            Some(Next::Batch(batch)) => batch,
            other => panic!("{other:?}"),
        }
    }

    /// Decodes a batch and checks its counts and lengths. Returns its spans as (name, scope).
    fn read(&self, batch: &Batch) -> Vec<(String, String)> {
        let body = batch.body().concat();
        let request = ExportTraceServiceRequest::decode(&*body).unwrap();
        assert_eq!(body.len(), request.encoded_len(), "nothing unknown, twice or longer than needed");
        let services: Vec<_> = request.resource_spans.iter().map(service).collect();
        let once = services.iter().enumerate().all(|(index, service)| !services[..index].contains(service));
        assert!(once, "each resource stands once in a request: {services:?}");
        let scope_spans = || request.resource_spans.iter().flat_map(|of_resource| &of_resource.scope_spans);
        let scopes: Vec<_> = scope_spans().map(|group| group.scope.clone().unwrap()).collect();
        for of_resource in &request.resource_spans {
            for scope in of_resource.scope_spans.iter().filter_map(|group| group.scope.as_ref()) {
                assert_eq!(service(of_resource), service_of(&scope.name));
            }
        }
        let once = scopes.iter().enumerate().all(|(index, scope)| !scopes[..index].contains(scope));
        assert!(once, "each scope stands once in a request: {scopes:?}");
        let spans: Vec<_> = scope_spans()
            .zip(scopes)
            .flat_map(|(group, scope)| group.spans.iter().map(move |span| (span, scope.name.clone())))
            .collect();
        let lengths = spans.iter().map(|(span, _)| framed(span).len()).sum::<usize>();
        assert_eq!((batch.records, batch.queued_bytes), (spans.len() as u64, lengths));
        spans.into_iter().map(|(span, scope)| (span.name.clone(), scope)).collect()
    }

    fn expected_spans(&self) -> Vec<(String, String)> {
        self.expected.iter().map(|(name, scope, _)| (name.clone(), scope.clone())).collect()
    }
}

fn resource(service: &str) -> Resource {
    let mut resource = Resource::default();
    resource.set("service.name", Value::Str(service));
    resource
}

/// Returns a scope with its own resource and with schema URLs.
fn foreign_scope(name: &str) -> Scope {
    let mut resource = resource(service_of(name));
    resource.schema_url = "https://schema.example/1".to_owned();
    let scope = ScopeBuilder::new(name).version("2").schema_url("https://schema.example/2").set("part", 7);
    scope.into_scope(Signal::Traces, Some(resource.field().into()))
}

/// Returns the service at the end of a scope's name (`… of SERVICE`), or else the exporter's service.
fn service_of(scope: &str) -> &str {
    scope.split_once(" of ").map_or("shop", |(_, service)| service)
}

/// Returns the value of a resource's only attribute, `service.name`. Checks that a foreign resource and its scopes have
/// the schema URLs of `foreign_scope`, and that the exporter's own resource and scopes have no schema URL.
fn service(of_resource: &ResourceSpans) -> &str {
    let [attribute] = &of_resource.resource.as_ref().unwrap().attributes[..] else {
        panic!("{of_resource:?}");
    };
    assert_eq!(attribute.key, "service.name");
    let service = match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(StringValue(service)) => service.as_str(),
        other => panic!("{other:?}"),
    };
    let of_scopes = of_resource.scope_spans.iter().map(|group| (group.schema_url.as_str(), "/2"));
    for (url, end) in of_scopes.chain([(of_resource.schema_url.as_str(), "/1")]) {
        assert_eq!((url.is_empty(), url.ends_with(end)), (service == "shop", service != "shop"), "{url}");
    }
    service
}

fn framed(span: &Span) -> Vec<u8> {
    let mut record = Vec::new();
    prost::encoding::message::encode(2, span, &mut record);
    record
}

/// Groups spans by scope. The spans of each scope keep their order.
fn by_scope(spans: &[(String, String)]) -> HashMap<&str, Vec<&str>> {
    let mut scopes: HashMap<&str, Vec<&str>> = HashMap::new();
    for (name, scope) in spans {
        scopes.entry(scope).or_default().push(name);
    }
    scopes
}

fn any_chunks() -> impl Strategy<Value = Vec<Vec<Queued>>> {
    let padding = prop_oneof![6 => 0usize..20, 2 => 100usize..200, 1 => 300usize..2000];
    prop::collection::vec(prop::collection::vec((0usize..6, padding), 1..12), 0..8)
}

fn any_settings() -> impl Strategy<Value = BatchSettings> {
    let records = prop_oneof![3 => 1usize..20, 1 => Just(usize::MAX)];
    let bytes = prop_oneof![4 => 0usize..2500, 1 => Just(usize::MAX)];
    (records, bytes).prop_map(|(records, bytes)| BatchSettings { records, bytes })
}

proptest! {
    #[test]
    fn every_record_goes_into_one_request_within_the_limits(
        chunks in any_chunks(),
        settings in any_settings(),
    ) {
        let mut world = World::new(&chunks);
        let (mut sent, mut rounds) = (Vec::new(), 0);
        let mut too_large = Vec::new();
        while let Some(next) = world.backlog.next(&settings, usize::MAX, usize::MAX, &world.resource) {
            rounds += 1;
            prop_assert!(rounds <= world.expected.len(), "every round takes at least one record");
            match next {
                Next::Batch(batch) => {
                    prop_assert!(batch.records >= 1 && batch.records <= settings.records as u64);
                    prop_assert!(batch.body().concat().len() <= settings.bytes);
                    sent.extend(world.read(&batch));
                }
                Next::Dropped { outcome, bytes, .. } => {
                    prop_assert_eq!(outcome, Outcome::TooLarge);
                    too_large.push(bytes);
                }
            }
        }
        prop_assert!(world.backlog.is_empty());
        // A record is dropped as too large if it does not fit into a request of its own together with the headers.
        let fits = |(_, scope, bytes): &(String, String, usize)| {
            let scope = world.scopes.iter().find(|known| known.name == *scope).unwrap();
            let resource = scope.resource().unwrap_or(&world.resource);
            let around = resource.len() + scope.field().len() + 2 * MAX_HEADER_BYTES;
            settings.bytes >= around && *bytes <= settings.bytes - around
        };
        let (fitting, refused): (Vec<_>, Vec<_>) = world.expected.iter().cloned().partition(fits);
        prop_assert_eq!(too_large, refused.iter().map(|(.., bytes)| *bytes).collect::<Vec<_>>());
        let fitting: Vec<_> = fitting.into_iter().map(|(name, scope, _)| (name, scope)).collect();
        prop_assert_eq!(by_scope(&sent), by_scope(&fitting));
        prop_assert_eq!(sent.len(), fitting.len());
    }

    #[test]
    fn halves_hold_everything_and_nothing_twice(chunks in any_chunks()) {
        prop_assume!(!chunks.is_empty());
        let mut world = World::new(&chunks);
        let mut batches = vec![world.whole()];
        let mut singles = Vec::new();
        while let Some(batch) = batches.pop() {
            if batch.records == 1 {
                singles.extend(world.read(&batch));
                continue;
            }
            let (records, bytes, spans) = (batch.records, batch.queued_bytes, world.read(&batch));
            let [first, second] = batch.halve(&world.resource).try_into().expect("nothing is lost");
            prop_assert_eq!([first.records, second.records], [records / 2, records - records / 2]);
            prop_assert_eq!(first.queued_bytes + second.queued_bytes, bytes);
            prop_assert_eq!([world.read(&first), world.read(&second)].concat(), spans);
            batches.extend([second, first]);
        }
        let expected = world.expected_spans();
        prop_assert_eq!(by_scope(&singles), by_scope(&expected));
        prop_assert_eq!(singles.len(), world.expected.len());
    }

    #[test]
    fn a_write_off_counts_exactly_what_was_not_taken(chunks in any_chunks(), settings in any_settings()) {
        let mut world = World::new(&chunks);
        let (taken, taken_bytes) = match world.next(&settings) {
            Some(Next::Batch(batch)) => (batch.records, batch.queued_bytes),
            Some(Next::Dropped { outcome: Outcome::TooLarge, bytes, .. }) => (1, bytes),
            Some(Next::Dropped { .. }) | None => (0, 0),
        };
        let lost = world.backlog.write_off().into_iter().fold((0, 0), |sum, (records, bytes)| (sum.0 + records, sum.1 + bytes));
        let all_bytes: usize = world.expected.iter().map(|(.., bytes)| bytes).sum();
        prop_assert_eq!((taken + lost.0, taken_bytes + lost.1), (world.expected.len() as u64, all_bytes));
        prop_assert!(world.backlog.is_empty() && world.next(&settings).is_none());
    }
}

#[test]
fn records_of_a_scope_are_grouped_over_all_chunks_of_a_request() {
    let mut world = World::new(&[vec![(0, 0), (1, 0), (0, 0)], vec![(1, 0), (0, 0)]]);
    let batch = world.whole();
    let names: Vec<_> = world.read(&batch).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["0:", "2:", "4:", "1:", "3:"]);
}

#[test]
fn records_of_a_resource_stand_together_and_its_scopes_in_the_order_they_came() {
    let mut world = World::new(&[vec![(3, 0), (0, 0), (4, 0), (5, 0), (1, 0), (3, 0)]]);
    let batch = world.whole();
    let names: Vec<_> = world.read(&batch).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["0:", "5:", "2:", "1:", "4:", "3:"]);
}

#[test]
fn a_record_that_no_request_can_hold_is_reported_and_does_not_block_the_next() {
    let mut world = World::new(&[vec![(0, 10), (0, 1000), (0, 10)]]);
    let settings = BatchSettings { records: 10, bytes: 500 };
    let taken: Vec<_> = std::iter::from_fn(|| world.next(&settings))
        .take(10)
        .map(|next| match next {
            Next::Batch(batch) => Ok(batch.records),
            Next::Dropped { bytes, .. } => Err(bytes),
        })
        .collect();
    assert_eq!(taken, [Ok(1), Err(world.expected[1].2), Ok(1)]);
}

#[test]
fn a_request_that_fits_to_the_byte_is_one_request() {
    let mut world = World::new(&[vec![(0, 50), (0, 50)]]);
    let bytes: usize = world.expected.iter().map(|(.., bytes)| bytes).sum();
    let around = world.resource.len() + world.scopes[0].field().len() + 2 * MAX_HEADER_BYTES;
    let one_less = BatchSettings { records: 10, bytes: around + bytes - 1 };
    assert!(matches!(world.next(&one_less), Some(Next::Batch(batch)) if batch.records == 1));
    let mut world = World::new(&[vec![(0, 50), (0, 50)]]);
    let exact = BatchSettings { records: 10, bytes: around + bytes };
    assert!(matches!(world.next(&exact), Some(Next::Batch(batch)) if batch.records == 2));
}

#[test]
fn records_are_sent_from_where_they_are_unless_their_chunk_stays() {
    let mut world = World::new(&[vec![(0, 10), (0, 10)], vec![(0, 10), (0, 10)]]);
    let places: Vec<_> = world.backlog.chunks.iter().map(|chunk| chunk.bytes(0, 1).as_ptr()).collect();
    let Some(Next::Batch(batch)) = world.next(&BatchSettings { records: 3, bytes: 1000 }) else {
        panic!("three records fit");
    };
    let [_, first, second] = batch.body()[..] else { panic!("headers and two pieces: {batch:?}") };
    assert_eq!(first.as_ptr(), places[0]);
    assert_ne!(second.as_ptr(), places[1]);
    assert_eq!(world.backlog.chunks.len(), 1, "with its last record");
    assert_eq!(batch.into_chunks().len(), 2);
}

#[test]
fn a_request_is_no_larger_than_what_the_collector_takes_unless_one_record_is() {
    let mut world = World::new(&[vec![(0, 100); 5]]);
    let whole = BatchSettings { records: usize::MAX, bytes: usize::MAX };
    let mut sizes = Vec::new();
    for most in [300, 1, 1, 1000] {
        let Some(Next::Batch(batch)) = world.backlog.next(&whole, usize::MAX, most, &world.resource) else {
            panic!("nothing was given");
        };
        assert_eq!(batch.len(), batch.body().concat().len());
        sizes.push((batch.records, batch.len() <= most));
    }
    assert_eq!(sizes, [(2, true), (1, false), (1, false), (1, true)]);
}
