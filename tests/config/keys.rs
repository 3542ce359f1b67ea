//! Keys of a configuration file: each value becomes an effective setting, or one exact message.

use std::time::Duration;

use standpipe::config::{
    DiagnosticSeverity, Histograms, Proxy, Roots, SettingSource, SpanLimits, SpoolSync, Temporality,
};
use standpipe::{Compression, Config, Exporter, Severity, Signal, Telemetry, WhenFull};

use crate::support::settings::{diagnostics, names, refused, tracer, value};

const GRPC_EXAMPLE: &str = r#"[tracer.otel]
type = "open-telemetry"
transport = "grpc"
endpoint = "https://127.0.0.1/otel"
level = "info"
enable = true
"#;

const HTTP_EXAMPLE: &str = r#"[tracer.otel]
type = "open-telemetry"
transport = "http"
endpoint = "https://tracing.mydomain.test/v1/otel"
headers = ["Authorization: <place_auth_here>"]
level = "debug"
enable = true
"#;

const MAX_QUEUE: &str = if usize::BITS == 64 { "4 GiB" } else { "1 GiB" };

#[test]
fn the_documented_http_example_loads_without_a_word() {
    let config = Config::from_toml_str(HTTP_EXAMPLE).expect("the users' own example");
    assert_eq!(diagnostics(&config), [""; 0]);
    assert_eq!(names(&config), ["otel"]);
    assert_eq!(value(&config, "endpoint"), "https://tracing.mydomain.test/v1/otel");
    assert_eq!(value(&config, "headers"), "Authorization: ***");
    assert_eq!(value(&config, "throttle"), "1s");
    assert_eq!(value(&config, "lossy"), "false");
}

#[test]
fn the_documented_grpc_example_loads_as_it_is() {
    let config = Config::from_toml_str(GRPC_EXAMPLE).expect("the users' own example");
    assert_eq!(names(&config), ["otel"]);
    assert_eq!(value(&config, "transport"), "grpc");
    assert_eq!(
        config.exporters()[0].endpoints(),
        [(Signal::Traces, "https://127.0.0.1:443".to_owned())],
        "the path is left out"
    );
    assert_eq!(
        diagnostics(&config),
        ["warning: <toml>:4:12: tracer.otel.endpoint: the path is ignored: gRPC has none; \
             write \"https://127.0.0.1:443\"",]
    );
    // The exporter is disabled, so no connection is made.
    assert_eq!(Telemetry::start(config).expect("it starts").shutdown(Duration::ZERO).lost(), 0);
}

