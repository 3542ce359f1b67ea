//! What the README says of the defaults is so.

use standpipe::Config;

const README: &str = include_str!("../../README.md");

/// The part between two texts that the README has once each.
fn part(from: &str, to: &str) -> &'static str {
    let (_, rest) = README.split_once(from).expect(from);
    rest.split_once(to).expect(to).0
}

/// The rows of all settings that a file can have, up to their defaults.
fn rows(file: &str, transport: &str) -> Vec<(&'static str, String)> {
    let config = Config::from_toml_str(file).expect(file);
    let settings = config.exporters()[0].effective();
    // which signals are sent is decided by the table
    let settings = settings.into_iter().filter(|setting| setting.key != "signals");
    let row = |key: &str, default: &str| format!("| `{key}` | {default} | ");
    let rows = settings.map(|setting| match setting.key {
        "transport" => (setting.key, row(setting.key, transport)),
        key => (key, row(key, &format!("`{}`", setting.value))),
    });
    rows.collect()
}

#[test]
fn the_table_of_tracers_has_every_setting_with_its_default() {
    let table = part("## Configuration", "Metrics have one table");
    let file = "[tracer.otel]\ntype = 'otel'\ntransport = 'http'\nenable.log-exporter = true\n";
    for (_, row) in rows(file, "–") {
        assert!(table.contains(&row), "the README has no row {row:?}");
    }
}

#[test]
fn the_table_of_metrics_has_every_setting_with_its_default_or_sends_to_that_of_tracers() {
    let tracers = part("## Configuration", "Metrics have one table");
    let metrics = part("Metrics have one table", "And as above:");
    let as_above = part("And as above:", "Durations are");
    for (key, row) in rows("[metrics.open-telemetry]\ntransport = 'http'\n", "`disable`") {
        let is_above = as_above.contains(&format!("`{key}`")) && tracers.contains(&row);
        assert!(is_above || metrics.contains(&row), "the README has no row {row:?}");
    }
    let general = Config::new().effective();
    for setting in general.iter().filter(|setting| setting.key == "self-observation") {
        let row = format!("| `{}` | `{}` | ", setting.key, setting.value);
        assert!(metrics.contains(&row), "the README has no row {row:?}");
    }
}

#[test]
fn the_limits_are_those_of_the_defaults() {
    let limits = standpipe::SpanLimits::default();
    let span = format!(
        "| span | {} attributes, events and links, {} attributes each",
        limits.attributes, limits.event_attributes
    );
    assert!(README.contains(&span), "the README does not say {span:?}");
    assert_eq!([limits.events, limits.links, limits.link_attributes], [limits.attributes; 3]);
    let log = format!("| log record | {} attributes", standpipe::LogLimits::default().attributes);
    assert!(README.contains(&log), "the README does not say {log:?}");
}

#[test]
fn every_place_for_figures_has_been_filled_by_its_benchmark() {
    let places: Vec<&str> = README.split("<!-- figures: ").skip(1).collect();
    assert!(places.len() >= 10, "there are {} places", places.len());
    for place in places {
        let (name, rest) = place.split_once(" -->").expect(place);
        let (figures, _) = rest.split_once("<!-- end of figures -->").expect(name);
        assert!(figures.contains("|---|") && figures.contains("rustc 1."), "{name} is empty");
    }
}
