//! All errors are reported at once, each at its location and without secrets; no file can harm the program.

use std::error::Error as _;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use standpipe::config::DiagnosticSeverity;
use standpipe::{Config, ConfigError, Exporter, Telemetry};

use crate::support::scratch::Scratch;
use crate::support::{share_of, size_within};

const GOOD: &str = "[tracer.good]\ntype = 'otel'\ntransport = 'http'\n";

fn refused(text: &str) -> ConfigError {
    Config::from_toml_str(text).expect_err(text)
}

fn usable(error: ConfigError) -> usize {
    error.into_usable().exporters().len()
}

const TEN_MISTAKES: &str = r#"# ten mistakes and one good exporter
[tracer.first]
type = "otel"
transport = "http"
endpont = "http://localhost:4318"
timeout = "1m30s"
lossy = "yes"
headers = ["Authorization: %{env:STANDPIPE_NOT_SET}%", "no colon"]

[tracer.second]
type = "open-telemetry"
transport = "carrier-pigeon"
queue-records = 0
   endpoint = "http://ä.test"
batch-bytes 4096

[tracer.good]
type = "otel"
transport = "http"
linger = "1s"

[tracer.third]
type = "otel"
transport = "http"
level = info
level = "info"
"#;

#[test]
fn ten_mistakes_are_told_at_once_each_at_its_place() {
    let scratch = Scratch::new();
    let path = scratch.write("otlp.toml", TEN_MISTAKES);
    let error = Config::from_file(&path).expect_err("ten mistakes");
    let shown = error.to_string().replace(path.to_str().expect("UTF-8"), "otlp.toml");
    let expected = [
        "warning: otlp.toml:5:1: tracer.first.endpont: unknown key; did you mean \"endpoint\"?",
        "otlp.toml:6:11: tracer.first.timeout: \"1m30s\" has more than one unit; write \"90s\"",
        "otlp.toml:7:9: tracer.first.lossy: found a string; write true or false, without quotes",
        "otlp.toml:8:12: tracer.first.headers: environment variable \"STANDPIPE_NOT_SET\" is not set; \
         set it to the value",
        "otlp.toml:8:56: tracer.first.headers: header without a colon; write it like \"Name: value\"",
        "otlp.toml:12:13: tracer.second.transport: \"carrier-pigeon\" is not known; write \"http\", \"http/json\", \"grpc\", \"file\", \"console\" or \"disable\"",
        "otlp.toml:13:17: tracer.second.queue-records: 0 is too small; write 1 to 16777215",
        "otlp.toml:14:15: tracer.second.endpoint: \"http://***\" has a host that is not ASCII; \
         write its xn-- form",
        "otlp.toml:15:1: tracer.second.batch-bytes: key without a value; write key = value",
        "otlp.toml:25:9: tracer.third.level: not a value; \
         write \"trace\", \"debug\", \"info\", \"warn\", \"error\" or \"disable\"",
        "otlp.toml:26:1: tracer.third.level: duplicate key; it is already set in line 25; remove one of the two",
    ];
    assert_eq!(shown.lines().collect::<Vec<_>>(), expected);

    let location = error.diagnostics()[1].location.clone().expect("a place in the file");
    assert_eq!((location.line, location.column), (6, 11));
    let usable = error.into_usable();
    let [good] = usable.exporters() else { panic!("{usable:?}") };
    assert_eq!(good.name(), "good");
    assert_eq!(usable.diagnostics().len(), 1, "the warning stays");
}

#[test]
fn a_broken_exporter_never_disables_another_one() {
    for broken in [
        "[tracer.bad]\ntype = 'otel'\ntransport = 'http'\ntimeout = 0",
        "[tracer.bad]\ntype = 'otel'\ntransport = 'http'\nendpoint \"x\"",
        "[tracer.bad]\ntype = 'otel'\ntransport = 'http'\nendpoint = \"x",
        "[tracer.bad]\ntype = 'otel'\ntransport = 'http'\n!!!",
        "[tracer.bad]\ntype = 'otel'\n[tracer.bad]\ntransport = 'http'",
        "[tracer.bad.headers\nAuthorization = 'x'",
        "[tracer.bad]\ntype = 'otel'\ntransport = 'http'\nheaders = ['A: 1' 'B: 2']",
        "[tracer.bad]\ntype = 5",
        "[tracer]\nbad = 5",
        "[[tracer.bad]]\ntype = 'otel'",
    ] {
        for text in [format!("{broken}\n{GOOD}"), format!("{GOOD}{broken}\n")] {
            let error = refused(&text);
            assert_eq!(usable(error), 1, "{text}");
        }
    }
}

