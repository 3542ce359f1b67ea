//! Views: one test for each rule of the specification.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
use standpipe::config::{Histograms, InstrumentKind, Temporality};
use standpipe::receiver::Receiver;
use standpipe::receiver::proto::Data;
use standpipe::{Application, Config, Exporter, FlushOutcome, ProblemKind, Scope, Telemetry, View};

use crate::support::points::{attributes, exponentials, float, histograms, int, named, newest, numbers};
use crate::support::scene::{FOR_EVER, LONG, Problems, exporter, start_with};

/// A program with views, its receiver, and the problems that it reports.
struct Scene {
    // Dropped before the receiver, which then gets the last collection.
    telemetry: Telemetry,
    receiver: Receiver,
    problems: Problems,
}

impl Scene {
    fn with(change: impl FnOnce(Exporter) -> Exporter, views: impl IntoIterator<Item = View>) -> Self {
        let (receiver, problems) = (Receiver::start().unwrap(), Problems::default());
        let config =
            Config::new().service_name("shop").exporter(change(exporter(&receiver).interval(FOR_EVER)));
        let telemetry = problems.start_with(views.into_iter().fold(config, Config::view));
        Self { receiver, problems, telemetry }
    }

    fn new(views: impl IntoIterator<Item = View>) -> Self {
        Self::with(|exporter| exporter, views)
    }

    fn flush(&self) {
        assert_eq!(self.telemetry.flush(LONG), FlushOutcome::Complete);
    }

    /// The integers of the newest snapshot, by attributes.
    fn sums(&self, name: &str) -> Vec<(String, i64)> {
        newest(&self.receiver, name).iter().map(|point| (attributes(&point.attributes), int(point))).collect()
    }

    fn names(&self) -> Vec<String> {
        self.receiver.metrics().into_iter().map(|received| received.metric.name.clone()).collect()
    }

    fn misuse(&self) -> String {
        self.problems.wait_for(ProblemKind::Instrument).message
    }
}

fn set(attributes: &str, sum: i64) -> (String, i64) {
    (attributes.to_owned(), sum)
}

#[test]
fn exports_instruments_unchanged_when_no_view_selects_them() {
    let scene = Scene::new([View::new("other*").drop()]);
    scene.telemetry.meter("shop").build("orders").unit("1").description("paid").counter().add(1, ());
    scene.flush();
    let metric = named(&scene.receiver, "orders").pop().unwrap();
    assert_eq!((&*metric.unit, &*metric.description), ("1", "paid"));
    assert_eq!(int(&numbers(&metric)[0]), 1);
    assert!(scene.problems.reported().is_empty());
}

#[test]
fn selects_by_name_kind_unit_and_meter_together() {
    let counter = |view: View| view.kind(InstrumentKind::Counter);
    let scene = Scene::new([
        counter(View::new("http.?.*")).drop(),
        View::new("*").unit("ms").drop(),
        View::new("*").meter("noisy").meter_version("2").drop(),
        View::new("*").meter_schema_url("https://example.com/1").drop(),
        View::new("*").kind(InstrumentKind::ObservableGauge).drop(),
    ]);
    let meter = scene.telemetry.meter("shop");
    meter.counter("http.a.sent").add(1, ());
    meter.counter("HTTP.a.sent.too").add(1, ());
    meter.counter("http.ab.sent").add(1, ());
    meter.up_down_counter("http.a.open").add(1, ());
    meter.build("in.ms").unit("ms").histogram().record(1.0, ());
    meter.build("asked").observe_gauge(|observer| observer.observe(1.0, ()));
    meter.gauge("set").record(1.0, ());
    scene.telemetry.meter(Scope::new("noisy").version("1")).counter("one").add(1, ());
    scene.telemetry.meter(Scope::new("noisy").version("2")).counter("two").add(1, ());
    let of_schema = Scope::new("shop").schema_url("https://example.com/1");
    scene.telemetry.meter(of_schema).counter("three").add(1, ());
    scene.flush();
    assert_eq!(scene.names(), ["http.ab.sent", "http.a.open", "set", "one"]);
}