#[test]
fn every_good_value_becomes_the_effective_one() {
    for (line, key, effective) in [
        ("", "transport", "http"),
        ("", "endpoint", "http://localhost:4318"),
        ("", "headers", "none"),
        ("", "throttle", "1s"),
        ("", "linger", "0s"),
        ("", "lossy", "false"),
        ("", "block-timeout", "none"),
        ("", "queue-records", "32768"),
        ("", "queue-bytes", "16 MiB"),
        ("", "batch-records", "8192"),
        ("", "batch-bytes", "4032 KiB"),
        ("", "timeout", "10s"),
        ("", "give-up-after", "5m"),
        ("", "retry-first-delay", "250ms"),
        ("", "retry-max-delay", "30s"),
        ("", "max-retry-after", "1m"),
        ("", "max-connection-age", "none"),
        ("", "compression", "none"),
        ("", "response-bytes", "4 MiB"),
        ("", "proxy", "env"),
        ("", "ca-file", "bundled roots"),
        ("", "extra-ca-file", "none"),
        ("", "roots", "bundled"),
        ("roots = 'System'", "roots", "system"),
        ("", "client-certificate-file", "none"),
        ("", "client-key-file", "none"),
        ("endpoint = 'localhost'", "endpoint", "localhost"),
        ("endpoint = 'http://127.0.0.1:4318/v1/traces'", "endpoint", "http://127.0.0.1:4318/v1/traces"),
        ("endpoint = 'http://[::1]/x?key=hunter2'", "endpoint", "http://[::1]/x?***"),
        ("headers = []", "headers", "none"),
        ("headers = 'A: 1'", "headers", "A: ***"),
        ("headers = ['A: 1', \"B : 2:3\"]", "headers", "A: ***, B: ***"),
        ("headers = { b = '1', A = '2' }", "headers", "b: ***, A: ***"),
        ("headers.X-One = '1'\nheaders.X-Two = '2'", "headers", "X-One: ***, X-Two: ***"),
        ("[tracer.otel.headers]\nAuthorization = 'x'", "headers", "Authorization: ***"),
        ("throttle = '0'", "throttle", "0s"),
        ("throttle = 250", "throttle", "250ms"),
        ("throttle = '5 S'", "throttle", "5s"),
        ("linger = '2000ms'", "linger", "2s"),
        ("lossy = true", "lossy", "true"),
        ("lossy = false", "lossy", "false"),
        ("block-timeout = '90s'", "block-timeout", "90s"),
        ("block-timeout = 'None'", "block-timeout", "none"),
        ("queue-records = 1", "queue-records", "1"),
        ("queue-records = 0xff_ffff", "queue-records", "16777215"),
        ("queue-bytes = 1024", "queue-bytes", "1 KiB"),
        (&format!("queue-bytes = '{MAX_QUEUE}'"), "queue-bytes", MAX_QUEUE),
        ("batch-records = 1", "batch-records", "1"),
        ("batch-records = 16_777_215\nqueue-records = 16_777_215", "batch-records", "16777215"),
        ("batch-bytes = '64MiB'", "batch-bytes", "64 MiB"),
        ("batch-bytes = '1500'", "batch-bytes", "1500"),
        ("timeout = '365d'", "timeout", "none"),
        ("timeout = 'None'", "timeout", "none"),
        ("give-up-after = 'none'", "give-up-after", "none"),
        ("timeout = '1ms'", "timeout", "1ms"),
        ("timeout = 100", "timeout", "100ms"),
        ("give-up-after = '1h'", "give-up-after", "1h"),
        ("retry-first-delay = '1s'\nretry-max-delay = '1s'", "retry-max-delay", "1s"),
        ("max-retry-after = '2m'", "max-retry-after", "2m"),
        ("max-connection-age = '5m'", "max-connection-age", "5m"),
        ("compression = 'gzip'", "compression", "gzip"),
        ("compression = 'none'", "compression", "none"),
        ("response-bytes = '1 KiB'", "response-bytes", "1 KiB"),
        ("proxy = 'off'", "proxy", "off"),
        ("proxy = 'env'", "proxy", "env"),
    ] {
        let config = Config::from_toml_str(&tracer(line)).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(diagnostics(&config), [""; 0], "{line}");
        assert_eq!(value(&config, key), effective, "{line}");
    }
}

