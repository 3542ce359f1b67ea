//! A configuration that is written as OpenTelemetry's declarative configuration has the same effect when it is read.

use proptest::prelude::*;

use super::*;
use crate::config::settings::rows;
use crate::config::text::quote;
use crate::config::{ProviderName, View};
use crate::record::Signal;

/// Returns everything that has an effect, secrets included. Each signal of an exporter is described separately, because
/// the writer also writes it separately.
fn meaning(config: &Config) -> Vec<String> {
    let of_application = |exporter: &&crate::Exporter| exporter.provider() == Some(ProviderName::Application);
    let resource = &config.main.resource;
    let mut meaning: Vec<String> = resource.shown().map(|(key, value)| format!("{key}={value}")).collect();
    meaning.sort();
    meaning.push(resource.field().len().to_string());
    let views = config.main.views.iter().cloned();
    meaning.extend(views.map(|view| format!("{:?}", View { source: SettingSource::Default, ..view })));
    let shared = config.effective().into_iter().filter(|setting| {
        !["service-name", "resource"].contains(&setting.key) && !setting.key.starts_with("application.")
    });
    meaning.extend(shared.map(|setting| format!("{} = {}", setting.key, setting.value)));
    for signal in Signal::ALL {
        let exporters = config.exporters.iter().filter(|exporter| exporter.signals.contain(signal));
        for exporter in exporters.filter(|exporter| !of_application(exporter)) {
            let connection = &exporter.connection;
            let headers =
                connection.headers.iter().map(|(name, value)| format!("{name}: {}", value.expose()));
            meaning.push(format!(
                "{} {} {:?}",
                signal.name(),
                connection.url(signal),
                headers.collect::<Vec<_>>()
            ));
            let is_plain = |row: &&SettingRow| !["endpoint", "headers", "signals"].contains(&row.key);
            let rows =
                rows().filter(|row| row.signals.contains(&signal) && (row.applies_to)(connection.transport));
            meaning.extend(
                rows.filter(is_plain).map(|row| format!("{} = {}", row.key, row.kind.show(exporter))),
            );
        }
    }
    meaning
}

/// Writes and reads a configuration. Returns the text and the warnings of the writer.
fn convert(config: &Config, variables: &[(&str, &str)]) -> (String, Vec<String>) {
    let (text, found) = to_declarative(config);
    let variables = variables.iter().copied().collect();
    let again = read("<otel>", &text, &Resolver::new(""), &variables)
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(meaning(&again), meaning(config), "{text}");
    (text, found.iter().map(ToString::to_string).collect())
}

/// Returns the warnings of the writer for a file.
fn warnings_of(toml: &str) -> Vec<String> {
    convert(&Config::from_toml_str(toml).expect(toml), &[]).1
}

