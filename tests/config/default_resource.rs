//! Every request identifies its program, with or without a configured service name.

#[cfg(target_os = "linux")]
use std::{fs, path::Path, process::Command};

use std::time::Duration;

#[cfg(target_os = "linux")]
use standpipe::config::Detector;
use standpipe::receiver::Receiver;
use standpipe::{Application, Config, Exporter, ProblemKind, Telemetry};

#[cfg(target_os = "linux")]
use crate::support::process;
use crate::support::settings::problems_of_start;

/// Returns the string values of these resource attributes, as received from a program with this configuration.
fn arriving<const N: usize>(config: Config, keys: [&str; N]) -> [Option<String>; N] {
    let receiver = Receiver::start().expect("a receiver starts");
    let config = config.exporter(Exporter::http(receiver.endpoint()));
    let telemetry = Telemetry::start(config).expect("telemetry starts");
    telemetry.tracer("shop").span("checkout").end();
    let ledger = telemetry.shutdown(Duration::from_secs(20));
    assert_eq!(ledger.total().delivered, 1, "{ledger}");
    let spans = receiver.spans();
    keys.map(|key| spans[0].resource_attribute(key).as_str().map(str::to_owned))
}

#[test]
fn a_program_without_a_name_is_known_by_its_file() {
    let program = std::env::current_exe().unwrap();
    let expected = format!("unknown_service:{}", program.file_name().unwrap().to_string_lossy());
    for config in [Config::new(), Config::new().service_name("")] {
        assert_eq!(arriving(config, ["service.name"]), [Some(expected.clone())]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_program_whose_file_was_deleted_keeps_its_name() {
    const NAME: &str = "a_program_whose_file_was_deleted_keeps_its_name";
    if let Some(path) = process::task() {
        let name = Path::new(&path).file_name().unwrap().to_string_lossy().into_owned();
        fs::remove_file(&path).unwrap();
        let keys = ["service.name", "process.executable.name"];
        let expected = [Some(format!("unknown_service:{name}")), Some(name)];
        return assert_eq!(arriving(Config::new().detect([Detector::Process]), keys), expected);
    }
    let program = std::env::current_exe().unwrap();
    let link = program.with_file_name(format!("deleted-{}", std::process::id()));
    fs::hard_link(&program, &link).unwrap();
    let usual = process::command(NAME, link.to_str().unwrap());
    let variables = usual.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let output = Command::new(&link).args(usual.get_args()).envs(variables).output().unwrap();
    assert!(output.status.success() && !link.exists(), "{output:?}");
}

#[test]
fn a_given_name_and_given_attributes_arrive() {
    let config = Config::new().service_name("warehouse").resource("host.name", "north");
    let config = config.service_name("shop");
    let expected = ["shop", "north"].map(|text| Some(text.to_owned()));
    assert_eq!(arriving(config, ["service.name", "host.name"]), expected);
}

#[test]
fn the_library_names_itself() {
    let keys = ["telemetry.sdk.name", "telemetry.sdk.language", "telemetry.sdk.version"];
    let expected = ["standpipe", "rust", env!("CARGO_PKG_VERSION")].map(|text| Some(text.to_owned()));
    assert_eq!(arriving(Config::new(), keys), expected);
}

#[test]
fn every_telemetry_of_a_process_has_its_random_instance_id_unless_one_is_set() {
    const ID: &str = "service.instance.id";
    let id = |config: Config| arriving(config, [ID])[0].clone();
    let random = id(Config::new()).expect("an id is sent");
    assert_eq!((random.len(), random.as_bytes()[14]), (36, b'4'), "{random}");
    assert_eq!(id(Config::new().service_name("other")), Some(random));
    assert_eq!(id(Config::new().resource(ID, "code")).as_deref(), Some("code"));
    let file = Config::from_toml_str("[telemetry.resource]\nservice.instance.id = 'file'\n");
    assert_eq!(id(file.unwrap_or_else(|error| error.into_usable())).as_deref(), Some("file"));
    let exporters = ["OTEL_TRACES_EXPORTER", "OTEL_LOGS_EXPORTER", "OTEL_METRICS_EXPORTER"];
    let variables = exporters.map(|variable| (variable, "none")).into_iter();
    let variables = variables.chain([("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=variable")]);
    assert_eq!(id(Config::from_variables(variables).expect("it is sound")).as_deref(), Some("variable"));
    // An empty id switches the attribute off.
    assert_eq!(id(Config::new().resource(ID, "")), None);
}

#[test]
fn the_default_name_is_used_only_if_no_other_is_set() {
    let named = |config: Config| arriving(config, ["service.name"]).map(Option::unwrap_or_default).concat();
    assert_eq!(named(Config::new().default_service_name("shop")), "shop");
    assert_eq!(named(Config::new().default_service_name("shop").service_name("code")), "code");
    assert_eq!(named(Config::new().service_name("code").default_service_name("shop")), "code");
    assert_eq!(named(Config::new().service_name("").default_service_name("shop")), "shop");
    let in_file = "[telemetry]\nservice-name = 'file'";
    let config = Config::from_toml_str(in_file).expect("it is sound");
    assert_eq!(named(config.default_service_name("shop")), "file");
    for (variable, value) in
        [("OTEL_SERVICE_NAME", "variable"), ("OTEL_RESOURCE_ATTRIBUTES", "service.name=variable")]
    {
        let config = Config::from_variables([(variable, value)]).expect("it is sound");
        assert_eq!(config.default_service_name("shop").effective()[0].value, "variable");
    }
    let config = Config::new().default_service_name("shop");
    assert_eq!(config.effective()[0].to_string(), "service-name = shop (code)");
}

#[test]
fn a_start_without_a_name_reports_once_what_to_set() {
    let exporter = || Exporter::http("http://127.0.0.1:4318");
    let unnamed = || Config::new().exporter(exporter());
    let [problem] = &problems_of_start(unnamed().exporter(exporter().named("second")))[..] else {
        panic!("not one problem")
    };
    assert_eq!((problem.kind, problem.exporter.as_str()), (ProblemKind::NoServiceName, "otlp"));
    let program = std::env::current_exe().unwrap();
    let expected = format!(
        "no service name is set, records are sent as unknown_service:{}: set the service's name in the program, \
         service-name in [telemetry] of the file, or OTEL_SERVICE_NAME",
        program.file_name().unwrap().to_string_lossy()
    );
    assert_eq!(problem.message, expected);

    let named = unnamed().service_name("shop");
    let [problem] =
        &problems_of_start(named.clone().application(Application::new().exporter(exporter())))[..]
    else {
        panic!("not one problem")
    };
    let words = ": set the application's name in the program, serviceName in the file, or OTEL_SERVICE_NAME";
    assert!(problem.message.ends_with(words), "{}", problem.message);
    for silent in [Config::new(), named, unnamed().default_service_name("shop"), unnamed().disabled(true)] {
        assert_eq!(problems_of_start(silent), []);
    }
}

#[test]
fn a_hook_that_panics_at_the_start_does_no_harm() {
    let config = Config::new().exporter(Exporter::http("http://127.0.0.1:4318"));
    let telemetry =
        Telemetry::start(config.on_problem(|_| panic!("the hook's own"))).expect("telemetry starts");
    assert_eq!(telemetry.shutdown(Duration::ZERO).lost(), 0);
}

/// Returns the environment variables that a systemd unit or a Kubernetes manifest of the guide sets.
fn variables_of_guide(block: &str) -> Vec<(String, String)> {
    let mut variables: Vec<(String, String)> = Vec::new();
    let mut open = String::new();
    for line in block.lines().map(str::trim) {
        let unquoted = line.strip_prefix("Environment=").and_then(|line| line.split_once('='));
        let (name, value) = if let Some((name, value)) = unquoted {
            (name.to_owned(), value.to_owned())
        } else if let Some(name) = line.strip_prefix("- name: ") {
            open = name.to_owned();
            continue;
        } else if let Some(field) = line.split("fieldPath: ").nth(1) {
            let value = if field.starts_with("status.hostIP") { "127.0.0.1" } else { "of-the-pod" };
            (open.clone(), value.to_owned())
        } else if let Some(value) = line.strip_prefix("value: ") {
            (open.clone(), value.to_owned())
        } else {
            continue;
        };
        // Kubernetes replaces only references to variables that are defined above.
        let value =
            variables.iter().fold(value, |value, (name, to)| value.replace(&format!("$({name})"), to));
        variables.push((name, value));
    }
    variables
}

#[test]
fn the_environments_of_the_deployment_chapter_reach_a_collector_with_their_attributes() {
    let guide = include_str!("../../src/guide/deployment.md");
    for (begin, keys, expected) in [
        ("[Service]", ["service.version", "deployment.environment.name"], ["1.2", "test"]),
        ("env:", ["k8s.pod.name", "k8s.node.name"], ["of-the-pod", "of-the-pod"]),
    ] {
        let block =
            guide.split("```").find(|block| block.starts_with(&format!("text\n{begin}"))).expect(begin);
        let receiver = Receiver::start().expect("a receiver starts");
        let block = block.replace(":4318", &format!(":{}", receiver.address().port()));
        let variables = variables_of_guide(&block);
        assert!(variables.iter().all(|(_, value)| !value.contains('$')), "{variables:?}");
        let config = Config::from_variables(variables).expect(begin);
        assert_eq!(config.diagnostics(), []);
        let telemetry = Telemetry::start(config).expect("telemetry starts");
        telemetry.tracer("shop").span("checkout").end();
        assert_eq!(telemetry.shutdown(Duration::from_secs(20)).total().delivered, 1);
        let spans = receiver.spans();
        assert_eq!(spans[0].service_name(), "shop");
        assert_eq!(keys.map(|key| spans[0].resource_attribute(key).as_str()), expected.map(Some));
    }
}