#[test]
fn one_mistake_is_told_once() {
    for (text, message) in [
        (
            "[tracer.a]\ntype = 'otel'\ntransport\n",
            "<toml>:3:1: tracer.a.transport: key without a value; write key = value",
        ),
        (
            "[tracer.a]\ntype = 'otel'\ntransport = 'htp'\n",
            "<toml>:3:13: tracer.a.transport: \"htp\" is not known; did you mean \"http\"?",
        ),
        (
            "[tracer.a]\ntype: 'otel'\ntransport = 'http'\n",
            "<toml>:2:1: tracer.a.type: key without a value; write key = value",
        ),
    ] {
        assert_eq!(refused(text).to_string(), message);
    }
}

#[test]
fn an_exporter_does_not_start_without_what_stood_below_a_broken_header() {
    let text = format!("{GOOD}[tracer.good.headers\nAuthorization = 'hunter2'\n");
    let error = refused(&text);
    assert_eq!(
        error.to_string(),
        "<toml>:4:1: tracer.good.headers: malformed table header; write it like [tracer.otel], alone in its line"
    );
    assert_eq!(usable(error), 0);
}

#[test]
fn a_mistake_that_could_be_anybodys_starts_nobody() {
    for mistake in ["[\nAuthorization = 'x'", "x = \"\"\"", "x = [1,", "[tracer", "!!!"] {
        for text in [format!("{GOOD}[postgres]\n{mistake}"), format!("[postgres]\n{mistake}\n{GOOD}")] {
            let Err(error) = Config::from_toml_str(&text) else {
                // Only `!!!` may be ignored: it can only belong to the section of another program.
                assert_eq!(mistake, "!!!");
                continue;
            };
            assert_eq!(usable(error), 0, "{text}");
        }
    }
}

#[test]
fn files_that_cannot_be_read_are_told_apart() {
    let scratch = Scratch::new();
    let latin = scratch.write("latin.toml", b"[tracer.a]\n# caf\xe9\n");
    let large = scratch.write("large.toml", "#".repeat((1 << 20) + 1));
    let full = scratch.write("full.toml", "#".repeat(1 << 20));
    for (path, what) in [
        (scratch.path().join("missing.toml"), "cannot read: no such file"),
        (scratch.path().to_owned(), "cannot read: is a directory"),
        (latin.clone(), "not UTF-8 in line 2"),
        (large, "cannot read: larger than 1 MiB"),
    ] {
        let error = Config::from_file(&path).expect_err(what);
        assert!(error.is_unreadable(), "{what}");
        assert_eq!(error.diagnostics()[0].what, what);
        assert!(error.source().is_some_and(|source| what.ends_with(&source.to_string())), "{what}");
        assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
        assert_eq!(usable(error), 0);
    }
    let error = Config::from_file(&latin).expect_err("Latin-1").to_string();
    assert!(error.ends_with("latin.toml:2:1: not UTF-8 in line 2; save the file as UTF-8"), "{error}");
    assert!(Config::from_file(full).is_ok(), "exactly 1 MiB");
    let text = "#".repeat((1 << 20) + 1);
    assert!(Config::from_toml_str(&text).expect_err("too large").is_unreadable());
    assert!(!refused("[tracer.a").is_unreadable());
}

/// Returns everything that the library shows of a file.
fn everything_said_of(path: &Path) -> String {
    let mut output = String::new();
    let config = Config::from_file(path).unwrap_or_else(|error| {
        output += &format!("{error}\n{error:?}\n{:?}\n", error.diagnostics());
        error.into_usable()
    });
    output += &format!("{config:?}\n{:?}\n{:?}\n", config.diagnostics(), config.effective());
    for exporter in config.exporters() {
        output += &format!("{exporter:?}\n{:?}\n", exporter.effective());
    }
    output
}