#[test]
fn renames_and_describes_a_metric_without_checking_the_name() {
    let scene = Scene::new([View::new("Orders").rename("1 any näme").description("new")]);
    scene.telemetry.meter("shop").build("orders").unit("1").description("old").counter().add(3, ());
    scene.flush();
    let metric = named(&scene.receiver, "1 any näme").pop().unwrap();
    assert_eq!((&*metric.unit, &*metric.description, int(&numbers(&metric)[0])), ("1", "new", 3));
    assert_eq!(scene.names().len(), 1);
}

#[test]
fn aggregates_together_what_differs_only_in_removed_attributes() {
    let scene = Scene::new([
        View::new("kept").keep(["country", "http.*"]),
        View::new("removed").remove(["customer", "x?"]),
        View::new("both").keep(["a*"]).remove(["ab"]),
        View::new("none").keep::<String>([]),
    ]);
    let meter = scene.telemetry.meter("shop");
    for (name, customer) in [("kept", "1"), ("kept", "2"), ("removed", "1"), ("removed", "2")] {
        let given = [("customer", customer), ("country", "SE"), ("http.route", "/"), ("x1", "y")];
        meter.counter(name).add(1, &given);
        meter.counter(name).with(&given).add(10);
    }
    meter.counter("both").add(1, &[("a", 1), ("ab", 2), ("b", 3)]);
    meter.counter("none").add(1, &[("a", 1)]);
    meter.counter("none").add(2, ());
    scene.flush();
    for name in ["kept", "removed"] {
        assert_eq!(scene.sums(name), [set("country=SE,http.route=/", 22)]);
    }
    assert_eq!(scene.sums("both"), [set("a=1", 1)]);
    assert_eq!(scene.sums("none"), [set("", 3)]);
}

#[test]
fn removes_attributes_of_measurements_with_many_attributes_and_of_deltas() {
    let change = |exporter: Exporter| exporter.temporality(Temporality::Delta);
    let scene = Scene::with(change, [View::new("*").remove(["drop"])]);
    let keys: Vec<String> = (10..30).map(|number| format!("k{number}")).collect();
    let mut given: Vec<_> = keys.iter().map(|key| (&**key, 1.into())).collect();
    given.insert(4, ("drop", 1.into()));
    let orders = scene.telemetry.meter("shop").counter("orders");
    for count in 1..3 {
        orders.add(count, &given[..]);
        scene.flush();
        let [(attributes, sum)] = &scene.sums("orders")[..] else { panic!() };
        assert_eq!((attributes.matches('=').count(), *sum), (20, count as i64), "{attributes}");
    }
}

#[test]
fn aggregates_observed_values_whose_remaining_attributes_are_equal() {
    for (temporality, expected) in [
        (Temporality::Cumulative, [30, 60]),
        (Temporality::Delta, [30, 30]),
        (Temporality::LowMemory, [30, 60]),
    ] {
        let scene = Scene::with(|exporter| exporter.temporality(temporality), [View::new("*").keep(["a"])]);
        let meter = scene.telemetry.meter("shop");
        let round = Arc::new(AtomicU64::new(0));
        meter.build("sum").observe_counter(move |observer| {
            let round = round.fetch_add(1, Ordering::SeqCst) + 1;
            observer.observe(10 * round, &[("a", 1), ("b", 1)]);
            observer.observe(20 * round, &[("a", 1), ("b", 2)]);
        });
        meter.build("last").observe_gauge_i64(|observer| {
            observer.observe(1, &[("a", 1), ("b", 1)]);
            observer.observe(2, &[("a", 1), ("b", 2)]);
        });
        for sum in expected {
            scene.flush();
            assert_eq!(scene.sums("sum"), [set("a=1", sum)], "{temporality:?}");
            assert_eq!(scene.sums("last"), [set("a=1", 2)], "the values of a gauge are not added");
        }
    }
}

#[test]
fn drops_measurements_and_reports_no_conflict() {
    let scene =
        Scene::new([View::new("orders").kind(InstrumentKind::Counter).drop(), View::new("asked").drop()]);
    let meter = scene.telemetry.meter("shop");
    let orders = meter.counter("orders");
    orders.add(1, ());
    orders.with(&[("a", 1)]).add(1);
    meter.gauge("orders").record(2.0, ());
    meter.build("asked").observe_gauge(|_| panic!("the instrument is dropped, so no callback is called"));
    scene.flush();
    assert_eq!(scene.names(), ["orders"]);
    assert_eq!(float(&newest(&scene.receiver, "orders")[0]), 2.0);
    assert!(scene.problems.reported().is_empty());
}