#[test]
fn every_bad_value_has_its_own_message() {
    const DURATION: &str = "write a whole number and one unit (d, h, m, s or ms), like \"90s\"";
    let most = match usize::BITS {
        64 => "the most the queue can count",
        _ => "the most a queue may hold on a 32-bit machine",
    };
    let too_large = format!("is too large: {most} is {MAX_QUEUE}; write 1 KiB to {MAX_QUEUE}");
    for (line, message) in [
        (
            "endpoint = ''",
            "4:12: tracer.otel.endpoint: \"\" is empty; leave it out for \"http://localhost:4318\"",
        ),
        (
            "endpoint = 4318",
            "4:12: tracer.otel.endpoint: found an integer; write a URL like \"http://localhost:4318\"",
        ),
        (
            "endpoint = 'ftp://a'",
            "4:12: tracer.otel.endpoint: \"ftp://***\" has an unknown scheme; write http:// or https://",
        ),
        (
            "endpoint = 'http://user:hunter2@a'",
            "4:12: tracer.otel.endpoint: \"http://***\" holds a user name or password; \
             send them as a header: \"Authorization: Basic …\"",
        ),
        (
            "endpoint = '::1:4318'",
            "4:12: tracer.otel.endpoint: \"***\" has an IPv6 address without brackets, or two ports; \
             write it like \"http://[::1]:4318\"",
        ),
        (
            "headers = 5",
            "4:11: tracer.otel.headers: found an integer; write a list like [\"Name: value\"], one such string, or a table",
        ),
        (
            "headers = [\n  'A: 1',\n  2,\n]",
            "6:3: tracer.otel.headers: found an integer; write a list like [\"Name: value\"], one such string, or a table",
        ),
        (
            "headers = ['hunter2']",
            "4:12: tracer.otel.headers: header without a colon; write it like \"Name: value\"",
        ),
        (
            "headers = ['A: 1', \"B: hunter2\\r\\nC: 1\"]",
            "4:20: tracer.otel.headers: value of header \"B\" holds a line break; write printable ASCII in one line",
        ),
        (
            "[tracer.otel.headers]\nAuthorization = ''",
            "5:17: tracer.otel.headers: header \"Authorization\" has no value; write the value or remove the header",
        ),
        (
            "headers = ['Content-Length: 5']",
            "4:12: tracer.otel.headers: header \"Content-Length\" cannot be set; remove it: standpipe writes it",
        ),
        (
            "level = 'verbose'",
            "4:9: tracer.otel.level: \"verbose\" is not known; \
             write \"trace\", \"debug\", \"info\", \"warn\", \"error\" or \"disable\"",
        ),
        ("throttle = '1m30s'", "4:12: tracer.otel.throttle: \"1m30s\" has more than one unit; write \"90s\""),
        ("throttle = '366d'", "4:12: tracer.otel.throttle: 366d is too long; write at most 365d"),
        ("throttle = -1", "4:12: tracer.otel.throttle: -1 is negative; write a positive number"),
        ("throttle = 1.5", "4:12: tracer.otel.throttle: found a float; write a duration like \"1s\""),
        (
            "throttle = '2 weeks'",
            &format!("4:12: tracer.otel.throttle: \"2 weeks\" has an unknown unit; {DURATION}"),
        ),
        ("linger = '-1s'", &format!("4:10: tracer.otel.linger: \"-1s\" is negative; {DURATION}")),
        ("lossy = 'true'", "4:9: tracer.otel.lossy: found a string; write true or false, without quotes"),
        ("lossy = 1", "4:9: tracer.otel.lossy: found an integer; write true or false, without quotes"),
        ("lossy = yes", "4:9: tracer.otel.lossy: not a value; write true or false, without quotes"),
        ("lossy = True", "4:9: tracer.otel.lossy: not a value; write true or false, without quotes"),
        (
            "block-timeout = 0",
            "4:17: tracer.otel.block-timeout: 0s means never to wait; write lossy = true for that",
        ),
        ("queue-records = 0", "4:17: tracer.otel.queue-records: 0 is too small; write 1 to 16777215"),
        (
            "queue-records = 16777216",
            "4:17: tracer.otel.queue-records: 16777216 is too large: the most the queue can count is 16777215; \
             write 1 to 16777215",
        ),
        // The lowest 32 bits of this number would be in range.
        (
            "queue-records = 4294967297",
            "4:17: tracer.otel.queue-records: 4294967297 is too large: the most the queue can count is 16777215; \
             write 1 to 16777215",
        ),
        (
            "queue-records = '10'",
            "4:17: tracer.otel.queue-records: found a string; write a whole number, without quotes",
        ),
        (
            "queue-records = 99999999999999999999",
            "4:17: tracer.otel.queue-records: 99999999999999999999 is too large; write a smaller number",
        ),
        (
            "queue-bytes = 1023",
            &format!("4:15: tracer.otel.queue-bytes: 1023 is too small; write 1 KiB to {MAX_QUEUE}"),
        ),
        ("queue-bytes = '5 GiB'", &format!("4:15: tracer.otel.queue-bytes: 5 GiB {too_large}")),
        ("queue-bytes = '99 GiB'", &format!("4:15: tracer.otel.queue-bytes: 99 GiB {too_large}")),
        (
            "queue-bytes = '16 MB'",
            "4:15: tracer.otel.queue-bytes: \"16 MB\" may mean 1000² or 1024²; write MiB for 1024² bytes",
        ),
        ("batch-records = 0", "4:17: tracer.otel.batch-records: 0 is too small; write 1 to 16777215"),
        ("batch-bytes = 10", "4:15: tracer.otel.batch-bytes: 10 is too small; write 1 KiB to 64 MiB"),
        ("timeout = '0s'", "4:11: tracer.otel.timeout: 0s is too short; write 1ms to 365d"),
        ("timeout = ''", &format!("4:11: tracer.otel.timeout: \"\" is not a duration; {DURATION}")),
        (
            "timeout = true",
            "4:11: tracer.otel.timeout: found a boolean; write a duration like \"10s\", or \"none\"",
        ),
        (
            "timeout = 2026-01-01",
            "4:11: tracer.otel.timeout: found a date; write a duration like \"10s\", or \"none\"",
        ),
        (
            "timeout = [1]",
            "4:11: tracer.otel.timeout: found an array; write a duration like \"10s\", or \"none\"",
        ),
        (
            "timeout.s = 1",
            "4:1: tracer.otel.timeout: found a table; write a duration like \"10s\", or \"none\"",
        ),
        ("give-up-after = 0", "4:17: tracer.otel.give-up-after: 0s is too short; write 1ms to 365d"),
        (
            "retry-first-delay = '1m'",
            "1:9: tracer.otel.retry-max-delay: 30s is shorter than retry-first-delay, 1m; write 1m or more",
        ),
        (
            "compression = 'zstd'",
            "4:15: tracer.otel.compression: \"zstd\" is not known; write \"none\" or \"gzip\"",
        ),
        (
            "proxy = 'http://p'",
            "4:9: tracer.otel.proxy: \"http://p\" is not known; write \"env\" or \"off\"; HTTPS_PROXY or HTTP_PROXY sets \
             the address of a proxy",
        ),
        (
            "proxy = 'http://u:hunter2@p'",
            "4:9: tracer.otel.proxy: a URL with user info is not known; write \"env\" or \"off\"; HTTPS_PROXY or HTTP_PROXY \
             sets the address of a proxy",
        ),
        (
            "ca-file = 'no/such.pem'",
            "4:11: tracer.otel.ca-file: cannot read file \"no/such.pem\": no such file; write the path of a readable file",
        ),
        (
            "endpoint = 'https://a'\nca-file = 'Cargo.toml'",
            "5:11: tracer.otel.ca-file: holds no PEM block \"CERTIFICATE\"; name a file in PEM form",
        ),
        (
            "client-key-file = 'Cargo.toml'",
            "4:19: tracer.otel.client-certificate-file: missing, but needed by client-key-file; write both or neither",
        ),
        (
            "user-agent = \"a\\nb\"",
            "4:14: tracer.otel.user-agent: holds a line break; write a product like \"shop/1.2\"",
        ),
        (
            "headers = ['A: %{env:STANDPIPE_NO_SUCH}%']",
            "4:12: tracer.otel.headers: environment variable \"STANDPIPE_NO_SUCH\" is not set; set it to the value",
        ),
        (
            "headers = ['A: %{file:no/such}%']",
            "4:12: tracer.otel.headers: cannot read file \"no/such\": no such file; write the path of a readable file",
        ),
        ("enable = 'true'", "4:10: tracer.otel.enable: found a string; write true or false, without quotes"),
        (
            "enable.log-exporter = 1",
            "4:23: tracer.otel.enable.log-exporter: found an integer; write true or false, without quotes",
        ),
        (
            "enable.span-exporter.x = 1",
            "4:8: tracer.otel.enable.span-exporter: found a table; write true or false, without quotes",
        ),
        (
            "timeout = 1000\ntimeout = 2",
            "5:1: tracer.otel.timeout: duplicate key; it is already set in line 4; remove one of the two",
        ),
        ("timeout", "4:1: tracer.otel.timeout: key without a value; write key = value"),
    ] {
        assert_eq!(refused(&tracer(line)).to_string(), format!("<toml>:{message}"), "{line}");
    }
}