#[test]
fn no_output_holds_a_secret() {
    const SECRET: &str = "hunter2";
    let scratch = Scratch::new();
    scratch.write("token", format!("{SECRET}\r\n"));
    scratch.write("key.pem", format!("-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n"));
    scratch.write("bad-key.pem", SECRET);
    scratch.write("cert.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let client = "client-certificate-file = 'cert.pem'\nclient-key-file";
    for keys in [
        format!("headers = ['Authorization: {SECRET}']"),
        format!("headers = {{ Authorization = '{SECRET}' }}"),
        "headers = ['Authorization: Bearer %{file:token}%']".to_owned(),
        "headers = '%{file:token}%'".to_owned(),
        "headers = ['%{file:token}% x: y']".to_owned(),
        format!("headers = ['{SECRET}']"),
        format!("headers = [\"Authorization: {SECRET}\\r\\nX: y\"]"),
        format!("headers = ['Authorization {SECRET}: x']"),
        format!("headers = ['Authorization: {SECRET}"),
        format!("headers = ['Authorization: {SECRET}' 'x']"),
        format!("headers = [['{SECRET}']]"),
        format!("headers = ['Authorization: Bearer\n{SECRET}']"),
        format!("headers = ['Authorization: Bearer',\n{SECRET}]\n"),
        format!("{SECRET}\n"),
        format!("{SECRET} x\n"),
        format!("lossy.{SECRET}\n"),
        format!("\"{SECRET}\" x\n"),
        format!("endpoint = 'http://user:{SECRET}@a.test'"),
        format!("endpoint = 'http://user:?{SECRET}@a.test'"),
        format!("endpoint = 'http://a.test/?key={SECRET}'"),
        "endpoint = 'http://a.test/%{file:token}%'".to_owned(),
        "endpoint = 'ftp://%{file:token}%'".to_owned(),
        "endpoint = '%{file:token}%:::'".to_owned(),
        "timeout = '%{file:token}%'".to_owned(),
        "queue-bytes = '%{file:token}%'".to_owned(),
        "level = '%{file:token}%'".to_owned(),
        "compression = '%{file:token}%'".to_owned(),
        "interval = '%{file:token}%'".to_owned(),
        "temporality = '%{file:token}%'".to_owned(),
        "histograms = '%{file:token}%'".to_owned(),
        "self-observation = '%{file:token}%'".to_owned(),
        "ca-file = '%{file:token}%'".to_owned(),
        "ca-file = 'bad-key.pem'".to_owned(),
        "user-agent = '%{file:token}%'".to_owned(),
        "transport = '%{file:token}%'".to_owned(),
        "type = '%{file:token}%'".to_owned(),
        format!("endpoint = 'https://a.test'\n{client} = 'key.pem'"),
        format!("endpoint = 'https://a.test'\n{client} = 'bad-key.pem'"),
    ] {
        let has = |key: &str| keys.starts_with(key);
        let transport = if has("transport") { "" } else { "transport = 'http'\n" };
        let kind = if has("type") { "" } else { "type = 'otel'\n" };
        for table in [format!("[tracer.otel]\n{kind}"), "[metrics.open-telemetry]\n".to_owned()] {
            let path = scratch.write("otlp.toml", table + transport + &keys);
            let output = everything_said_of(&path);
            assert!(!output.contains(SECRET), "{keys}: {output}");
        }
    }
    let exporter = Exporter::http(format!("http://u:{SECRET}@a.test/?{SECRET}"))
        .header("Authorization", SECRET)
        .client_pem("", SECRET);
    let output =
        format!("{exporter:?} {:?} {:?}", exporter.effective(), Config::new().exporter(exporter.clone()));
    assert!(!output.contains(SECRET), "{output}");
}

#[test]
fn a_secret_in_a_file_beside_the_configuration_is_found_from_anywhere() {
    let scratch = Scratch::new();
    scratch.write("host", "127.0.0.1\n");
    scratch.write("ca.pem", "-----BEGIN CERTIFICATE-----\n");
    let text = format!("{GOOD}endpoint = 'https://%{{file:host}}%:4318'\nca-file = 'ca.pem'\n");
    let config = Config::from_file(scratch.write("otlp.toml", text)).expect("both files are there");
    let shown: Vec<String> =
        config.exporters()[0].effective().iter().map(|setting| setting.value.clone()).collect();
    assert!(shown.contains(&"ca.pem".to_owned()), "{shown:?}");
}

/// On Linux, returns the processor time of this thread, which other processes do not change; elsewhere, the wall time.
fn processor_time() -> Duration {
    let spent = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = spent.and_then(|spent| spent.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

#[test]
fn hostile_documents_are_refused_quickly_and_without_harm() {
    // The promised time is for the largest file and optimized code. Without optimization, a smaller file and a longer
    // time show that the reader does not hang.
    let size = if cfg!(debug_assertions) { share_of(1 << 17) as usize } else { 1 << 20 };
    const MAX_TIME: Duration = Duration::from_millis(if cfg!(debug_assertions) { 10_000 } else { 100 });
    let fill = |text: &str| text.repeat(size / text.len());
    for (name, text) in [
        ("arrays in arrays", fill("[").replacen("[[[", "x=[", 1)),
        ("tables in tables", format!("x={}", "{a=".repeat(size / 3 - 1))),
        ("mixed", format!("x={}", "[{a=".repeat(size / 4 - 1))),
        ("a long key", format!("{}a=1", "a.".repeat(size / 2 - 3))),
        ("a long header", format!("[{}a]", "a.".repeat(size / 2 - 3))),
        ("a long key in a tracer", format!("[tracer.a]\nx={{{}a=1}}", "a.".repeat(size / 2 - 20))),
        ("garbage", fill("!\n")),
        ("equals signs", fill("=\n")),
        ("headers", fill("[\n")),
        ("quotes", fill("\"")),
        ("carriage returns", fill("\r")),
        ("lines that end in them", fill("[tracer.a]\rtype='otel'\r")),
        ("duplicates", fill("a=1\n")),
        ("duplicates in a tracer", format!("[tracer.a]\n{}", "a=1\n".repeat(size / 4 - 3))),
        (
            "unknown keys of metrics",
            format!(
                "[metrics.open-telemetry]\ntransport='http'\n{}",
                (0..size / 10 - 10).map(|key| format!("{key:x}=1\n")).collect::<String>()
            ),
        ),
        ("headers of a tracer", format!("{GOOD}headers=[{}]", "'',".repeat(size / 3 - 30))),
        ("numbers", format!("x=[{}]\ny", fill("1,").get(8..).expect("long enough"))),
        (
            "unknown keys",
            format!("{GOOD}{}", (0..size / 10 - 10).map(|key| format!("{key:x}=1\n")).collect::<String>()),
        ),
        ("tracers", (0..size / 32).map(|id| format!("[tracer.{id:x}]\ntype = 'otel'\n")).collect()),
        ("a long id", format!("[tracer.{}]\n{}", "a".repeat(size / 2), "b=1\n".repeat(size / 8 - 10))),
    ] {
        assert!(text.len() <= size, "{name}");
        let start = processor_time();
        let outcome = Config::from_toml_str(&text);
        let took = processor_time() - start;
        let told = match outcome {
            Ok(config) => config.diagnostics().len(),
            Err(error) => error.diagnostics().len(),
        };
        assert!((1..=202).contains(&told), "{name}: {told} diagnostics");
        assert!(took < MAX_TIME, "{name}: {took:?}");
    }
}

#[test]
fn a_document_of_unknown_keys_is_cut_short() {
    let count = size_within(2_000..=15_000);
    let keys: String = (0..count).map(|number| format!("endpont{number} = 1\n")).collect();
    let config = Config::from_toml_str(&format!("{GOOD}{keys}")).expect("only warnings");
    let diagnostics = config.diagnostics();
    assert_eq!(diagnostics.len(), 201);
    let last = diagnostics.iter().find(|diagnostic| diagnostic.location.is_none()).expect("a summary");
    assert_eq!(last.to_string(), format!("warning: {} more diagnostics are not shown", count - 200));
    assert_eq!(config.exporters().len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2 * ProptestConfig::default().cases, failure_persistence: None, ..ProptestConfig::default() })]

    /// Pieces that are likely to confuse a parser, in any order.
    #[test]
    fn no_text_makes_it_panic_and_every_place_is_in_the_text(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "[tracer.a]\n", "[tracer.a.enable]", "[[tracer.b]]", "[metrics.open-telemetry]\n", "metrics", "open-telemetry", "tracer", ".", "enable", "=", " ", "\n", "\r\n", "\"",
            "'", "\"\"\"", "'''", "{", "}", "[", "]", ",", "#", "\\", "true", "type = 'otel'\n", "transport = 'http'\n",
            "enable.log-exporter = true\n", "headers = ", "'A: 1'", "%{env:X}%", "1s", "ü", "\u{feff}", "\0", "-1",
        ]), 0..40)
    ) {
        let text: String = pieces.concat();
        let diagnostics = match Config::from_toml_str(&text) {
            Ok(config) => {
                prop_assert!(config.diagnostics().iter().all(|diagnostic| diagnostic.severity < DiagnosticSeverity::Error));
                config.diagnostics().to_vec()
            }
            Err(error) => {
                prop_assert!(error.diagnostics().iter().any(|diagnostic| diagnostic.severity == DiagnosticSeverity::Error));
                prop_assert!(!error.to_string().contains(['\r', '\0']));
                error.diagnostics().to_vec()
            }
        };
        let lines: Vec<&str> = text.split('\n').collect();
        for place in diagnostics.iter().filter_map(|diagnostic| diagnostic.location.as_ref()) {
            prop_assert!(place.line >= 1 && place.line <= lines.len(), "{}", place);
            let width = lines[place.line - 1].chars().count();
            prop_assert!(place.column >= 1 && place.column <= width + 1, "{} of {}", place, width);
        }
    }
}

