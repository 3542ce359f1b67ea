use standpipe::{Application, Config};

use super::*;
use crate::cli::paint::plain_look;
use crate::cli::text;

fn row(key: &str, value: &str, from: &str) -> Row {
    Row { key: key.to_owned(), value: value.to_owned(), from: from.to_owned(), is_default: from == "default" }
}

fn report(tables: Vec<Table>) -> Report {
    let origin = Origin { name: "otlp.toml".to_owned(), text: String::new(), syntax: Syntax::Toml };
    Report { origin, tables, problems: Vec::new(), advice: None }
}

fn table(rows: Vec<Row>) -> Table {
    let destinations = vec![("traces".to_owned(), "http://localhost:4318/v1/traces".to_owned())];
    Table { title: ("exporter ".to_owned(), "otel".to_owned()), destinations, rows }
}

fn examined(config: &Config) -> Examined {
    let exporters = config.exporters().iter().cloned().zip(config.summaries()).collect();
    let general = config.effective().into_iter().map(General::from).collect();
    Examined { general, exporters, diagnostics: config.diagnostics().to_vec(), handed_in: String::new() }
}

fn titles(config: &Config) -> Vec<String> {
    tables(&examined(config)).into_iter().map(|table| format!("{}{}", table.title.0, table.title.1)).collect()
}

#[test]
fn every_value_has_its_origin() {
    let report = report(vec![
        Table {
            title: ("all exporters".to_owned(), String::new()),
            destinations: Vec::new(),
            rows: vec![row("self-observation", "true", "otlp.toml:9:20")],
        },
        table(vec![
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
    assert_eq!(report.draw(&plain_look(100)), expected);
}

#[test]
fn on_a_narrow_terminal_the_origin_has_a_line_of_its_own() {
    let report = report(vec![table(vec![
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
    assert_eq!(report.draw(&plain_look(44)), expected);
}

#[test]
fn a_long_value_leaves_room_for_its_origin() {
    let report = report(vec![table(vec![row("endpoint", &"x".repeat(500), "otlp.toml:4:1")])]);
    let lines = report.draw(&plain_look(80));
    assert!(lines.iter().all(|line| text::width(line) <= 80), "{lines:#?}");
    assert!(lines[3].ends_with("…  otlp.toml:4:1"), "{}", lines[3]);
}

#[test]
fn the_name_of_the_service_is_shown_even_if_nobody_set_it() {
    let exporter = Exporter::http("localhost");
    let shown = tables(&examined(&Config::new().exporter(exporter)));
    let keys: Vec<&str> = shown[0].rows.iter().map(|row| row.key.as_str()).collect();
    assert_eq!((keys, shown[0].rows[0].is_default), (vec!["service-name"], true));
}

#[test]
fn two_routes_are_told_apart() {
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
fn only_what_holds_nothing_at_all_is_told_what_could_be_in_it() {
    let file = Subject::File("no/such/file.toml".into());
    let nothing = Report::new(&file, &examined(&Config::from_toml_str("").expect("it is a warning only")));
    assert!(nothing.draw(&plain_look(200))[0].contains("describes no exporter: there is no tracer.<id>"));
    assert_eq!(nothing.advice, None);
    let environment = Report::new(&Subject::Environment, &examined(&Config::new()));
    assert!(environment.draw(&plain_look(80))[0].starts_with("looked for OTEL_TRACES_EXPORTER"));
    let note = Config::from_toml_str("[tracer.a]\nenable = false").expect("it is a note only");
    assert_eq!(Report::new(&file, &examined(&note)).advice, None);
}