#[test]
fn starters_and_recipes_keep_their_effect() {
    let [stalwart, recipes, tracetest, qualitytrace, variables] = [
        include_str!("../../../cli/init/telemetry.toml"),
        include_str!("../../../cli/init/recipes.toml"),
        include_str!("../../../cli/init/tracetest.yaml"),
        include_str!("../../../cli/init/qualitytrace.yaml"),
        include_str!("../../../cli/init/telemetry.env"),
    ];
    // Uncomments the examples of a starter file, so that they are tested, too. Examples that name a certificate or key
    // file stay comments.
    let switched = |text: &str, sign: &str| {
        let is_example = |line: &&str| {
            line.starts_with("#")
                && line.contains(sign)
                && ![".pem", ".key"].iter().any(|file| line.contains(file))
        };
        let line = |line: &str| {
            Some(line).filter(is_example).map_or(line, |line| line.trim_start_matches(['#', ' '])).to_owned()
        };
        text.lines().map(line).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(warnings_of(stalwart), [""; 0]);
    for yaml in [tracetest, qualitytrace] {
        let (_, found) = convert(&Config::from_yaml_str(yaml).expect(yaml), &[]);
        let what = "is left out: the format has no place for it; set it in code";
        assert!(
            found.len() == 1 && found[0].ends_with(&format!("application/collector: {what}")),
            "{found:?}"
        );
    }
    let variables = switched(variables, "OTEL_");
    let pairs: Vec<_> = variables
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(name, _)| name.starts_with("OTEL_") && *name != "OTEL_SDK_DISABLED")
        .collect();
    assert!(pairs.len() > 10, "{pairs:?}");
    let config = Config::from_variables(pairs.clone()).unwrap();
    assert_eq!(convert(&config, &pairs).1, [""; 0]);
    let mut count = 0;
    for recipe in recipes.split("#: ").skip(1) {
        let (_, tables) = recipe.split_once("\n\n").expect(recipe);
        let tables = tables
            .replace("%{env:", "%{env:CARGO_PKG_NAME}%")
            .split("CARGO_PKG_NAME}%")
            .enumerate()
            .map(|(index, part)| {
                if index == 0 {
                    part.to_owned()
                } else {
                    part.split_once("}%")
                        .map_or(String::new(), |(_, rest)| format!("CARGO_PKG_NAME}}%{rest}"))
                }
            })
            .collect::<String>();
        if let Ok(config) = Config::from_toml_str(&tables) {
            // The writer replaces the values of headers by references to these variables.
            let headers = config.exporters().iter().flat_map(|exporter| {
                exporter.connection.headers.iter().map(|(name, value)| {
                    let name = format!("SECRET_{}_{name}", exporter.own_name()).to_ascii_uppercase();
                    (name.replace(['-', '.'], "_"), value.expose())
                })
            });
            let headers: Vec<_> = headers.collect();
            let variables = headers.iter().map(|(name, value)| (&**name, *value));
            let variables: Vec<_> = variables.chain([("CARGO_PKG_NAME", "standpipe")]).collect();
            let (text, found) = convert(&config, &variables);
            assert!(found.iter().all(|line| line.contains("may be a secret")), "{found:?}");
            assert_eq!(tables.contains("%{"), text.contains("${CARGO_PKG_NAME}"), "{text}");
            count += 1;
        }
    }
    assert!(count > 15, "{count}");
}