/// A fake private key.
const PEM: &str = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n\
                   -----END PRIVATE KEY-----\n";

/// Returns everything that the library shows of a configuration.
fn everything_shown(outcome: Result<Config, ConfigError>) -> String {
    let mut shown = String::new();
    if let Err(error) = &outcome {
        shown += &format!("{error}\n{error:?}\n{:?}\n", error.diagnostics());
    }
    let config = outcome.unwrap_or_else(ConfigError::into_usable);
    shown += &format!("{config:?}\n{:?}\n{:?}\n", config.effective(), config.summaries());
    for exporter in config.exporters() {
        shown += &format!("{exporter:?}\n{:?}\n{}\n", exporter.effective(), exporter.name());
    }
    shown
}

const KEYS: [&str; 19] = [
    "ca-file",
    "extra-ca-file",
    "client-certificate-file",
    "client-key-file",
    "endpoint",
    "user-agent",
    "headers",
    "headers.authorization",
    "type",
    "transport",
    "level",
    "throttle",
    "timeout",
    "queue-bytes",
    "batch-records",
    "lossy",
    "compression",
    "proxy",
    "cafile",
];

#[test]
fn pem_text_is_in_no_error_and_in_no_description() {
    let escaped = PEM.replace('\n', "\\n");
    for key in KEYS {
        let rest = ["type = 'otel'", "transport = 'http'"];
        let rest: Vec<&str> = rest.into_iter().filter(|line| !line.starts_with(key)).collect();
        for value in [
            format!("\"{escaped}\""),
            format!("'''{PEM}'''"),
            format!("'''x%{{file:{PEM}}}%'''"),
            format!("'''%{{env:{PEM}}}%'''"),
            format!("'{}'", PEM.lines().nth(1).expect("three lines").repeat(2)),
            PEM.to_owned(),
        ] {
            let text = format!("{GOOD}[tracer.a]\n{}\n{key} = {value}\n", rest.join("\n"));
            let shown = everything_shown(Config::from_toml_str(&text));
            assert!(!shown.contains("MIIEv") && !shown.contains("gSjAgEAAoIBAQC7"), "{text}: {shown}");
        }
    }
    for variable in ["CERTIFICATE", "CLIENT_KEY", "ENDPOINT", "HEADERS", "PROTOCOL", "TIMEOUT", "COMPRESSION"]
    {
        let variable = format!("OTEL_EXPORTER_OTLP_{variable}");
        let shown = everything_shown(Config::from_variables([(variable.as_str(), PEM)]));
        assert!(!shown.contains("MIIEv"), "{variable}: {shown}");
    }
    let in_code = Exporter::http(PEM).user_agent(PEM).header(PEM, PEM).header("x", PEM);
    let config = Config::new().service_name(PEM).resource("a", PEM).resource(PEM, "a").exporter(in_code);
    let shown = format!("{config:?} {:?} {:?}", config.effective(), config.summaries());
    assert!(!shown.contains("MIIEv"), "{shown}");
    let error = standpipe::Telemetry::start(config).expect_err("nothing of it is usable");
    assert!(!everything_shown(Err(error.clone())).contains("MIIEv"), "{error}");
}