#[test]
fn what_is_odd_but_works_is_a_warning_or_a_note() {
    for (text, message) in [
        (
            tracer("endpont = 'x'"),
            "warning: <toml>:4:1: tracer.otel.endpont: unknown key; did you mean \"endpoint\"?",
        ),
        (tracer("colour = 'red'"), "warning: <toml>:4:1: tracer.otel.colour: unknown key; remove it"),
        (tracer("\"a b\" = 1"), "warning: <toml>:4:1: tracer.otel.***: unknown key; remove it"),
        (tracer("\"a.b\" = 1"), "warning: <toml>:4:1: tracer.otel.\"a.b\": unknown key; remove it"),
        (
            tracer("enable-log-exporter = true"),
            "warning: <toml>:4:1: tracer.otel.enable-log-exporter: unknown key; did you mean \"enable.log-exporter\"?",
        ),
        (
            tracer("enable.log-exproter = true"),
            "warning: <toml>:4:8: tracer.otel.enable.log-exproter: unknown key; did you mean \"enable.log-exporter\"?",
        ),
        (
            tracer("enable.span-exporter = false"),
            "warning: <toml>:4:24: tracer.otel.enable.span-exporter: not started: neither spans nor logs would be sent; \
             write true, or enable = false",
        ),
        (
            tracer("interval = '1m'"),
            "warning: <toml>:4:1: tracer.otel.interval: has no effect here; write it in [metrics.open-telemetry]",
        ),
        (
            tracer("signals = ['logs']"),
            "warning: <toml>:4:1: tracer.otel.signals: has no effect here; \
             write enable.span-exporter and enable.log-exporter",
        ),
        (
            "[tracer.otel]\ntransport = 'http'".to_owned(),
            "warning: <toml>:1:9: tracer.otel.type: not started: it has no type; write type = \"open-telemetry\"",
        ),
        (
            "[tracer.stdout]\ntype = 'console'\nansi = 5".to_owned(),
            "note: <toml>:2:8: tracer.stdout.type: not started: \"console\" is not a type of OpenTelemetry",
        ),
        (
            tracer("enable = false\nnonsense = 1"),
            "note: <toml>:4:10: tracer.otel.enable: not started: enable is false",
        ),
        (
            "[tracer.otel]\ntype = 'otel'\ntransport = 'disable'\nnonsense = 1".to_owned(),
            "note: <toml>:3:13: tracer.otel.transport: not started: its transport is disabled",
        ),
        (
            "[server]\nlistener = \"0.0.0.0:25".to_owned(),
            "warning: <toml>:2:23: server.listener: invalid basic string; expected `\"`",
        ),
    ] {
        let config = Config::from_toml_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(diagnostics(&config), [message], "{text}");
    }
}

