//! `[telemetry]`: keys that describe the program.

use std::time::Duration;

use standpipe::receiver::Receiver;
use standpipe::{Config, Exporter, Sampler, Telemetry};

use crate::support::settings::{diagnostics, refused, tracer};

fn loaded(text: &str) -> Config {
    Config::from_toml_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns the settings of the providers, with their origins.
fn shown(config: &Config) -> Vec<String> {
    let of_provider =
        |key: &str| ["service-name", "resource", "sampler"].iter().any(|name| key.ends_with(name));
    let settings = config.effective().into_iter().filter(|setting| of_provider(setting.key));
    settings.map(|setting| setting.to_string()).collect()
}

/// An exporter in Tracetest's layout that both providers use, with further keys.
fn tracetest(keys: &str) -> String {
    format!(
        "[telemetry.exporters.c]\nexporter.type = 'collector'\n{keys}\n\
         [server.telemetry]\nexporter = 'c'\napplicationExporter = 'c'\n"
    )
}

#[test]
fn a_file_names_and_describes_the_program_beside_its_exporters() {
    let program = "[telemetry]\nservice-name = 'shop'\nsampling = 25\nresource = { team = 'a', cpus = 2 }\n";
    let config = loaded(&(tracer("") + program));
    assert_eq!(diagnostics(&config), [""; 0]);
    assert_eq!(
        shown(&config),
        [
            "service-name = shop (<toml>:6:16)",
            "resource = team=a (<toml>:8:21)",
            "resource = cpus=2 (<toml>:8:33)",
            "sampler = traceidratio{0.25} (<toml>:7:12)",
        ]
    );
    let summary = &config.summaries()[0];
    assert_eq!((summary.service_name.as_str(), summary.sampling), ("shop", 25.0));
}

#[test]
fn attributes_of_every_type_arrive() {
    let text = "[telemetry.resource]\n\
                deployment.environment.name = 'test'\n\
                'service.version' = '1.2'\n\
                leader = true\ncpus = 2\nload = 0.5\nzones = ['a', 'b']\nmixed = [1, true]\n";
    let receiver = Receiver::start().unwrap();
    let telemetry = Telemetry::start(loaded(text).exporter(Exporter::http(receiver.endpoint()))).unwrap();
    telemetry.tracer("shop").span("checkout").end();
    assert_eq!(telemetry.shutdown(Duration::from_secs(20)).lost(), 0);
    let spans = receiver.spans();
    let arrived = |key: &str| spans[0].resource_attribute(key);
    assert_eq!(arrived("deployment.environment.name"), "test");
    assert_eq!(arrived("service.version"), "1.2");
    assert_eq!(arrived("leader"), true);
    assert_eq!(arrived("cpus"), 2);
    assert_eq!(arrived("load"), 0.5);
    assert_eq!(arrived("zones"), ["a", "b"]);
    assert_eq!(format!("{:?}", arrived("mixed")), "[1, true]");
}

#[test]
fn it_fills_what_an_exporter_of_the_program_leaves_open_and_leaves_the_application_alone() {
    let program = "telemetry.service-name = 'shop'\ntelemetry.sampling = 25\ntelemetry.resource.team = 'a'\n";
    let open = loaded(&(program.to_owned() + &tracetest("")));
    assert_eq!(
        shown(&open)[..3],
        [
            "service-name = shop (<toml>:1:26)",
            "resource = team=a (<toml>:3:27)",
            "sampler = traceidratio{0.25} (<toml>:2:22)",
        ]
    );
    let application = &open.summaries()[1];
    assert!(application.service_name.starts_with("unknown_service:"), "{application:?}");
    assert_eq!((application.sampling, shown(&open).len()), (100.0, 5));

    let named = loaded(&(program.to_owned() + &tracetest("serviceName = 'own'\nsampling = 50")));
    assert_eq!(
        shown(&named)[..3],
        [
            "service-name = own (<toml>:6:15)",
            "resource = team=a (<toml>:3:27)",
            "sampler = traceidratio{0.5} (<toml>:7:12)",
        ]
    );
}

#[test]
fn yaml_says_the_same() {
    let text = "telemetry:\n  service-name: shop\n  sampling: 0.1\n  resource:\n    team: a\n    service.version: '1'\n  \
                exporters: {c: {exporter: {type: collector}}}\nserver: {telemetry: {exporter: c}}\n";
    let config = Config::from_yaml_str(text).expect("it is sound");
    assert_eq!(diagnostics(&config), [""; 0]);
    assert_eq!(
        shown(&config),
        [
            "service-name = shop (<yaml>:2:17)",
            "resource = team=a (<yaml>:5:11)",
            "resource = service.version=1 (<yaml>:6:22)",
            "sampler = traceidratio{0.001} (<yaml>:3:13)",
        ]
    );
}

#[test]
fn code_wins_over_the_file() {
    let text = tracer("") + "[telemetry]\nservice-name = 'shop'\nsampling = 25\nresource.team = 'a'\n";
    let config = loaded(&text).service_name("code").resource("team", "b").sampler(Sampler::always_on());
    let expected = ["service-name = code (code)", "resource = team=b (code)", "sampler = always_on (code)"];
    assert_eq!(shown(&config), expected);
}

#[test]
fn the_name_of_the_service_wins_over_one_among_the_attributes() {
    let attribute = "[telemetry]\nresource = { 'service.name' = 'attribute' }\n";
    assert_eq!(shown(&loaded(attribute))[0], "service-name = attribute (<toml>:2:31)");
    let both = attribute.to_owned() + "service-name = 'shop'";
    assert_eq!(shown(&loaded(&both))[0], "service-name = shop (<toml>:3:16)");
}

#[test]
fn what_is_put_into_a_name_or_an_attribute_is_never_shown() {
    let text = "[telemetry]\nservice-name = 'shop %{env:CARGO_PKG_LICENSE}%'\n\
                resource.owner = 'of %{env:CARGO_PKG_LICENSE}%'\nresource.owners = ['%{env:CARGO_PKG_LICENSE}%']\n";
    let config = loaded(text);
    let shown = shown(&config);
    assert_eq!(shown[0], "service-name = shop %{env:CARGO_PKG_LICENSE}% (<toml>:2:16)");
    assert_eq!(shown[1], "resource = owner=of %{env:CARGO_PKG_LICENSE}% (<toml>:3:18)");
    assert!(!format!("{config:?}{shown:?}").contains(env!("CARGO_PKG_LICENSE")), "{shown:?}");
}

#[test]
fn what_is_wrong_is_reported_with_its_place_and_breaks_no_exporter() {
    const PERCENT: &str = "write a percentage like 100 or 0.1";
    const ATTRIBUTE: &str = "write a string, a boolean, a number or an array of these";
    for (line, expected) in [
        ("service-name = true", "6:16: telemetry.service-name: found a boolean; write a name like shop"),
        (
            "service-name = '%{env:STANDPIPE_NOWHERE}%'",
            "6:16: telemetry.service-name: environment variable \"STANDPIPE_NOWHERE\" is not set",
        ),
        ("sampling = '100%'", &format!("6:12: telemetry.sampling: \"100%\" is not a number; {PERCENT}")),
        ("sampling = [1]", &format!("6:12: telemetry.sampling: found an array; {PERCENT}")),
        (
            "resource = 'team=a'",
            "6:12: telemetry.resource: found a string; write attributes like \"deployment.environment.name\" and \
             their values",
        ),
        (
            "resource.since = 2026-01-01",
            &format!("6:18: telemetry.resource.since: found a date; {ATTRIBUTE}"),
        ),
        ("resource.lists = [[1]]", &format!("6:18: telemetry.resource.lists: found an array; {ATTRIBUTE}")),
        (
            "resource.large = 9223372036854775808",
            "6:18: telemetry.resource.large: is too large for an integer; write it in quotes",
        ),
        (
            "propagators = ['b3', 'b3mult']",
            "6:15: telemetry.propagators: \"b3mult\" is not known; did you mean \"b3multi\"?",
        ),
        (
            "propagators = ['xray']",
            "6:15: telemetry.propagators: \"xray\" is not supported: only AWS reads it; write tracecontext",
        ),
        (
            "exemplars = 'always'",
            "6:13: telemetry.exemplars: \"always\" is not known; did you mean \"always_on\"?",
        ),
        ("exemplars = ['always_on']", "6:13: telemetry.exemplars: found an array; write one word"),
        ("detect = true", "6:10: telemetry.detect: found a boolean; write a list of names"),
        ("resource.'' = 1", "6:15: telemetry.resource.\"\": the name is empty; write a name"),
        (
            "resource = { 'a.b' = 1, a = { b = 2 } }",
            "6:35: telemetry.resource.a.b: duplicate key; it is already set in line 6; remove one of the two",
        ),
    ] {
        let error = refused(&(tracer("") + "[telemetry]\n" + line));
        let reported = error.to_string();
        assert!(reported.starts_with(&format!("<toml>:{expected}")), "{line}: {reported}");
        assert_eq!((error.diagnostics().len(), error.into_usable().exporters().len()), (1, 1), "{line}");
    }
}

#[test]
fn the_filter_of_exemplars_is_one_word() {
    let effective = |text: &str| {
        let settings = loaded(text).effective();
        settings.into_iter().find(|setting| setting.key == "exemplars").map(|setting| setting.to_string())
    };
    let set = "[telemetry]\nexemplars = 'always_off'\n".to_owned() + &tracer("");
    assert_eq!(effective(&set).as_deref(), Some("exemplars = always_off (<toml>:2:13)"));
    assert_eq!(effective(&tracer("")).as_deref(), Some("exemplars = trace_based (default)"));
}

#[test]
fn detectors_and_propagators_are_lists_of_names() {
    let effective = |text: &str| {
        let config = loaded(text);
        let is_it = |key: &str| ["detect", "propagators"].contains(&key);
        let settings = config.effective().into_iter().filter(|setting| is_it(setting.key));
        settings.map(|setting| setting.to_string()).collect::<Vec<_>>()
    };
    let lists = "[telemetry]\ndetect = ['host', 'Container']\npropagators = 'b3, baggage'\n";
    let expected = ["detect = host,container (<toml>:2:10)", "propagators = b3,baggage (<toml>:3:15)"];
    assert_eq!(effective(&(lists.to_owned() + &tracer(""))), expected);
    let defaults = ["detect = none (default)", "propagators = tracecontext,baggage (default)"];
    assert_eq!(effective(&tracer("")), defaults);
    let none = "[telemetry]\ndetect = []\npropagators = ['none']\n";
    let expected = ["detect = none (<toml>:2:10)", "propagators = none (<toml>:3:15)"];
    assert_eq!(effective(&(none.to_owned() + &tracer(""))), expected);
}

#[test]
fn what_is_unknown_is_reported_by_what_was_meant() {
    let unknown = |text: &str| diagnostics(&loaded(&(tracer("") + text)));
    for (line, fix) in [
        ("service-nam = 'x'", "did you mean \"service-name\"?"),
        ("serviceName = 'x'", "did you mean \"service-name\"?"),
        ("resources = 'x'", "did you mean \"resource\"?"),
        ("colour = 'x'", "remove it"),
    ] {
        let key = line.split(' ').next().unwrap();
        let expected = format!("warning: <toml>:6:1: telemetry.{key}: unknown key; {fix}");
        assert_eq!(unknown(&format!("[telemetry]\n{line}")), [expected]);
    }
    for key in ["endpoint", "tracer", "metrics", "lossy"] {
        let expected = format!(
            "warning: <toml>:6:1: telemetry.{key}: not a key of the program; write it in [tracer.<id>], \
             [metrics.open-telemetry] or telemetry.exporters.<name>"
        );
        assert_eq!(unknown(&format!("[telemetry]\n{key} = 'x'")), [expected]);
    }
    let misspelt =
        "warning: <toml>:5:2: telemtry: not read: no section has this name; did you mean telemetry?";
    assert_eq!(unknown("[telemtry]\nservice-name = 'shop'"), [misspelt]);
}

#[test]
fn a_file_that_describes_a_program_without_exporters_is_reported() {
    for text in ["[telemetry]\nservice-name = 'shop'", "[telemetry]\nservice-nam = 'shop'"] {
        let reported = diagnostics(&loaded(text));
        assert!(reported.iter().any(|line| line.contains("describes no exporter")), "{text}: {reported:?}");
    }
}

#[test]
fn more_attributes_than_anyone_keeps_are_refused_in_time() {
    let attributes: String = (0..5_000).map(|number| format!("a{number} = 1\n")).collect();
    let error = refused(&format!("[telemetry.resource]\n{attributes}"));
    let expected = "<toml>:1002:9: telemetry.resource.a1000: more than 1000 attributes: the rest is ignored; \
                    remove some";
    assert_eq!(error.to_string(), expected);
}
