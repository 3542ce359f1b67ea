use super::*;
use crate::config::section::Section;
use crate::config::settings::kind::SettingValue;
use crate::config::{Location, Secret, SettingSource, Transport, units};

#[test]
fn every_row_has_a_key_of_its_own_advice_and_a_sentence_of_documentation() {
    for (index, row) in rows().enumerate() {
        assert!(rows().take(index).all(|other| other.key != row.key), "{} twice", row.key);
        assert!(!row.advice.is_empty() && !row.doc.is_empty(), "{}", row.key);
    }
}

#[test]
fn the_summary_names_a_setting_by_its_key_and_the_unit_of_durations() {
    for row in rows() {
        let Some(field) = &row.in_summary else { continue };
        let is_duration = matches!(row.kind, Kind::Duration { .. } | Kind::Limit { .. });
        let unit = if is_duration { "_ms" } else { "" };
        assert_eq!(field.name, format!("{}{unit}", row.key.replace('-', "_")));
        let is_known = |signal| field.signals.contains(signal);
        assert!(row.signals.iter().all(is_known), "{} is null where it matters", row.key);
    }
}

/// Setting a row to its current value changes neither the value nor the shown text. The default is in range.
#[test]
fn every_row_sets_what_it_gets() {
    let exporter = Exporter::http("localhost");
    for row in rows() {
        let Some(value) = row.kind.get(&exporter) else { continue };
        let mut other = exporter.clone();
        other.apply(row, value.clone(), SettingSource::Code);
        assert!(row.kind.get(&other) == Some(value), "{}", row.key);
        assert_eq!(row.kind.show(&other), row.kind.show(&exporter), "{}", row.key);
        assert_eq!(row.kind.check(&other), Ok(()), "the default of {} is out of its range", row.key);
    }
}

/// A new value of one setting changes no other. The endpoint is set, because the transport would change its default.
#[test]
fn no_row_sets_what_is_of_another() {
    let exporter = Exporter::http("localhost");
    let shown = |exporter: &Exporter| rows().map(|row| row.kind.show(exporter)).collect::<Vec<_>>();
    for row in rows() {
        let value = match &row.kind {
            Kind::Duration { .. } | Kind::Limit { .. } => SettingValue::Duration(Duration::from_secs(77)),
            Kind::Number { .. } => SettingValue::Number(7_777),
            Kind::Word { names, .. } => SettingValue::Word(names().pop().unwrap().to_owned()),
            Kind::Bool { .. } => SettingValue::Bool(true),
            Kind::File { .. } => SettingValue::File { path: String::new(), pem: Some(b"x".to_vec().into()) },
            Kind::Text { .. } => SettingValue::Text { text: "x".to_owned(), is_secret: false },
            Kind::Headers => SettingValue::Headers(vec![("x".to_owned(), Secret::new("y"))]),
            Kind::Endpoint | Kind::Signals => continue,
        };
        let mut other = exporter.clone();
        other.apply(row, value, SettingSource::Code);
        let (before, after) = (shown(&exporter), shown(&other));
        let changed = rows().zip(before.iter().zip(&after)).filter(|(_, (before, after))| before != after);
        assert_eq!(changed.map(|(row, _)| row.key).collect::<Vec<_>>(), [row.key]);
    }
}