#[test]
fn tracers_that_are_off_export_nothing() {
    for (text, exporters) in [
        (String::new(), 0),
        (tracer(""), 1),
        (tracer("enable = true"), 1),
        (tracer("enable = false"), 0),
        (tracer("enable.span-exporter = true"), 1),
        (tracer("enable.span-exporter = false"), 0),
        ("[tracer.a]\ntype = 'otel'\ntransport = 'disabled'".to_owned(), 0),
        ("[tracer.a]\ntype = 'journal'".to_owned(), 0),
        ("[tracer.a]\ntype = 'open-telemetry'\ntransport = 'https'".to_owned(), 1),
        ("[tracer]".to_owned(), 0),
    ] {
        assert_eq!(Config::from_toml_str(&text).expect(&text).exporters().len(), exporters, "{text}");
    }
}

#[test]
fn sections_of_others_are_fine_and_silent() {
    let text = format!(
        "[server.listener.smtp]\nbind = ['[::]:25']\n[metrics.open-telemetry]\ntransport = 'disable'\n\
         [[rule]]\nenable = true\n[metrics.prometheus]\nenable = true\n{}",
        tracer("")
    );
    let config = Config::from_toml_str(&text).expect("nothing of ours is wrong");
    assert_eq!(diagnostics(&config), [""; 0]);
    assert_eq!(config.exporters().len(), 1);
}

#[test]
fn enable_may_be_a_value_and_a_table_at_once_in_every_form() {
    let forms = [
        "enable.log-exporter = true",
        "enable . \"log-exporter\" = true",
        "\"enable.log-exporter\" = true",
        "enable = { log-exporter = true }",
        "[tracer.otel.enable]\nlog-exporter = true",
    ];
    let after = forms.map(|form| tracer(&format!("enable = true\n{form}")));
    let before = format!("[tracer.otel.enable]\nlog-exporter = true\n{}", tracer("enable = true"));
    for text in after.iter().chain([&before]) {
        let config = Config::from_toml_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(diagnostics(&config), [""; 0], "{text}");
        assert_eq!(value(&config, "signals"), "traces, logs", "{text}");
    }
    // `enable = false` disables the whole tracer.
    for form in forms {
        let off = Config::from_toml_str(&tracer(&format!("enable = false\n{form}"))).expect(form);
        assert!(off.exporters().is_empty(), "{form}");
    }
}

