//! Views in files, in the words of OpenTelemetry's declarative configuration.

use standpipe::config::InstrumentKind;
use standpipe::receiver::Receiver;
use standpipe::{Config, Exporter, Scope, Telemetry, View};

use crate::support::settings::{diagnostics, refused, tracer};

/// Returns the metrics of a program with these views, as the receiver shows them.
fn exported(views: Config) -> Vec<String> {
    let receiver = Receiver::start().unwrap();
    let telemetry = Telemetry::start(views.exporter(Exporter::http(receiver.endpoint()))).unwrap();
    let meter = telemetry.meter(Scope::new("shop").version("1.2"));
    let attributes = &[("http.route", "/"), ("http.method", "GET"), ("user.id", "1")];
    meter.build("http.duration").unit("s").histogram().record(0.3, attributes);
    meter.counter("http.requests").add(2, attributes);
    meter.histogram("fine").record(4.0, ());
    meter.gauge("debug.level").record(1.0, ());
    meter.up_down_counter("open").add(1, ());
    meter.gauge("plain").record(1.0, ());
    drop(telemetry);
    receiver.metrics().iter().map(|received| format!("{:?}", received.metric)).map(without_times).collect()
}

/// Removes the only parts of a metric that differ between two runs.
fn without_times(shown: String) -> String {
    let is_time = |field: &&str| !field.contains("time_unix_nano");
    shown.split(", ").filter(is_time).collect::<Vec<_>>().join(", ")
}

fn in_code() -> Config {
    let duration = View::new("http.d*").kind(InstrumentKind::Histogram).unit("s").meter("shop");
    Config::new()
        .view(duration.meter_version("1.2").description("how long").bounds(&[0.5, 1.0]).without_min_max())
        .view(
            View::new("http.requests").rename("requests").keep(["http.*"]).remove(["http.method"]).limit(50),
        )
        .view(View::new("fine").exponential(20, 3))
        .view(View::new("debug.*").drop())
        .view(View::new("open").last_value())
        .view(View::new("*").meter_schema_url("https://example.com/1").sum())
}

const TOML: &str = r#"
[[telemetry.views]]
selector = { instrument_name = "http.d*", instrument_type = "histogram", unit = "s", meter_name = "shop", meter_version = 1.2 }
[telemetry.views.stream]
description = "how long"
aggregation.explicit_bucket_histogram = { boundaries = [0.5, 1], record_min_max = false }

[[telemetry.views]]
selector.instrument_name = "http.requests"
[telemetry.views.stream]
name = "requests"
aggregation_cardinality_limit = 50
attribute_keys = { included = ["http.*"], excluded = ["http.method"] }

[[telemetry.views]]
selector.instrument_name = "fine"
stream.aggregation.base2_exponential_bucket_histogram = { max_size = 20, max_scale = 3, record_min_max = true }

[[telemetry.views]]
selector.instrument_name = "debug.*"
stream.aggregation = "drop"

[[telemetry.views]]
selector.instrument_name = "open"
stream.aggregation = { last_value = {} }

[[telemetry.views]]
selector = { meter_schema_url = "https://example.com/1" }
stream = { aggregation = "sum" }
"#;

const YAML: &str = "
telemetry:
  views:
    - selector:
        instrument_name: http.d*
        instrument_type: histogram
        unit: s
        meter_name: shop
        meter_version: '1.2'
      stream:
        description: how long
        aggregation:
          explicit_bucket_histogram: { boundaries: [0.5, 1.0], record_min_max: false }
    - selector: { instrument_name: http.requests }
      stream:
        name: requests
        aggregation_cardinality_limit: 50
        attribute_keys: { included: [http.*], excluded: [http.method] }
    - selector: { instrument_name: fine }
      stream: { aggregation: { base2_exponential_bucket_histogram: { max_size: 20, max_scale: 3 } } }
    - selector: { instrument_name: debug.* }
      stream: { aggregation: { drop: } }
    - selector: { instrument_name: open }
      stream: { aggregation: { last_value: {} } }
    - selector: { meter_schema_url: 'https://example.com/1' }
      stream: { aggregation: { sum: null } }
";

#[test]
fn reads_the_same_views_from_toml_and_yaml_as_from_code() {
    let expected = exported(in_code());
    assert_eq!(expected.len(), 5, "{expected:?}");
    for config in [Config::from_toml_str(&(tracer("enable = false") + TOML)), Config::from_yaml_str(YAML)] {
        let config = config.unwrap();
        let unexpected = |it: &&String| !it.contains("exporter") && !it.contains("not started");
        assert_eq!(diagnostics(&config).iter().filter(unexpected).count(), 0, "{:?}", config.diagnostics());
        assert_eq!(exported(config), expected);
    }
}