#[test]
fn the_builders_methods_state_the_defaults_of_their_rows() {
    let exporter = Exporter::http("localhost");
    let plain = |text: &str| text.replace([' ', ','], "").replace("minutes", "m").replace("minute", "m");
    let mut stated = Vec::new();
    for source in [include_str!("delivery.rs"), include_str!("connection.rs")] {
        let mut doc = String::new();
        for line in source.lines().map(str::trim) {
            if let Some(words) = line.strip_prefix("///") {
                doc += words;
                continue;
            }
            let doc = std::mem::take(&mut doc);
            let setter =
                line.strip_suffix(';').and_then(|line| line.split_once(" sets ")?.1.split_once(" of "));
            let Some((_, name)) = setter else { continue };
            let key = name.to_ascii_lowercase().replace('_', "-");
            let row = rows().find(|row| row.key == key).expect(name);
            if let Kind::Duration { .. } | Kind::Limit { .. } | Kind::Number { .. } = row.kind {
                let sentence = doc.split(" unless set").next().unwrap_or_default();
                let default = sentence.rsplit("; ").next().unwrap_or_default().replace("zero", "0s");
                assert_eq!(plain(&default), plain(&row.kind.show(&exporter)), "{key}:{doc}");
                stated.push(key);
            }
        }
    }
    assert!(stated.contains(&"queue-records".to_owned()) && stated.contains(&"timeout".to_owned()));
}

/// Returns the guide's table of all settings.
fn table() -> String {
    let mut table =
        "| key | in | default | values | variables | meaning |\n|---|---|---|---|---|---|\n".to_owned();
    let code = |words: &[String]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let place = Location { file: String::new(), line: 1, column: 1 };
    let exporter = Exporter::of_table(String::new(), String::new(), place);
    let tracer = Section::Tracer(String::new());
    for row in rows().filter(|row| row.is_in_tables) {
        let (key, meaning) = (row.key, row.doc.trim());
        let place = match (tracer.row(key), Section::Metrics.row(key)) {
            (Some(_), Some(_)) => "both",
            (Some(_), None) => "tracer",
            (None, _) => "metrics",
        };
        let default = match &row.kind {
            // No default, because a file must set the transport.
            Kind::Word { .. } if row.key == TRANSPORT.key => "–".to_owned(),
            Kind::Endpoint => {
                code(&[Transport::Http, Transport::Grpc].map(|it| it.default_endpoint().to_owned()))
            }
            kind => code(&[kind.show(&exporter)]),
        };
        let values = match &row.kind {
            Kind::Duration { range, .. } | Kind::Limit { range, .. } => {
                let [least, most] = [range.start(), range.end()].map(|&end| units::show_duration(end));
                let or_none = if matches!(row.kind, Kind::Limit { .. }) { ", `none`" } else { "" };
                format!("{least} to {most}{or_none}")
            }
            // The maximum depends on the machine, but the documentation must not.
            Kind::Number { .. } if row.key == QUEUE_BYTES.key => {
                "1 KiB to 4 GiB, to 1 GiB on 32-bit machines".to_owned()
            }
            Kind::Number { .. } if row.key == "spool-bytes" => {
                "1 MiB to 1024 GiB, to 2 GiB on 32-bit machines".to_owned()
            }
            Kind::Number { range, unit, .. } => {
                format!("{} to {}", unit.show(*range.start()), unit.show(*range.end()))
            }
            Kind::Word { names, .. } => code(&names().into_iter().map(str::to_owned).collect::<Vec<_>>()),
            Kind::Bool { .. } => code(&["true".to_owned(), "false".to_owned()]),
            Kind::File { .. } => "path of a PEM file".to_owned(),
            Kind::Text { .. } => "text".to_owned(),
            Kind::Endpoint => "address".to_owned(),
            Kind::Headers => "list, text or table".to_owned(),
            Kind::Signals => String::new(),
        };
        let variables: Vec<String> = match &row.variables {
            VariableNames::OfExporter(end) => vec![format!("OTEL_EXPORTER_OTLP_{end}")],
            VariableNames::OfSignals(names) => {
                names.iter().filter(|name| !name.is_empty()).map(|name| (*name).to_owned()).collect()
            }
        };
        let variables = code(&variables);
        table.push_str(&format!("| `{key}` | {place} | {default} | {values} | {variables} | {meaning} |\n"));
    }
    table
}

#[test]
fn the_table_of_the_documentation_is_that_of_the_rows() {
    let table = table();
    let chapter = include_str!("../../guide/configuration.md");
    assert!(chapter.contains(&table), "the table in src/guide/configuration.md should be:\n\n{table}");
}