#[test]
fn a_switch_given_in_two_forms_is_a_duplicate() {
    let duplicate = "duplicate key; it is already set in line 4; remove one of the two";
    let inline = "enable is an inline table in line 4, which cannot be extended; remove one of the two";
    for (forms, place, what) in [
        ("enable.log-exporter = false\n\"enable.log-exporter\" = false", "5:1", duplicate),
        ("enable.log-exporter = false\n[tracer.otel.enable]\nlog-exporter = false", "6:1", duplicate),
        ("enable = { log-exporter = false }\nenable.log-exporter = false", "5:1", inline),
    ] {
        let shown = refused(&tracer(forms)).to_string();
        let expected = format!("<toml>:{place}: tracer.otel.enable.log-exporter: {what}");
        assert_eq!(shown, expected, "{forms}");
    }
}

#[test]
fn ids_that_look_like_keys_are_ids() {
    let text = "[tracer.enable]\ntype = 'otel'\ntransport = 'http'\nenable = true\nenable.span-exporter = true\n\
                [tracer.\"otel.enable\"]\ntype = 'otel'\ntransport = 'http'\n\
                [tracer.log-exporter]\ntype = 'otel'\ntransport = 'http'\n";
    let config = Config::from_toml_str(text).expect(text);
    assert_eq!(diagnostics(&config), [""; 0]);
    assert_eq!(names(&config), ["enable", "otel.enable", "log-exporter"]);
}

#[test]
fn a_value_knows_its_place_even_behind_a_renamed_key() {
    let text = "tracer.otel = { enable = true, enable.span-exporter = true, type = 'otel', transport = 'http', \
                lossy = true }";
    let config = Config::from_toml_str(text).expect(text);
    let settings = config.exporters()[0].effective();
    let lossy = settings.iter().find(|setting| setting.key == "lossy").expect("a setting");
    let column = text.find("true }").expect("the value") + 1;
    assert_eq!(lossy.source.to_string(), format!("<toml>:1:{column}"));
}

#[test]
fn secrets_come_from_the_environment_and_from_files() {
    // cargo sets this variable for every test.
    let config = Config::from_toml_str(&tracer(
        "user-agent = '%{env:CARGO_PKG_NAME}%'\ncompression = '%{env:STANDPIPE_NO}%'",
    ));
    assert!(config.expect_err("unset").to_string().contains("\"STANDPIPE_NO\" is not set"));
    let config =
        Config::from_toml_str(&tracer("endpoint = 'http://%{env:CARGO_PKG_NAME}%.test/x'")).expect("set");
    assert_eq!(value(&config, "endpoint"), "http://%{env:CARGO_PKG_NAME}%.test/x");
}

#[test]
fn code_overrides_what_a_file_said_and_is_named_as_the_source() {
    let config = Config::from_toml_str(&tracer("timeout = '3s'\nlossy = true")).expect("good");
    let exporter = config.exporters()[0].clone().timeout(Duration::from_secs(7));
    let shown: Vec<String> = exporter.effective().iter().map(ToString::to_string).collect();
    assert!(shown.contains(&"timeout = 7s (code)".to_owned()), "{shown:?}");
    assert!(shown.contains(&"lossy = true (<toml>:5:9)".to_owned()), "{shown:?}");
    assert!(shown.contains(&"linger = 0s (default)".to_owned()), "{shown:?}");
}

/// Returns the settings of the first exporter for a full queue, with their origins.
fn when_full(config: &Config) -> Vec<String> {
    let is_asked = |key: &str| ["lossy", "block-timeout"].contains(&key);
    let settings = config.exporters()[0].effective().into_iter().filter(|setting| is_asked(setting.key));
    settings.map(|setting| setting.to_string()).collect()
}

#[test]
fn what_a_full_queue_does_by_default_follows_from_who_describes_the_exporter() {
    let in_code = Config::new().exporter(Exporter::http("localhost"));
    let tracetest = "telemetry.exporters.c.exporter.type = 'collector'\nserver.telemetry.exporter = 'c'";
    for (config, lossy, block_timeout) in [
        (in_code, false, "5s"),
        (Config::from_toml_str(tracetest).expect("good"), false, "5s"),
        (Config::from_toml_str(&tracer("")).expect("good"), false, "none"),
        (Config::from_variables([("", ""); 0]).expect("good"), true, "5s"),
    ] {
        let expected =
            [format!("lossy = {lossy} (default)"), format!("block-timeout = {block_timeout} (default)")];
        assert_eq!(when_full(&config), expected);
    }
}