#[test]
fn exports_a_sum_of_any_instrument_but_a_gauge() {
    let scene = Scene::new([View::new("*").sum()]);
    let meter = scene.telemetry.meter("shop");
    let size = meter.histogram("size");
    [1.5, 2.0].into_iter().for_each(|value| size.record(value, &[("a", 1)]));
    let whole = meter.build("whole").histogram_u64();
    [1, 2].into_iter().for_each(|value| whole.with(()).record(value));
    meter.up_down_counter("open").add(-2, ());
    meter.gauge("level").record(1.0, ());
    scene.flush();
    for (name, sum, rises) in [("size", 3.5, true), ("whole", 3.0, true)] {
        let metric = named(&scene.receiver, name).pop().unwrap();
        assert_eq!(float(&numbers(&metric)[0]), sum);
        let Some(Data::Sum(sum)) = metric.data else { panic!() };
        assert_eq!(sum.is_monotonic, rises, "{name}");
    }
    let Some(Data::Sum(open)) = named(&scene.receiver, "open").pop().unwrap().data else { panic!() };
    assert!(!open.is_monotonic);
    assert!(matches!(named(&scene.receiver, "level")[0].data, Some(Data::Gauge(_))), "the view is ignored");
    assert_eq!(
        scene.misuse(),
        "metric \"level\": a view is ignored: a gauge cannot be aggregated as the view says; select fewer instruments, for \
         example with View::kind"
    );
}

#[test]
fn exports_the_last_value_of_any_instrument() {
    let scene =
        Scene::with(|exporter| exporter.temporality(Temporality::Delta), [View::new("*").last_value()]);
    let meter = scene.telemetry.meter("shop");
    let (orders, size) = (meter.counter("orders"), meter.build("size").histogram_u64());
    meter.build("asked").observe_counter(|observer| observer.observe(7, ()));
    for value in [5, 3] {
        orders.add(value, ());
        size.record(value, ());
        scene.flush();
        for (name, value) in [("orders", value as i64), ("asked", 7)] {
            let metric = named(&scene.receiver, name).pop().unwrap();
            assert!(matches!(metric.data, Some(Data::Gauge(_))), "{name}");
            assert_eq!(int(&numbers(&metric)[0]), value, "{name}");
        }
        assert_eq!(float(&newest(&scene.receiver, "size")[0]), value as f64);
    }
}

#[test]
fn exports_histograms_with_bounds_of_the_view_for_any_instrument_without_a_callback() {
    let scene = Scene::new([View::new("*").bounds(&[1.0, 10.0])]);
    let meter = scene.telemetry.meter("shop");
    meter.build("size").bounds(&[5.0]).histogram().record(10.0, ());
    meter.build("fine").exponential().histogram().record(10.0, ());
    let orders = meter.counter("orders");
    orders.add(2, ());
    orders.with(()).add(3);
    meter.up_down_counter("open").add(-1, ());
    meter.build("asked").observe_gauge_i64(|observer| observer.observe(1, ()));
    scene.flush();
    let point = |name: &str| histograms(&named(&scene.receiver, name)[0]).pop().unwrap();
    for name in ["size", "fine", "orders", "open"] {
        assert_eq!(point(name).explicit_bounds, [1.0, 10.0], "{name}");
    }
    assert_eq!((point("size").bucket_counts, point("size").sum), (vec![0, 1, 0], Some(10.0)));
    assert_eq!((point("orders").bucket_counts, point("orders").sum), (vec![0, 2, 0], Some(5.0)));
    let open = point("open");
    assert_eq!((open.sum, open.min, open.max), (None, Some(-1.0), Some(-1.0)), "sums of negative values");
    assert_eq!(int(&newest(&scene.receiver, "asked")[0]), 1, "the view is ignored");
    assert!(
        scene
            .misuse()
            .starts_with("metric \"asked\": a view is ignored: a gauge of integers cannot be aggregated")
    );
}

#[test]
fn omits_minimum_and_maximum_when_the_view_says_so() {
    let scene = Scene::new([View::new("*").without_min_max()]);
    let meter = scene.telemetry.meter("shop");
    meter.histogram("size").record(3.0, ());
    meter.build("fine").exponential().histogram().record(3.0, ());
    scene.flush();
    let point = histograms(&named(&scene.receiver, "size")[0]).pop().unwrap();
    assert_eq!((point.count, point.sum, point.min, point.max), (1, Some(3.0), None, None));
    let point = exponentials(&named(&scene.receiver, "fine")[0]).pop().unwrap();
    assert_eq!((point.count, point.sum, point.min, point.max), (1, Some(3.0), None, None));
}