#[test]
fn pem_text_in_the_place_of_a_path_is_called_so() {
    let text = format!("{GOOD}ca-file = '''{PEM}'''\n");
    assert_eq!(
        refused(&text).to_string(),
        "<toml>:4:11: tracer.good.ca-file: PEM text where a path is expected; write it to a file and give its path"
    );
    let text = format!("{GOOD}ca-file = \"a\\nb\"\n");
    assert!(refused(&text).to_string().contains("a text of several lines where a path is expected"));
}

#[test]
fn long_values_are_shortened_everywhere() {
    let long = "hunter".repeat(200);
    for key in KEYS {
        let rest = ["type = 'otel'", "transport = 'http'"];
        let rest: Vec<&str> = rest.into_iter().filter(|line| !line.starts_with(key)).collect();
        for value in
            [format!("'{long}'"), format!("'http://{long}'"), long.clone(), format!("'%{{env:{long}}}%'")]
        {
            let text = format!("{GOOD}[tracer.a]\n{}\n{key} = {value}\n", rest.join("\n"));
            let error =
                Config::from_toml_str(&text).map_or_else(|error| error.to_string(), |_| String::new());
            assert!(!error.contains(&long[..61]), "{text}: {error}");
        }
    }
    let config = Config::new().exporter(Exporter::http("localhost").user_agent(long.as_str()));
    let config = config.service_name(&long).resource("a", long.as_str());
    let shown = format!("{config:?} {:?} {:?}", config.effective(), config.summaries());
    assert!(!shown.contains(&long[..61]) && shown.contains(&format!("{}…", &long[..60])), "{shown}");
}