#[test]
fn what_is_written_or_set_in_code_wins_over_the_default_of_every_origin() {
    let written = Config::from_toml_str(&tracer("block-timeout = '9s'")).expect("good");
    assert_eq!(when_full(&written), ["lossy = false (default)", "block-timeout = 9s (<toml>:4:17)"]);
    let lossy = Config::from_toml_str(&tracer("lossy = true")).expect("good");
    for config in [written, lossy, Config::from_variables([("", ""); 0]).expect("good")] {
        let set = |exporter: Exporter| exporter.when_full(WhenFull::Block).block_timeout(None);
        let config = config.map_exporters(set);
        assert_eq!(when_full(&config), ["lossy = false (code)", "block-timeout = none (code)"]);
    }
}

#[test]
fn a_limit_to_waits_that_never_happen_is_told() {
    let config = Config::from_toml_str(&tracer("lossy = true\nblock-timeout = '9s'")).expect("good");
    let expected = "warning: <toml>:5:17: tracer.otel.block-timeout: has no effect: no caller waits; \
                    write lossy = false, or remove it";
    assert_eq!(diagnostics(&config), [expected]);
}

#[test]
fn every_builder_method_sets_its_setting() {
    let seconds = Duration::from_secs;
    let exporter = Exporter::http("http://127.0.0.1:4318")
        .named("mine")
        .header("Authorization", "hunter2")
        .timeout(seconds(1))
        .when_full(WhenFull::DropNewest)
        .block_timeout(seconds(2))
        .queue_records(3)
        .queue_bytes(4 << 20)
        .batch_records(5)
        .batch_bytes(6 << 10)
        .throttle(seconds(7))
        .linger(seconds(8))
        .compression(Compression::Gzip)
        .ca_pem("nine")
        .extra_ca_pem("extra")
        .roots(Roots::System)
        .client_pem("eleven!", "hunter2")
        .proxy(Proxy::Off)
        .give_up_after(seconds(10))
        .retry_delays(seconds(11), seconds(12))
        .max_retry_after(seconds(14))
        .max_connection_age(seconds(18))
        .response_bytes(17 << 10)
        .user_agent("shop/1.2")
        .signals(Signal::ALL)
        .level(Severity::Warn2)
        .interval(seconds(13))
        .temporality(Temporality::LowMemory)
        .histograms(Histograms::Exponential)
        .spool("/var/spool/shop")
        .spool_bytes(15 << 20)
        .spool_age(seconds(16))
        .spool_sync(SpoolSync::EveryBatch)
        .spool_open_spans(true)
        .cardinality_limit(17);
    let version = env!("CARGO_PKG_VERSION");
    let expected = [
        ("transport", "http", SettingSource::Code),
        ("endpoint", "http://127.0.0.1:4318", SettingSource::Code),
        ("headers", "Authorization: ***", SettingSource::Code),
        ("signals", "traces, logs, metrics", SettingSource::Code),
        ("level", "warn2", SettingSource::Code),
        ("interval", "13s", SettingSource::Code),
        ("temporality", "lowmemory", SettingSource::Code),
        ("histograms", "exponential", SettingSource::Code),
        ("cardinality-limit", "17", SettingSource::Code),
        ("throttle", "7s", SettingSource::Code),
        ("linger", "8s", SettingSource::Code),
        ("lossy", "true", SettingSource::Code),
        ("block-timeout", "2s", SettingSource::Code),
        ("queue-records", "3", SettingSource::Code),
        ("queue-bytes", "4 MiB", SettingSource::Code),
        ("batch-records", "5", SettingSource::Code),
        ("batch-bytes", "6 KiB", SettingSource::Code),
        ("timeout", "1s", SettingSource::Code),
        ("give-up-after", "10s", SettingSource::Code),
        ("retry-first-delay", "11s", SettingSource::Code),
        ("retry-max-delay", "12s", SettingSource::Code),
        ("max-retry-after", "14s", SettingSource::Code),
        ("max-connection-age", "18s", SettingSource::Code),
        ("compression", "gzip", SettingSource::Code),
        ("response-bytes", "17 KiB", SettingSource::Code),
        ("proxy", "off", SettingSource::Code),
        ("ca-file", "4 bytes of PEM", SettingSource::Code),
        ("extra-ca-file", "5 bytes of PEM", SettingSource::Code),
        ("roots", "system", SettingSource::Code),
        ("client-certificate-file", "7 bytes of PEM", SettingSource::Code),
        ("client-key-file", "7 bytes of PEM", SettingSource::Code),
        ("user-agent", &format!("shop/1.2 standpipe/{version} (rust)"), SettingSource::Code),
        ("spool", "/var/spool/shop", SettingSource::Code),
        ("spool-bytes", "15 MiB", SettingSource::Code),
        ("spool-age", "16s", SettingSource::Code),
        ("spool-sync", "batch", SettingSource::Code),
        ("spool-open-spans", "true", SettingSource::Code),
    ];
    let effective = exporter.effective();
    let effective: Vec<_> = effective
        .iter()
        .map(|setting| (setting.key, setting.value.as_str(), setting.source.clone()))
        .collect();
    assert_eq!(effective, expected);
}

