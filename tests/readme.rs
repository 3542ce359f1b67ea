//! What the README says of the defaults is so.

use standpipe::Config;

#[test]
fn the_table_of_settings_has_every_setting_with_its_default() {
    let config = Config::from_toml_str("[tracer.otel]\ntype = 'otel'\ntransport = 'http'\n").unwrap();
    let readme = include_str!("../README.md");
    let settings = config.exporters()[0].effective();
    // the switches of a tracer decide which signals it sends
    for setting in settings.into_iter().filter(|setting| setting.key != "signals") {
        let default = match setting.key {
            "transport" => "–".to_owned(),
            _ => format!("`{}`", setting.value),
        };
        let row = format!("| `{}` | {default} | ", setting.key);
        assert!(readme.contains(&row), "the README has no row {row:?}");
    }
}

#[test]
fn the_limits_are_those_of_the_defaults() {
    let readme = include_str!("../README.md");
    let limits = standpipe::SpanLimits::default();
    let span = format!(
        "| span | {} attributes, events and links, {} attributes each",
        limits.attributes, limits.event_attributes
    );
    assert!(readme.contains(&span), "the README does not say {span:?}");
    assert_eq!([limits.events, limits.links, limits.link_attributes], [limits.attributes; 3]);
    let log = format!("| log record | {} attributes", standpipe::LogLimits::default().attributes);
    assert!(readme.contains(&log), "the README does not say {log:?}");
}