#[test]
fn shows_the_views_of_a_file_with_their_places() {
    let config = Config::from_yaml_str(YAML).unwrap().view(View::new("x"));
    let settings = config.effective().into_iter().filter(|setting| setting.key == "view");
    let shown: Vec<_> = settings.map(|setting| setting.to_string()).collect();
    assert_eq!(shown.len(), 7);
    assert_eq!((&*shown[0], &*shown[5]), ("view = http.d* (<yaml>:4:7)", "view = * (<yaml>:25:7)"));
    assert_eq!(shown[6], "view = x (code)");
}

#[test]
fn names_the_place_of_each_mistake_in_a_view_and_leaves_the_view_out() {
    let view = |text: &str| format!("[[telemetry.views]]\n{text}\n");
    for (text, expected) in [
        ("selector = 1", "<toml>:2:12: telemetry.views.selector: found an integer; write its keys below it"),
        (
            "selector.instrument_type = 'histogran'",
            "<toml>:2:28: telemetry.views.selector.instrument_type: \"histogran\" is not known; did you mean \
             \"histogram\"?",
        ),
        (
            "selector.instrument_name = ['a']",
            "<toml>:2:28: telemetry.views.selector.instrument_name: found an array; write a string",
        ),
        (
            "stream.aggregation = 'dropp'",
            "<toml>:2:22: telemetry.views.stream.aggregation: is not an aggregation; write default, drop, sum, \
             last_value, explicit_bucket_histogram or base2_exponential_bucket_histogram",
        ),
        (
            "stream.aggregation.explicit_bucket_histogram.boundaries = [2, 1]",
            "<toml>:2:8: telemetry.views.stream.aggregation: bounds must rise: 2 is followed by 1; write ascending \
             numbers",
        ),
        (
            "stream.aggregation.explicit_bucket_histogram.boundaries = [1, 'x']",
            "<toml>:2:59: telemetry.views.stream.aggregation.explicit_bucket_histogram.boundaries: found a string; \
             write a number, without quotes",
        ),
        (
            "stream.aggregation_cardinality_limit = -5",
            "<toml>:2:40: telemetry.views.stream.aggregation_cardinality_limit: is 0; write 1 or more",
        ),
        (
            "stream.aggregation_cardinality_limit = 1.5",
            "<toml>:2:40: telemetry.views.stream.aggregation_cardinality_limit: found a float; write a whole \
             number, without quotes",
        ),
        (
            "stream.attribute_keys.included = 'a'",
            "<toml>:2:34: telemetry.views.stream.attribute_keys.included: found a string; write a list",
        ),
        (
            "selector.instrument_name = 'a*'\nstream.name = 'b'",
            "<toml>:3:15: telemetry.views.stream.name: all selected instruments would have the same name; select one \
             instrument by its full name",
        ),
    ] {
        let text = tracer("") + &view(text);
        let lines = tracer("").lines().count();
        let expected = expected.replacen("<toml>:", "", 1);
        let (line, rest) = expected.split_once(':').unwrap();
        let line = line.parse::<usize>().unwrap() + lines;
        assert_eq!(refused(&text).to_string(), format!("<toml>:{line}:{rest}"));
        let usable = Config::from_toml_str(&text).unwrap_err().into_usable();
        assert_eq!(usable.exporters().len(), 1, "a mistake in a view disables no exporter");
        assert!(usable.effective().iter().all(|setting| setting.key != "view"));
    }
}

#[test]
fn warns_of_unknown_keys_of_a_view() {
    let text = tracer("")
        + "[[telemetry.views]]\nselector.instrument_nam = 'a'\nstream.aggregation.sum.x = 1\nname = 'b'\n";
    let config = Config::from_toml_str(&text).unwrap();
    let lines = tracer("").lines().count();
    let expected = [
        (2, "10: telemetry.views.selector.instrument_nam: unknown key; did you mean \"instrument_name\"?"),
        (3, "24: telemetry.views.stream.aggregation.sum.x: unknown key; remove it"),
        (4, "1: telemetry.views.name: unknown key; remove it"),
    ];
    let expected = expected.map(|(line, rest)| format!("warning: <toml>:{}:{rest}", line + lines));
    assert_eq!(diagnostics(&config), expected);
    let text = tracer("") + "[telemetry]\nviews = 'x'\n";
    let expected = format!(
        "<toml>:{}:9: telemetry.views: found a string; write a list of tables, each with selector and stream",
        lines + 2
    );
    assert_eq!(refused(&text).to_string(), expected);
}