#[test]
fn a_configuration_in_code_keeps_what_it_is_told() {
    let config = Config::new()
        .service_name("shop")
        .resource("host.cpus", 2)
        .span_limits(SpanLimits::default().links(7))
        .on_problem(|_| ())
        .self_observation(true)
        .drop_budget(Duration::from_millis(1500))
        .exporter(Exporter::http("localhost").named("one"))
        .exporter(Exporter::http("localhost").named("two"));
    assert_eq!(names(&config), ["one", "two"]);
    let shown = format!("{config:?}");
    for told in ["shop", "host.cpus", "links: 7", "self-observation: true"] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    let drop_budget = |config: &Config| {
        let settings = config.effective();
        settings.iter().find(|setting| setting.key == "drop-budget").map(ToString::to_string)
    };
    assert_eq!(drop_budget(&config).as_deref(), Some("drop-budget = 1500ms (code)"));
    assert_eq!(drop_budget(&Config::new()).as_deref(), Some("drop-budget = 2s (default)"));
    assert!(Config::new().exporters().is_empty());
}

#[test]
fn severities_are_in_order() {
    assert!(
        DiagnosticSeverity::Note < DiagnosticSeverity::Warning
            && DiagnosticSeverity::Warning < DiagnosticSeverity::Error
    );
}

#[test]
fn reads_the_file_of_an_exporter_and_its_rotation() {
    let table = |lines: &str| format!("[tracer.otel]\ntype = 'otel'\n{lines}");
    let rotation = "file-bytes = '1 KiB'\nfile-age = '1d'\nfile-backups = 2";
    let text = table(&format!("transport = 'file'\nfile = '/var/log/otlp.jsonl'\n{rotation}"));
    let config = Config::from_toml_str(&text).unwrap();
    assert_eq!(diagnostics(&config), [""; 0]);
    for (key, effective) in [
        ("transport", "file"),
        ("file", "/var/log/otlp.jsonl"),
        ("file-bytes", "1 KiB"),
        ("file-age", "1d"),
        ("file-backups", "2"),
        ("give-up-after", "5m"),
    ] {
        assert_eq!(value(&config, key), effective);
    }
    assert_eq!(config.exporters()[0].endpoints(), [(Signal::Traces, "/var/log/otlp.jsonl".to_owned())]);

    for transport in ["http/json", "console"] {
        let config = Config::from_toml_str(&table(&format!("transport = '{transport}'"))).unwrap();
        assert_eq!(value(&config, "transport"), transport);
    }
    let error = Config::from_toml_str(&table("transport = 'file'")).unwrap_err().to_string();
    assert!(error.contains("tracer.otel.file: no file is named; write the path of a file like"), "{error}");
    let config = Config::from_toml_str(&table("transport = 'http'\nfile = 'x'")).unwrap();
    let [warning] = &diagnostics(&config)[..] else { panic!("{:?}", diagnostics(&config)) };
    assert!(warning.contains("tracer.otel.file: has no effect: the transport is not file"), "{warning}");
}