#[test]
fn no_secret_is_written_and_references_are_kept() {
    let toml = "[telemetry]\nservice-name = '$%{env:CARGO_PKG_NAME}%-1'\nresource.api_key = 'hunter2'\n\
                [tracer.a]\ntype = 'otel'\ntransport = 'grpc'\nendpoint = '%{env:CARGO_PKG_NAME}%:4317'\n\
                headers = ['Authorization: Bearer %{env:CARGO_PKG_NAME}%', 'X-Key: hunter2']\n\
                [tracer.b]\ntype = 'otel'\ntransport = 'http'\nendpoint = 'https://%{env:CARGO_PKG_NAME}%/x/'\n\
                user-agent = '%{env: CARGO_PKG_NAME }%/$1'\nheaders = {a = 'hunter2', b = '%{env:CARGO_PKG_NAME}%'}\n\
                [tracer.c]\ntype = 'otel'\ntransport = 'http'\nendpoint = 'https://x/v1/traces?key=hunter2'\n\
                headers = {c = '%{file:TOKEN}% $'}\n";
    let token = std::env::temp_dir().join(format!("standpipe-{}.token", std::process::id()));
    std::fs::write(&token, "hunter2\n").unwrap();
    let toml = toml.replace("TOKEN", token.to_str().unwrap());
    let variables = [
        ("CARGO_PKG_NAME", "standpipe"),
        ("SECRET_RESOURCE_API_KEY", "hunter2"),
        ("SECRET_A_X_KEY", "hunter2"),
        ("SECRET_B_A", "hunter2"),
        ("SECRET_C_TRACES_URL", "https://x/v1/traces?key=hunter2"),
    ];
    let (text, found) = convert(&Config::from_toml_str(&toml).unwrap(), &variables);
    assert!(!text.contains("hunter2"), "{text}");
    for part in [
        "value: \"$$${CARGO_PKG_NAME}-1\"",
        "\"https://${CARGO_PKG_NAME}:4317\"",
        "\"Bearer ${CARGO_PKG_NAME}\"",
        "\"https://${CARGO_PKG_NAME}/x/\"",
        "}% $$\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(found.len(), 5, "{found:?}");
}

#[test]
fn secrets_of_variables_remain_references() {
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://x/api?key=hunter2"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://x/api?key=hunter2"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=hunter2"),
        ("OTEL_RESOURCE_ATTRIBUTES", "team=blue,api_key=hunter2,%24=%24"),
        ("OTEL_LOGS_EXPORTER", "none"),
        ("OTEL_METRICS_EXPORTER", "console"),
    ];
    let (text, found) = convert(&Config::from_variables(variables).unwrap(), &variables);
    assert!(!text.contains("hunter2"), "{text}");
    for part in [
        "\"${OTEL_EXPORTER_OTLP_TRACES_ENDPOINT}\"",
        "headers_list: \"${OTEL_EXPORTER_OTLP_HEADERS}\"",
        "\"blue\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn every_setting_keeps_its_value() {
    let (mut count, pem) = (0, std::env::temp_dir().join(format!("standpipe-{}.pem", std::process::id())));
    std::fs::write(&pem, "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n").unwrap();
    let pem = pem.to_str().unwrap();
    for row in
        rows().filter(|row| row.is_in_tables && !["transport", "endpoint", "headers"].contains(&row.key))
    {
        let values: Vec<String> = match &row.kind {
            Kind::Duration { .. } => vec!["1234ms".into(), "2s".into()],
            Kind::Limit { .. } => vec!["1234ms".into(), "none".into()],
            Kind::Number { .. } if row.key == "file-backups" => vec!["7".into()],
            Kind::Number { .. } => vec!["1048577".into()],
            Kind::Word { names, .. } => names().into_iter().map(str::to_owned).collect(),
            Kind::Bool { .. } => vec!["true".into(), "false".into()],
            Kind::File { .. } => vec![pem.into()],
            _ => vec!["/tmp/$x '\"#: -".into()],
        };
        for value in values {
            let value = if matches!(row.kind, Kind::Bool { .. } | Kind::Number { .. }) {
                value
            } else {
                quote(&value)
            };
            let is_of_file = !(row.applies_to)(crate::config::Transport::Http);
            let (transport, file) = if is_of_file { ("file", "file = '/tmp/x'") } else { ("http", "") };
            let partner = row.partner.map_or(String::new(), |partner| {
                format!("{} = {}\n", partner.key, quote(if partner.key == "spool" { "/tmp/x" } else { pem }))
            });
            let file = if row.key == "file" { "" } else { file };
            for (section, signals) in [
                (
                    "[tracer.x]\ntype = 'otel'\nenable.log-exporter = true\n",
                    &[Signal::Traces, Signal::Logs][..],
                ),
                ("[metrics.open-telemetry]\n", &[Signal::Metrics]),
            ] {
                if !row.signals.iter().any(|signal| signals.contains(signal)) {
                    continue;
                }
                let endpoint = if is_of_file { "" } else { "endpoint = 'https://x'" };
                let toml = format!(
                    "{section}transport = '{transport}'\n{endpoint}\n{file}\n{partner}{} = {value}\n",
                    row.key
                );
                count += 1;
                if let Ok(config) = Config::from_toml_str(&toml) {
                    assert_eq!(convert(&config, &[]).1, [""; 0], "{toml}");
                } else {
                    panic!("{toml}: {}", Config::from_toml_str(&toml).unwrap_err());
                }
            }
        }
    }
    assert!(count > 60, "{count}");
}

proptest! {
    #[test]
    fn any_text_keeps_its_characters(name in "\\PC{1,12}", value in any::<String>(), number in any::<i64>(), float in any::<f64>()) {
        let (name, value) = (quote(&name.replace("%{", "")), quote(&value.replace("%{", "")));
        let toml = format!("[telemetry]\nresource.{name} = {value}\nresource.b = [{value}]\nresource.c = {number}\nresource.d = {float:?}\nviews = [{{selector = {{instrument_name = 'x', unit = {value}}}, stream = {{aggregation = {{explicit_bucket_histogram = {{boundaries = [0.5, 1.0]}}}}}}}}]\n[metrics.open-telemetry]\ntransport = 'http'\n");
        if let Ok(config) = Config::from_toml_str(&toml) {
            convert(&config, &[]);
        }
    }
}