#[test]
fn what_moves_a_cursor_or_reorders_text_is_escaped_in_every_diagnostic() {
    let text = format!(
        "{GOOD}\"le\u{202e}vel\" = 1\n[tracer.a]\ntype = 'otel'\ntransport = 'a\u{2066}b'\nlevel = \"\\u001b[2J\"\n"
    );
    let error = refused(&text);
    let strange = |c: char| c.is_control() && c != '\n' || matches!(c, '\u{200b}'..='\u{206f}');
    for diagnostic in error.diagnostics() {
        assert!(
            ![&diagnostic.key, &diagnostic.what, &diagnostic.fix].iter().any(|text| text.contains(strange)),
            "{diagnostic:?}"
        );
    }
    assert!(!error.to_string().contains(strange), "{error:?}");
    assert_eq!(error.diagnostics().len(), 3, "{error}");
    let missing = Config::from_file("no/such\u{202e}\x1b[2J.toml").expect_err("no file").to_string();
    assert!(missing.starts_with("no/such\\u{202e}\\u{1b}[2J.toml:1:1: "), "{missing}");
}

#[test]
fn shows_no_token_in_path_or_malformed_endpoint() {
    const TOKEN: &str = "hunter2hunter2";
    for (endpoint, shown) in [
        (format!("https://a.test/{TOKEN}"), "https://a.test/***"),
        (format!("https://a.test/in/{TOKEN}/v1/traces"), "https://a.test/***/v1/traces"),
        ("https://a.test:4318/v1/traces".to_owned(), "https://a.test:4318/v1/traces"),
        (format!("https://{TOKEN}!"), "https://***"),
        (format!("https://{TOKEN}:password"), "https://***"),
        (format!("{TOKEN}/v1/traces"), "***"),
        (format!("Bearer {TOKEN}"), "***"),
    ] {
        let exporter = Exporter::http(endpoint.as_str());
        let config = Config::new().exporter(exporter.clone());
        let texts = [format!("{exporter:?}"), format!("{exporter:#?}"), format!("{config:?}")];
        for text in &texts {
            assert!(!text.contains(TOKEN) && text.contains(shown), "{endpoint}: {text}");
        }
        if !shown.contains("a.test") {
            let error = Telemetry::start(config).expect_err("it is malformed");
            let text = format!("{error} {error:?}");
            assert!(!text.contains(TOKEN) && text.contains(shown), "{endpoint}: {text}");
        }
    }
}
