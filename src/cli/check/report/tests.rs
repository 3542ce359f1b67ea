use standpipe::{Application, Config};

use super::super::examine::general;
use super::*;
use crate::cli::style::plain_style;
use crate::cli::text;

/// A setting from `from`, which is "default" or the name of an environment variable.
fn setting(key: &'static str, value: &str, from: &str) -> Setting {
    let mut setting = Config::new().effective().remove(0);
    (setting.key, setting.value) = (key, value.to_owned());
    setting.source = match from {
        "default" => SettingSource::Default,
        variable => SettingSource::Environment(variable.to_owned()),
    };
    setting
}

fn section(settings: Vec<Setting>) -> Section {
    let destinations = vec![("traces".to_owned(), "http://localhost:4318/v1/traces".to_owned())];
    Section { title: ("exporter ".to_owned(), "otel".to_owned()), destinations, settings, folded: 0 }
}

fn examined(config: &Config) -> Examined {
    let exporters = config.exporters().iter().cloned().zip(config.summaries()).collect();
    let diagnostics = config.diagnostics().to_vec();
    Examined { general: general(config), exporters, diagnostics, handed_in: String::new() }
}

fn titles(config: &Config) -> Vec<String> {
    let sections = sections(&examined(config));
    sections.into_iter().map(|Section { title: (kind, name), .. }| kind + &name).collect()
}

#[test]
fn every_value_has_its_origin() {
    let sections = [
        Section {
            title: ("all exporters".to_owned(), String::new()),
            destinations: Vec::new(),
            settings: vec![setting("self-observation", "true", "otlp.toml:9:20")],
            folded: 0,
        },
        section(vec![
            setting("endpoint", "http://localhost:4318", "default"),
            setting("lossy", "true", "OTEL_BSP_ON_QUEUE_FULL"),
        ]),
    ];
    let expected = [
        "all exporters",
        "  key               value                  from",
        "  self-observation  true                   otlp.toml:9:20",
        "",
        "exporter otel",
        "  traces            http://localhost:4318/v1/traces",
        "  key               value                  from",
        "  endpoint          http://localhost:4318  default",
        "  lossy             true                   OTEL_BSP_ON_QUEUE_FULL",
        "",
    ];
    assert_eq!(draw_sections(&sections, &plain_style(100)), expected);
}

#[test]
fn counts_the_settings_with_default_values_unless_all_are_wanted() {
    let exporter = Exporter::http("localhost").timeout(std::time::Duration::from_secs(3));
    let examined = examined(&Config::new().exporter(exporter));
    let drawn = |all| draw(&Subject::Environment, &examined, all, &plain_style(100)).join("\n");
    let (folded, all) = (drawn(false), drawn(true));
    for text in [&folded, &all] {
        assert!(text.contains("  timeout ") && text.contains("  service-name "), "{text}");
    }
    assert!(folded.contains(" settings at their defaults; see --all\n"), "{folded}");
    assert!(!folded.contains("queue-records") && all.contains("queue-records"), "{folded}\n{all}");
    assert!(!all.contains("see --all"), "{all}");
}

#[test]
fn on_a_narrow_terminal_the_origin_has_a_line_of_its_own() {
    let sections = [section(vec![
        setting("client-certificate-file", "client.pem", "otlp.toml:40:27"),
        setting("lossy", "false", "default"),
    ])];
    let expected = [
        "exporter otel",
        "  traces",
        "    http://localhost:4318/v1/traces",
        "  key                      value",
        "  client-certificate-file  client.pem",
        "    from otlp.toml:40:27",
        "  lossy                    false",
        "",
    ];
    assert_eq!(draw_sections(&sections, &plain_style(44)), expected);
}

#[test]
fn a_long_value_leaves_room_for_its_origin() {
    let sections = [section(vec![setting("endpoint", &"x".repeat(500), "otlp.toml:4:1")])];
    let lines = draw_sections(&sections, &plain_style(80));
    assert!(lines.iter().all(|line| text::width(line) <= 80), "{lines:#?}");
    assert!(lines[3].ends_with("…  otlp.toml:4:1"), "{}", lines[3]);
}

#[test]
fn the_name_of_the_service_is_shown_even_if_it_is_not_set() {
    let exporter = Exporter::http("localhost");
    let shown = sections(&examined(&Config::new().exporter(exporter)));
    let settings: Vec<_> = shown[0].settings.iter().map(|it| (it.key, it.source.clone())).collect();
    assert_eq!(settings, [("service-name", SettingSource::Default)]);
}