#[test]
fn exports_exponential_histograms_within_the_size_and_scale_of_the_view() {
    let scene = Scene::new([View::new("a*").exponential(2, 20), View::new("b*").exponential(160, -1)]);
    let meter = scene.telemetry.meter("shop");
    for name in ["a.size", "b.size"] {
        let size = meter.histogram(name);
        [f64::from_bits(1), 1.0, 2.0, 5.0, f64::MAX].into_iter().for_each(|value| size.record(value, ()));
    }
    meter.counter("a.orders").add(8, ());
    scene.flush();
    let point = |name: &str| exponentials(&named(&scene.receiver, name)[0]).pop().unwrap();
    let (few, coarse, orders) = (point("a.size"), point("b.size"), point("a.orders"));
    let counts = few.positive.unwrap().bucket_counts;
    assert!(counts.len() <= 2 && counts.iter().sum::<u64>() == 5, "{counts:?}");
    assert_eq!(few.scale, -11);
    assert!(coarse.scale <= -1 && coarse.positive.unwrap().bucket_counts.len() <= 160);
    assert_eq!((orders.count, orders.scale, orders.sum), (1, 20, Some(8.0)));
}

#[test]
fn exports_one_metric_for_each_matching_view() {
    let scene = Scene::new([
        View::new("size").rename("by country").keep(["country"]),
        View::new("size").rename("total").keep::<String>([]).sum(),
        View::new("size").drop(),
    ]);
    let size = scene.telemetry.meter("shop").histogram("size");
    size.record(1.0, &[("country", "SE"), ("customer", "1")]);
    size.with(&[("country", "NO"), ("customer", "2")]).record(2.0);
    scene.flush();
    assert_eq!(scene.names(), ["by country", "total"]);
    assert_eq!(histograms(&named(&scene.receiver, "by country")[0]).len(), 2);
    assert_eq!(float(&newest(&scene.receiver, "total")[0]), 3.0);
}

#[test]
fn sends_both_metrics_and_reports_them_when_views_give_the_same_name() {
    let scene = Scene::new([View::new("orders").keep(["a"]), View::new("o*").keep(["b"])]);
    scene.telemetry.meter("shop").counter("orders").add(1, &[("a", 1), ("b", 2)]);
    scene.flush();
    let sent = named(&scene.receiver, "orders");
    let sets: Vec<_> = sent.iter().map(|metric| attributes(&numbers(metric)[0].attributes)).collect();
    assert_eq!(sets, ["a=1", "b=2"]);
    let expected = "metric \"orders\": two views make metrics of the same name: both are sent; rename one with \
                    View::rename";
    assert_eq!(scene.misuse(), expected);
}

#[test]
fn reports_a_rename_to_the_name_of_another_instrument() {
    let scene = Scene::new([View::new("orders").rename("Sales")]);
    let meter = scene.telemetry.meter("shop");
    meter.counter("sales").add(1, ());
    meter.counter("orders").add(2, ());
    scene.flush();
    assert_eq!(scene.names(), ["sales", "Sales"]);
    let expected = "metric \"Sales\" is defined twice, as a counter and as a counter: both are sent; rename one, for \
                    example with View::new(\"orders\").rename(\"…\")";
    assert_eq!(scene.misuse(), expected);
}

#[test]
fn resolves_a_conflict_by_the_view_that_its_report_contains() {
    let conflict = |views: Vec<View>| {
        let scene = Scene::new(views);
        let meter = scene.telemetry.meter("shop");
        meter.counter("orders").add(1, ());
        meter.build("orders").unit("ms").histogram().record(1.0, ());
        meter.build("time").unit("s").gauge().record(1.0, ());
        meter.build("time").unit("ms").gauge().record(1.0, ());
        scene.flush();
        let mut reported: Vec<_> = scene.problems.reported().into_iter().map(|it| it.message).collect();
        reported.sort();
        reported
    };
    let reported = conflict(Vec::new());
    let recipes = [
        "rename one, for example with View::new(\"orders\").kind(InstrumentKind::Histogram).rename(\"…\")",
        "rename one, for example with View::new(\"time\").unit(\"ms\").rename(\"…\")",
    ];
    assert_eq!(reported.len(), 2, "{reported:?}");
    for (reported, recipe) in reported.iter().zip(recipes) {
        assert!(reported.ends_with(recipe), "{reported}");
    }
    let views = vec![
        View::new("orders").kind(InstrumentKind::Histogram).rename("orders.duration"),
        View::new("time").unit("ms").rename("time.ms"),
    ];
    assert_eq!(conflict(views), [""; 0]);
}

