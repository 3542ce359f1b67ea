use standpipe::{Application, Config};

use super::*;
use crate::cli::style::plain_style;
use crate::cli::text;

fn row(key: &str, value: &str, from: &str) -> Row {
    Row { key: key.to_owned(), value: value.to_owned(), from: from.to_owned(), is_default: from == "default" }
}

fn report(sections: Vec<Section>) -> Report {
    let origin = Origin { name: "otlp.toml".to_owned(), text: String::new(), syntax: Syntax::Toml };
    Report { origin, sections, problems: Vec::new(), advice: None }
}

fn section(rows: Vec<Row>) -> Section {
    let destinations = vec![("traces".to_owned(), "http://localhost:4318/v1/traces".to_owned())];
    Section { title: ("exporter ".to_owned(), "otel".to_owned()), destinations, rows }
}

fn examined(config: &Config) -> Examined {
    let exporters = config.exporters().iter().cloned().zip(config.summaries()).collect();
    let general = config.effective().into_iter().map(General::from).collect();
    Examined { general, exporters, diagnostics: config.diagnostics().to_vec(), handed_in: String::new() }
}

fn titles(config: &Config) -> Vec<String> {
    sections(&examined(config))
        .into_iter()
        .map(|section| format!("{}{}", section.title.0, section.title.1))
        .collect()
}

#[test]
fn every_value_has_its_origin() {
    let report = report(vec![
        Section {
            title: ("all exporters".to_owned(), String::new()),
            destinations: Vec::new(),
            rows: vec![row("self-observation", "true", "otlp.toml:9:20")],
        },
        section(vec![
            row("endpoint", "http://localhost:4318", "default"),
            row("lossy", "true", "OTEL_BSP_ON_QUEUE_FULL"),
        ]),
    ]);
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
    assert_eq!(report.draw(&plain_style(100)), expected);
}

#[test]
fn on_a_narrow_terminal_the_origin_has_a_line_of_its_own() {
    let report = report(vec![section(vec![
        row("client-certificate-file", "client.pem", "otlp.toml:40:27"),
        row("lossy", "false", "default"),
    ])]);
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
    assert_eq!(report.draw(&plain_style(44)), expected);
}

#[test]
fn a_long_value_leaves_room_for_its_origin() {
    let report = report(vec![section(vec![row("endpoint", &"x".repeat(500), "otlp.toml:4:1")])]);
    let lines = report.draw(&plain_style(80));
    assert!(lines.iter().all(|line| text::width(line) <= 80), "{lines:#?}");
    assert!(lines[3].ends_with("…  otlp.toml:4:1"), "{}", lines[3]);
}

#[test]
fn the_name_of_the_service_is_shown_even_if_it_is_not_set() {
    let exporter = Exporter::http("localhost");
    let shown = sections(&examined(&Config::new().exporter(exporter)));
    let keys: Vec<&str> = shown[0].rows.iter().map(|row| row.key.as_str()).collect();
    assert_eq!((keys, shown[0].rows[0].is_default), (vec!["service-name"], true));
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
    let nothing = Report::new(&file, &examined(&Config::from_toml_str("").expect("it is a warning only")));
    assert!(nothing.draw(&plain_style(200))[0].contains("describes no exporter: there is no tracer.<id>"));
    assert_eq!(nothing.advice, None);
    let environment = Report::new(&Subject::Environment, &examined(&Config::new()));
    assert!(environment.draw(&plain_style(80))[0].starts_with("looked for OTEL_TRACES_EXPORTER"));
    let note = Config::from_toml_str("[tracer.a]\nenable = false").expect("it is a note only");
    assert_eq!(Report::new(&file, &examined(&note)).advice, None);
}

fn origin(name: &str, text: &str) -> Origin {
    Origin { name: name.to_owned(), text: text.to_owned(), syntax: Syntax::of(name.as_ref()) }
}

fn problem(place: Option<(usize, usize)>, key: &str, what: &str, fix: &str) -> Problem {
    Problem {
        severity: DiagnosticSeverity::Error,
        place,
        key: key.to_owned(),
        what: what.to_owned(),
        fix: fix.to_owned(),
    }
}

#[test]
fn a_problem_has_its_line_in_every_syntax() {
    let found = problem(Some((2, 11)), "sampling", "\"all\" is no number", "write 100");
    for (file, text) in [("a.toml", "x = 1\nsampling= \"all\""), ("a.yaml", "x: 1\nsampling: \"all\" # %")] {
        let lines = found.draw(&origin(file, text), &plain_style(80));
        let separator = if file == "a.toml" { '=' } else { ':' };
        let expected = [
            "error: sampling: \"all\" is no number".to_owned(),
            format!(" --> {file}:2:11"),
            format!(" 2 | sampling{separator} \"all\""),
            "   |           ^".to_owned(),
            "   = write 100".to_owned(),
        ];
        assert_eq!(lines, expected);
    }
}

#[test]
fn the_value_of_a_header_is_not_shown_though_it_has_the_name_of_a_key() {
    let found = problem(Some((2, 9)), "tracer.otel.headers", "value of header \"level\" is bad", "");
    for (file, text) in
        [("a.toml", "[tracer.otel.headers]\nlevel = \"hunter2\""), ("a.yaml", "headers:\n  level: hunter2")]
    {
        let lines = found.draw(&origin(file, text), &plain_style(80)).concat();
        assert!(lines.contains("level") && !lines.contains("hunter2"), "{lines}");
    }
}

#[test]
fn a_problem_without_a_place_has_no_line() {
    let found = problem(None, "OTEL_EXPORTER_OTLP_TIMEOUT", "\"soon\" is no number", "write 10000");
    let lines = found.draw(&origin("environment", ""), &plain_style(80));
    let expected = ["error: OTEL_EXPORTER_OTLP_TIMEOUT: \"soon\" is no number", "   = write 10000"];
    assert_eq!(lines, expected);
}

#[test]
fn control_characters_of_the_file_do_not_reach_the_terminal() {
    let origin = origin("\x1b[2J.toml", "timeout = \"\x1b[2J\" x");
    let lines = problem(Some((1, 18)), "\x07", "\x1b", "\r").draw(&origin, &plain_style(80));
    assert!(lines.concat().chars().all(|c| !c.is_control()), "{lines:?}");
    let caret = lines[3].find('^').expect("a caret");
    assert_eq!(lines[2].chars().nth(caret), Some('x'), "{lines:#?}");
}