#[test]
fn two_routes_have_sections_of_their_own() {
    let exporter = Exporter::http("localhost");
    let application = Application::new().service_name("shop").exporter(exporter.clone());
    let config = Config::new().service_name("runner").exporter(exporter);
    assert_eq!(titles(&config), ["all exporters", "exporter otlp"]);
    assert_eq!(
        titles(&config.self_observation(true).application(application)),
        [
            "all exporters",
            "internal route",
            "internal route, exporter otlp",
            "application route",
            "application route, exporter otlp",
        ]
    );
}

#[test]
fn only_an_empty_environment_gets_advice_on_what_to_set() {
    let file = Subject::File("no/such/file.toml".into());
    let drawn =
        |subject: &Subject, config: &Config| draw(subject, &examined(config), false, &plain_style(200));
    let empty = Config::from_toml_str("").expect("it is a warning only");
    let note = Config::from_toml_str("[tracer.a]\nenable = false").expect("it is a note only");
    assert!(drawn(&file, &empty)[0].contains("describes no exporter: there is no tracer.<id>"));
    assert!(drawn(&Subject::Environment, &Config::new())[0].starts_with(ADVICE[0]));
    for config in [empty, note] {
        assert!(!drawn(&file, &config).concat().contains(ADVICE[0]));
    }
}

/// Draws an error in the file `file`, whose content is `text`.
fn problem(
    (file, text): (&str, &str),
    place: Option<(usize, usize)>,
    [key, what, fix]: [&str; 3],
) -> Vec<String> {
    let read = Config::from_reader(file, "[".as_bytes()).expect_err("it is not closed");
    let mut diagnostic = read.diagnostics()[0].clone();
    diagnostic.location = place.zip(diagnostic.location).map(|((line, column), mut location)| {
        (location.line, location.column) = (line, column);
        location
    });
    (diagnostic.key, diagnostic.what, diagnostic.fix) = (key.to_owned(), what.to_owned(), fix.to_owned());
    let source = Source { text: text.to_owned(), syntax: Syntax::of(file.as_ref()) };
    source.draw(&diagnostic, &plain_style(80))
}

#[test]
fn a_problem_has_its_line_in_every_syntax() {
    for (file, text) in [("a.toml", "x = 1\nsampling= \"all\""), ("a.yaml", "x: 1\nsampling: \"all\" # %")] {
        let words = ["sampling", "\"all\" is no number", "write 100"];
        let separator = if file == "a.toml" { '=' } else { ':' };
        let expected = [
            "error: sampling: \"all\" is no number".to_owned(),
            format!(" --> {file}:2:11"),
            format!(" 2 | sampling{separator} \"all\""),
            "   |           ^".to_owned(),
            "   = write 100".to_owned(),
        ];
        assert_eq!(problem((file, text), Some((2, 11)), words), expected);
    }
}

#[test]
fn the_value_of_a_header_is_not_shown_though_it_has_the_name_of_a_key() {
    for file in
        [("a.toml", "[tracer.otel.headers]\nlevel = \"hunter2\""), ("a.yaml", "headers:\n  level: hunter2")]
    {
        let words = ["tracer.otel.headers", "value of header \"level\" is bad", ""];
        let lines = problem(file, Some((2, 9)), words).concat();
        assert!(lines.contains("level") && !lines.contains("hunter2"), "{lines}");
    }
}

#[test]
fn a_problem_without_a_place_has_no_line() {
    let words = ["OTEL_EXPORTER_OTLP_TIMEOUT", "\"soon\" is no number", "write 10000"];
    let expected = ["error: OTEL_EXPORTER_OTLP_TIMEOUT: \"soon\" is no number", "   = write 10000"];
    assert_eq!(problem(("environment", ""), None, words), expected);
}

#[test]
fn control_characters_of_the_file_do_not_reach_the_terminal() {
    let file = ("\x1b[2J.toml", "timeout = \"\x1b[2J\" x");
    let lines = problem(file, Some((1, 18)), ["\x07", "\x1b", "\r"]);
    assert!(lines.concat().chars().all(|c| !c.is_control()), "{lines:?}");
    let caret = lines[3].find('^').expect("a caret");
    // A value with control characters is masked, and the caret points at the mask.
    assert_eq!(lines[2].chars().nth(caret), Some('*'), "{lines:#?}");
}