#[test]
fn limits_sets_by_view_before_instrument_before_kind_before_exporter_after_removal() {
    let limits =
        |exporter: Exporter| exporter.cardinality_limit(2).cardinality_limit_of(InstrumentKind::Histogram, 3);
    let views = [View::new("by view").limit(5), View::new("filtered").keep(["n"]).limit(4)];
    let scene = Scene::with(limits, views);
    let meter = scene.telemetry.meter("shop");
    let [by_view, filtered, builder, plain] = [
        meter.build("by view").cardinality_limit(4).counter(),
        meter.counter("filtered"),
        meter.build("by instrument").cardinality_limit(4).counter(),
        meter.counter("by exporter"),
    ];
    let size = meter.histogram("by kind");
    for number in 0..9 {
        [&by_view, &builder, &plain].into_iter().for_each(|counter| counter.add(1, &[("n", number)]));
        filtered.add(1, &[("n", number % 4), ("customer", number)]);
        size.record(1.0, &[("n", number)]);
    }
    meter.build("observed").observe_counter(|observer| (0..9).for_each(|n| observer.observe(1, &[("n", n)])));
    scene.flush();
    for (name, real) in [("by view", 5), ("by instrument", 4), ("by exporter", 2), ("observed", 2)] {
        let sums = scene.sums(name);
        assert_eq!(sums.len(), real + 1, "{name}: {sums:?}");
        assert_eq!(sums[real], set("otel.metric.overflow=true", 9 - real as i64), "{name}");
    }
    assert_eq!(histograms(&named(&scene.receiver, "by kind")[0]).len(), 4);
    assert_eq!(scene.sums("filtered").len(), 4, "the limit applies after attributes are removed");
}

#[test]
fn refuses_views_that_cannot_work_at_the_start() {
    let views = [
        View::new("h*").rename("x"),
        View::new("a").rename(""),
        View::new("b").bounds(&[2.0, 1.0]),
        View::new("c").exponential(1, 20),
        View::new("d").exponential(160, 21),
        View::new("e").limit(0),
        View::new("f").bounds(&[]),
    ];
    let config = views.into_iter().fold(Config::new(), Config::view);
    let error = Telemetry::start(config).unwrap_err();
    let expected = [
        "view \"h*\": all selected instruments would have the same name; select one instrument by its full name",
        "view \"a\": is empty; write a name",
        "view \"b\": bounds must rise: 2 is followed by 1; write ascending numbers",
        "view \"c\": 1 buckets with the scale 20 are out of range; write 2 to 1024 buckets and a scale of -10 to 20",
        "view \"d\": 160 buckets with the scale 21 are out of range; write 2 to 1024 buckets and a scale of -10 to 20",
        "view \"e\": is 0; write 1 or more",
    ];
    assert_eq!(error.to_string().lines().collect::<Vec<_>>(), expected);
    let usable = error.into_usable().effective().into_iter().filter(|setting| setting.key == "view");
    assert_eq!(usable.map(|setting| setting.to_string()).collect::<Vec<_>>(), ["view = f (code)"]);
}

#[test]
fn exports_only_advised_attributes_unless_a_view_chooses_others() {
    let scene = Scene::new([View::new("viewed").keep(["b"]), View::new("described").description("x")]);
    let meter = scene.telemetry.meter("shop");
    for name in ["advised", "viewed", "described"] {
        meter.build(name).attributes(&["a"]).counter().add(1, &[("a", 1), ("b", 2)]);
    }
    scene.flush();
    for (name, expected) in [("advised", "a=1"), ("viewed", "b=2"), ("described", "a=1")] {
        assert_eq!(scene.sums(name), [set(expected, 1)], "{name}");
    }
}

