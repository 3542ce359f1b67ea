//! Every request says which program it comes from, whether the program was told its name or not.

use std::time::Duration;

use standpipe::receiver::Receiver;
use standpipe::{Config, Exporter, Telemetry};

/// The string values of these resource attributes, as they arrive from a program with this configuration.
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