#[test]
fn keeps_advised_bounds_unless_a_view_names_an_aggregation() {
    let scene = Scene::with(
        |exporter| exporter.histograms(Histograms::Exponential),
        [View::new("described").description("x"), View::new("viewed").bounds(&[2.0])],
    );
    let meter = scene.telemetry.meter("shop");
    for name in ["advised", "described", "viewed"] {
        meter.build(name).bounds(&[1.0]).histogram().record(1.0, ());
    }
    scene.flush();
    for (name, bound) in [("advised", 1.0), ("described", 1.0), ("viewed", 2.0)] {
        let point = histograms(&named(&scene.receiver, name)[0]).pop().unwrap();
        assert_eq!(point.explicit_bounds, [bound], "{name}");
    }
}

#[test]
fn keeps_the_advice_of_the_first_builder_and_reports_another() {
    let scene = Scene::new([]);
    let meter = scene.telemetry.meter("shop");
    meter.build("size").bounds(&[1.0]).attributes(&["a"]).histogram().record(1.0, &[("a", 1), ("b", 1)]);
    meter.histogram("size").record(2.0, &[("a", 1), ("b", 2)]);
    scene.flush();
    assert!(scene.problems.reported().is_empty(), "a builder without advice contradicts none");
    meter.build("size").bounds(&[5.0]).histogram().record(3.0, &[("a", 1), ("b", 3)]);
    scene.flush();
    let [.., metric] = &named(&scene.receiver, "size")[..] else { panic!() };
    let [point] = &histograms(metric)[..] else { panic!() };
    assert_eq!((&point.explicit_bounds[..], point.count), (&[1.0][..], 3));
    let expected =
        "metric \"size\" is built again with other bounds, attributes or limit: the first are kept";
    assert_eq!(scene.misuse(), expected);
}

#[test]
fn is_enabled_unless_all_views_drop_it_or_no_exporter_sends_metrics() {
    let scene = Scene::new([View::new("gone").drop(), View::new("half").drop(), View::new("half")]);
    let meter = scene.telemetry.meter("shop");
    assert!(meter.counter("orders").enabled() && meter.gauge("half").enabled());
    assert!(!meter.counter("gone").enabled() && !meter.up_down_counter("gone").enabled());
    assert!(!meter.gauge("gone").enabled() && !meter.histogram("gone").enabled());
    let telemetry = start_with(Config::new());
    assert!(!telemetry.meter("shop").counter("orders").enabled());
}

#[test]
fn applies_the_views_of_each_provider_to_its_own_instruments() {
    let (own, of_application) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let application =
        Application::new().exporter(exporter(&of_application).interval(FOR_EVER)).view(View::new("a").drop());
    let config = Config::new().exporter(exporter(&own).interval(FOR_EVER)).application(application);
    let telemetry = start_with(config.view(View::new("b").drop()));
    for provider in [telemetry.as_ref(), telemetry.application()] {
        ["a", "b"].into_iter().for_each(|name| provider.meter("shop").counter(name).add(1, ()));
    }
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!((named(&own, "a").len(), named(&own, "b").len()), (1, 0));
    assert_eq!((named(&of_application, "a").len(), named(&of_application, "b").len()), (0, 1));
}

#[test]
fn serves_each_exporter_with_all_streams_in_its_own_temporality() {
    let (one, other) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let deltas = exporter(&other).named("other").interval(FOR_EVER).temporality(Temporality::Delta);
    let config = Config::new().exporter(exporter(&one).named("one").interval(FOR_EVER)).exporter(deltas);
    let config = config.view(View::new("orders")).view(View::new("orders").rename("total").keep::<&str>([]));
    let telemetry = start_with(config);
    let orders = telemetry.meter("shop").counter("orders");
    let bound = orders.with(&[("a", 2)]);
    for _ in 0..2 {
        orders.add(1, &[("a", 1)]);
        bound.add(2);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    }
    for (receiver, rounds, temporality) in [
        (&one, 2, AggregationTemporality::Cumulative as i32),
        (&other, 1, AggregationTemporality::Delta as i32),
    ] {
        let sums = |name| newest(receiver, name).iter().map(int).collect::<Vec<_>>();
        assert_eq!((sums("orders"), sums("total")), (vec![2 * rounds, rounds], vec![3 * rounds]));
        let Some(Data::Sum(sum)) = &named(receiver, "total")[0].data else { panic!() };
        assert_eq!(sum.aggregation_temporality, temporality);
    }
}
