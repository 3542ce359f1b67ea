//! No configuration can inject a header, delay the program, or start an exporter without its requested settings.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use standpipe::config::DiagnosticSeverity;
use standpipe::{Config, ConfigError};

use crate::support::{command, figures, share_of, size_within};

const MIB: usize = 1 << 20;
/// The value of a header, and the name of a second header, which a line break in the value would inject.
const SECRET: &str = "hunter2";
const SMUGGLED: &str = "X-Evil";
const TRACER: &str = "[tracer.otel]\ntype = 'otel'\ntransport = 'http'\n";
const YAML_TRACER: &str = "tracer:\n  otel:\n    type: otel\n    transport: http\n";

/// A file in the test's own directory.
fn written(test: &str, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("hostile_config").join(test);
    fs::create_dir_all(&folder).expect("the place is writable");
    let path = folder.join(name);
    fs::write(&path, contents).expect("the place is writable");
    path
}

#[track_caller]
fn assert_refused_by_name(what: &str, error: ConfigError) {
    let said = format!("{error}\n{:?}", error.diagnostics());
    assert!(said.contains("X-Token") || said.contains("x-token"), "{what}: no name in {said}");
    assert!(said.contains("line break"), "{what}: {said}");
    assert!(!said.contains(SECRET) && !said.contains(SMUGGLED), "{what}: {said}");
    assert_eq!(error.into_usable().exporters().len(), 0, "{what}: started without its header");
}

#[test]
fn a_line_break_in_a_header_of_a_toml_file_is_refused_by_name() {
    let value = format!("{SECRET}\\r\\n{SMUGGLED}: 1");
    let lines = format!("{SECRET}\n{SMUGGLED}: 1");
    for (number, headers) in [
        format!("headers = [\"X-Token: {value}\"]"),
        format!("headers = \"X-Token: {value}\""),
        format!("headers = {{X-Token = \"{value}\"}}"),
        format!("headers.X-Token = \"{SECRET}\\u000A{SMUGGLED}: 1\""),
        format!("headers = [\"\"\"X-Token: {lines}\"\"\"]"),
        format!("headers = '''X-Token: {lines}'''"),
        format!("headers.X-Token = '''{lines}'''"),
        format!("headers.X-Token = \"\"\"\r\n{SECRET}\r\n\"\"\""),
        "headers = ['X-Token: Bearer %{file:token}%']".to_owned(),
        "headers = '''X-Token: %{file:token}%'''".to_owned(),
        "headers.X-Token = '%{file:token}%'".to_owned(),
    ]
    .into_iter()
    .enumerate()
    {
        written("toml", "token", format!("{lines}\r\n"));
        for table in [TRACER, "[metrics.open-telemetry]\ntransport = 'http'\n"] {
            let file = written("toml", &format!("{number}.toml"), format!("{table}{headers}\n"));
            assert_refused_by_name(&headers, Config::from_file(file).expect_err(&headers));
        }
    }
}

#[test]
fn a_line_break_in_a_header_of_a_yaml_file_is_refused_by_name() {
    let value = format!("{SECRET}\\r\\n{SMUGGLED}: 1");
    for (number, headers) in [
        format!("[\"X-Token: {value}\"]"),
        format!("\"X-Token: {value}\""),
        format!("{{X-Token: \"{value}\"}}"),
        format!("{{X-Token: \"{SECRET}\\x0a\"}}"),
        format!("\n      X-Token: |\n        {SECRET}\n        {SMUGGLED}: 1"),
        format!("\n      X-Token: |-\n        {SECRET}\n        {SMUGGLED}: 1"),
        format!("\n      X-Token: >-\n        {SECRET}\n\n        {SMUGGLED}: 1"),
        format!("\n      - |\n        X-Token: {SECRET}\n        {SMUGGLED}: 1"),
        format!("\n      X-Token: '{SECRET}\n\n        {SMUGGLED}: 1'"),
        "['X-Token: %{file:token}%']".to_owned(),
        "'X-Token: %{file:token}%'".to_owned(),
        "{X-Token: '%{file:token}%'}".to_owned(),
    ]
    .into_iter()
    .enumerate()
    {
        written("yaml", "token", format!("{SECRET}\r\n{SMUGGLED}: 1\n"));
        let extension = if number % 2 == 0 { "yaml" } else { "yml" };
        let text = format!("{YAML_TRACER}    headers: {headers}\n");
        let file = written("yaml", &format!("{number}.{extension}"), text);
        assert_refused_by_name(&headers, Config::from_file(file).expect_err(&headers));
    }
}

#[test]
fn a_line_break_that_a_variable_puts_into_a_header_is_refused_by_name() {
    for (name, text) in [
        ("env.toml", format!("{TRACER}headers = ['X-Token: %{{env:SHOP_TOKEN}}%']\n")),
        ("env.yaml", format!("{YAML_TRACER}    headers: {{X-Token: '%{{env:SHOP_TOKEN}}%'}}\n")),
    ] {
        let file = written("variable", name, text);
        let file = file.to_str().expect("its path is UTF-8");
        for value in [format!("{SECRET}\r\n{SMUGGLED}: 1"), format!("{SECRET}\n"), format!("\r{SECRET}")] {
            let arguments = ["check", "--offline", file];
            let output = command::finish(command::standpipe(&arguments).env("SHOP_TOKEN", value));
            let said = command::stdout(&output) + &command::stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains("value of header \"X-Token\" holds a line break"), "{said}");
            assert!(!said.contains(SECRET) && !said.contains(SMUGGLED), "{said}");
        }
    }
}

#[test]
fn a_line_break_in_a_header_of_the_environment_is_refused_by_name() {
    for name in ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"] {
        for value in [
            format!("x-token={SECRET}%0d%0a{SMUGGLED}:%201"),
            format!("x-token={SECRET}%0A{SMUGGLED}"),
            format!("a=b,x-token=%0D{SECRET}"),
            format!("x-token={SECRET}\r\n{SMUGGLED}: 1"),
            format!("x-token={SECRET}\n"),
        ] {
            let only_traces = [("OTEL_LOGS_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")];
            let variables = only_traces.into_iter().chain([(name, value.as_str())]);
            assert_refused_by_name(&value, Config::from_variables(variables).expect_err(&value));
        }
    }
}

#[test]
fn a_file_of_one_mebibyte_is_read_and_a_larger_one_refused_in_every_format() {
    for name in ["full.toml", "full.yaml", "full.yml", "full.YML", "full.conf"] {
        let is_yaml = name.to_ascii_lowercase().contains(".y");
        let sound = if is_yaml { YAML_TRACER } else { TRACER };
        let filled = |size: usize| format!("{sound}{}\n", "#".repeat(size - sound.len() - 1));
        let config = Config::from_file(written("size", name, filled(MIB))).expect(name);
        assert_eq!(config.exporters().len(), 1, "{name}");
        let error = Config::from_file(written("size", name, filled(MIB + 1))).expect_err(name);
        assert!(error.is_unreadable(), "{name}: {error}");
        assert_eq!(error.diagnostics()[0].what, "cannot read: larger than 1 MiB", "{name}");
        assert_eq!(error.into_usable().exporters().len(), 0, "{name}");
    }
    #[cfg(unix)]
    assert!(Config::from_file("/dev/zero").expect_err("endless").is_unreadable());
}

/// On Linux, returns the processor time of this thread, which other processes do not change; elsewhere, the wall time.
fn processor_time() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let spent = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = spent.and_then(|spent| spent.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// Returns hostile texts of about `size` bytes: name of the file, and content.
fn hostile_documents(size: usize) -> Vec<(&'static str, String)> {
    let fill = |part: &str| part.repeat(size / part.len());
    let each = |count: usize, line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
    // Counts that do not follow from the size are about as many values as a file of YAML may have.
    let some = |count: usize| {
        if size < MIB { size_within(count as u32 / 8..=count as u32) as usize } else { count }
    };
    let chosen =
        |name: &str| format!("server:\n  telemetry:\n    exporter: {name}\ntelemetry:\n  exporters:\n");
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..60 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    vec![
        ("lists.toml", format!("x={}", "[".repeat(size - 2))),
        ("tables.toml", format!("x={}", "{a=".repeat(size / 3 - 1))),
        ("dots.toml", format!("{}a=1", "a.".repeat(size / 2 - 3))),
        ("quotes.toml", fill("\"")),
        ("open-text.toml", format!("x=\"\"\"{}", "\\\"".repeat(size / 2 - 3))),
        (
            "tracers.toml",
            each(size / 60, &|id| format!("[tracer.{id:x}]\ntype='otel'\ntransport='http'\nendpoint=''\n")),
        ),
        (
            "remarks.toml",
            each(size / 70, &|id| {
                format!("[tracer.{id:x}]\ntype='otel'\ntransport='grpc'\nendpoint='a:4318'\n")
            }),
        ),
        ("sections.toml", each(size / 33, &|id| format!("[trace.{id:x}]\ntransport='http'\n"))),
        ("elements.toml", fill("[[tracer]]\n")),
        ("switches.toml", each(size / 28, &|id| format!("[tracer.{id:x}.enable]\nx=1\n"))),
        ("inline.toml", format!("tracer={{{}}}", each(size / 22, &|id| format!("t{id:x}={{type='otel'}},")))),
        ("exporters.toml", each(size / 40, &|id| format!("[telemetry.exporters.e{id:x}]\nsampling=1\n"))),
        (
            "nameless.toml",
            format!(
                "[server.telemetry]\nexporter='{}'\n{}",
                "x".repeat(size / 2),
                each(size / 70, &|id| format!("[telemetry.exporters.e{id:x}]\n"))
            ),
        ),
        ("files.toml", format!("{TRACER}headers=['A: {}']", "%{file:big}%".repeat(size / 12 - 10))),
        ("variables.toml", format!("{TRACER}headers=['A: {}']", "%{env:PATH}%".repeat(size / 12 - 10))),
        (
            "lost.toml",
            each(size / 5_000, &|id| {
                let keys = each(85, &|key| format!("x{key}=1\n"));
                format!("[tracer.t{id}{}]\n{keys}", "y".repeat(3_990))
            }) + "[postgres]\nx={X'}\nZ}\n",
        ),
        (
            "processors.yaml",
            format!(
                "file_format: '1.0'\ntracer_provider:\n  processors:\n{}",
                each(some(2_000), &|id| format!(
                    "    - batch: {{exporter: {{otlp_http: {{timeout: {id}}}}}}}\n"
                ))
            ),
        ),
        (
            "references.yaml",
            format!(
                "file_format: '1.0'\nresource: {{attributes_list: '{}'}}\n",
                "${PATH}".repeat(size / 7 - 10)
            ),
        ),
        ("open-references.yaml", format!("file_format: '1.0'\nx: '{}'\n", "${".repeat(size / 2 - 20))),
        (
            "attributes.yaml",
            format!(
                "file_format: '1.0'\nresource:\n  attributes:\n{}",
                each(some(4_000), &|id| format!("    - {{name: a{id}, value: {id}}}\n"))
            ),
        ),
        ("lists.yaml", fill("[")),
        ("dashes.yaml", fill("- ")),
        ("bomb.yaml", bomb),
        ("values.yaml", format!("[{}]", "1,".repeat(size / 2 - 1))),
        (
            "long-name.yaml",
            format!(
                "telemetry:\n  ? {}\n  :\n{}",
                "x".repeat(size / 2),
                each(some(9_000), &|id| format!("    k{id}: 1\n"))
            ),
        ),
        (
            "long-tracer.yaml",
            format!(
                "tracer:\n  ? {}\n  :\n    type: otel\n    transport: http\n{}",
                "x".repeat(size / 2),
                each(some(9_000), &|id| format!("    k{id}: 1\n"))
            ),
        ),
        (
            "long-mistakes.yaml",
            format!(
                "tracer:\n  ? {}\n  :\n{}",
                "x".repeat(size / 2),
                each(some(3_000), &|_| "    k: !x 1\n".to_owned())
            ),
        ),
        (
            "long-choice.yaml",
            format!("{}{}", chosen(&"x".repeat(size / 2)), each(some(6_000), &|id| format!("    E{id}:\n"))),
        ),
        (
            "long-names.yaml",
            format!(
                "{}{}",
                chosen("none"),
                each(8, &|id| format!("    ? {}{id}\n    :\n", "Ü".repeat(size / 20)))
            ),
        ),
        (
            "exporters.yaml",
            format!("{}{}", chosen("e1"), each(some(4_900), &|id| format!("    e{id}: {{sampling: 1}}\n"))),
        ),
        (
            "tracers.yaml",
            format!(
                "tracer:\n{}",
                each(some(2_400), &|id| format!("  t{id}: {{type: otel, transport: http, endpoint: ''}}\n"))
            ),
        ),
        (
            "copies.yaml",
            format!(
                "x: &x {{type: otel, transport: http, headers: ['A: %{{file:big}}%']}}\ntracer:\n{}",
                each(some(1_900), &|id| format!("  t{id}: *x\n"))
            ),
        ),
        (
            "addresses.yaml",
            format!(
                "x: &x {{type: otel, transport: http, endpoint: 'http://%{{file:big}}%', ca-file: big}}\ntracer:\n{}",
                each(some(1_900), &|id| format!("  t{id}: *x\n"))
            ),
        ),
    ]
}

#[test]
fn hostile_files_are_read_in_time_and_with_few_words() {
    // The promised time is for the largest file and optimized code. Without optimization, the test uses a smaller file
    // and a longer time.
    let size = if cfg!(debug_assertions) { share_of(MIB as u32 / 8) as usize } else { MIB };
    const MAX_TIME: Duration = Duration::from_millis(if cfg!(debug_assertions) { 1_500 } else { 100 });
    written("hostile", "big", "x".repeat(MIB));
    for (name, text) in hostile_documents(size) {
        assert!(text.len() <= MIB, "{name} has {} bytes", text.len());
        let file = written("hostile", name, &text);
        let start = processor_time();
        let outcome = Config::from_file(file);
        let took = processor_time() - start;
        let (diagnostics, failed) = match &outcome {
            Ok(config) => (config.diagnostics(), false),
            Err(error) => (error.diagnostics(), true),
        };
        println!(
            "{name:>20} {:>8} bytes {:>9.1?} failed: {failed}, {} diagnostics",
            text.len(),
            took,
            diagnostics.len()
        );
        assert!((1..=1_000).contains(&diagnostics.len()), "{name}: {} diagnostics", diagnostics.len());
        figures::show_most(
            took.as_millis(),
            format!("ms for {} KiB, unoptimised: {}", size / 1024, cfg!(debug_assertions)),
        );
        assert!(took < MAX_TIME, "{name}: {took:?}");
    }
}

#[test]
fn thousands_of_words_in_a_variable_are_read_in_time() {
    // At most the size of the longest variable that Linux passes to a program.
    let length = size_within(16 << 10..=128 << 10);
    let words: String = (0..length / 6).map(|number| format!("{number:x},")).collect();
    let pairs: String = (0..length / 8).map(|number| format!("{number:x}=1,")).collect();
    for (name, value) in [
        ("OTEL_PROPAGATORS", &words),
        ("OTEL_TRACES_EXPORTER", &words),
        ("OTEL_RESOURCE_ATTRIBUTES", &pairs),
        ("OTEL_EXPORTER_OTLP_HEADERS", &pairs),
    ] {
        let start = processor_time();
        let outcome = Config::from_variables([(name, value)]);
        let took = processor_time() - start;
        let diagnostics =
            outcome.map_or_else(|error| error.diagnostics().len(), |config| config.diagnostics().len());
        println!("{name}: {took:?}, {diagnostics} diagnostics");
        assert!((1..=250).contains(&diagnostics), "{name}: {diagnostics} diagnostics");
        assert!(took < Duration::from_secs(2), "{name}: {took:?}");
    }
}

#[test]
fn what_a_configuration_brings_in_is_bounded() {
    written("brought", "big", "x".repeat(MIB));
    let reference = "%{file:big}%".repeat(17);
    for (name, text, place) in [
        ("one.toml", format!("{TRACER}user-agent = '{reference}'\n"), "tracer.otel.user-agent"),
        ("one.yaml", format!("{YAML_TRACER}    headers: ['A: {reference}']\n"), "tracer.otel.headers"),
    ] {
        let error = Config::from_file(written("brought", name, text)).expect_err(name).to_string();
        let why = "cannot read file \"big\": all files and variables together are larger than 16 MiB";
        assert!(error.contains(&format!("{place}: {why}")), "{error}");
    }
    let fits = format!("{TRACER}ca-file = 'big'\n");
    let error = Config::from_file(written("brought", "fits.toml", fits)).expect_err("not PEM").to_string();
    assert!(error.contains("holds no PEM block"), "{error}");
}

#[test]
fn more_exporters_than_anybody_needs_are_not_started() {
    let tracer = |id: usize| TRACER.replace("otel]", &format!("t{id}]"));
    let many: String = (0..256).map(tracer).collect();
    assert_eq!(Config::from_toml_str(&many).expect("as many as there may be").exporters().len(), 256);
    let error = Config::from_toml_str(&(many + &tracer(256) + &tracer(257))).expect_err("too many");
    assert_eq!(
        error.to_string(),
        "<toml>:769:9: tracer.t256: more than 256 exporters: the other tracers are ignored; remove some"
    );
    assert_eq!(error.into_usable().exporters().len(), 256);
}

/// An alias of a broken value repeats only its valid part, so an exporter that uses the alias must not start.
#[test]
fn a_mistake_in_a_value_that_aliases_repeat_starts_nobody() {
    for broken in [
        "&x {type: otel, transport: http, headers: !secret abc}",
        "&x {type: otel, transport: http, headers: ['A: 1'], headers: ['B: 2']}",
        "&x {type: otel, transport: http, headers: [*nothing]}",
        "&x {type: otel, transport: http, ? [headers] : ['A: 1']}",
        "&x {type: otel, transport: http, <<: headers}",
    ] {
        let text = format!("postgres: {broken}\ntracer: {{a: *x}}\n");
        let error = Config::from_yaml_str(&text).expect_err(&text);
        assert!(
            error.diagnostics().iter().any(|diagnostic| diagnostic.severity == DiagnosticSeverity::Error),
            "{error}"
        );
        assert_eq!(error.into_usable().exporters().len(), 0, "{text}");
    }
    let text = "postgres: &x !secret abc\ntracer: {a: {type: otel, transport: http, headers: *x}}\n";
    let error = Config::from_yaml_str(text).expect_err("headers that cannot be read");
    assert_eq!(error.into_usable().exporters().len(), 0);
    let nobodys = "postgres: {a: !secret abc, b: 1, b: 2}\ntracer: {a: {type: otel, transport: http}}\n";
    let config = Config::from_yaml_str(nobodys).expect("what nobody here reads");
    assert_eq!(config.exporters().len(), 1);
}

#[test]
fn what_swallows_the_rest_of_a_file_starts_nobody() {
    let (deep, dotted) = ("[".repeat(40), "a.".repeat(40));
    for swallowing in [
        "[postgres]\nx = [".to_owned(),
        "[postgres]\nx = 1 '''".to_owned(),
        "[postgres]\nx = \"a\"\"\"\"".to_owned(),
        "[postgres]\nx = [1 ''' ]".to_owned(),
        "[postgres]\nx = {a = 1 ''' }".to_owned(),
        "[postgres x\ny = [".to_owned(),
        "[postgres x\ny = '''".to_owned(),
        format!("[postgres]\nx = {deep}"),
        format!("[postgres x\ny = {deep}"),
        format!("[postgres]\n{dotted}b = '''"),
        format!("[postgres]\n{dotted}b = {{"),
    ] {
        let text = format!("{TRACER}{swallowing}\n[tracer.otel.headers]\nAuthorization = '{SECRET}'\n");
        let error = Config::from_toml_str(&text).expect_err(&text);
        assert_eq!(error.into_usable().exporters().len(), 0, "started without its headers: {text}");
    }
}

#[test]
fn a_stray_carriage_return_costs_no_line_but_its_own() {
    for stray in [
        "[postgres]\r\"",
        "[postgres]\r '''",
        "[postgres]\nx = 1\r\"",
        "[postgres]\nx = \"a\rb\"",
        "[postgres]\n# a\r\"",
    ] {
        let text = format!("{TRACER}{stray}\n[tracer.otel.headers]\nAuthorization = '{SECRET}'\n");
        let config = Config::from_toml_str(&text).expect("a mistake in a section of others");
        assert_eq!(config.summaries()[0].headers, ["authorization"], "{text:?}");
        let [diagnostic] = config.diagnostics() else { panic!("{text:?}: {:?}", config.diagnostics()) };
        assert!(
            diagnostic
                .to_string()
                .ends_with("the line end is a lone carriage return; end lines with LF or CRLF"),
            "{text:?}: {diagnostic}"
        );
    }
}

/// After a mistake, the parser skips text. If the skipped text has headers of an exporter, the exporter must not start.
#[test]
fn what_is_lost_behind_a_mistake_of_others_is_told_and_not_done_without() {
    let text = format!(
        "{TRACER}[r]\np={{X'}}\nZ}}\n[tracer.otel.headers]\nAuthorization = '{SECRET}'\n{}",
        TRACER.replace("otel]", "b]")
    );
    let usable = Config::from_toml_str(&text).unwrap_or_else(ConfigError::into_usable);
    let kept = usable.summaries().into_iter().find(|summary| summary.id == "otel");
    assert!(kept.is_none_or(|kept| kept.headers == ["authorization"]), "started without its headers");
}

#[test]
fn what_is_put_into_a_name_or_an_address_is_not_shown() {
    written("shown", "token", SECRET);
    let text = "server: {telemetry: {exporter: c, applicationExporter: c}}\ntelemetry:\n  exporters:\n    c:\n      \
                serviceName: shop %{file:token}%\n      exporter:\n        type: collector\n        collector:\n          \
                endpoint: https://%{file:token}%/path\n";
    let config = Config::from_file(written("shown", "routes.yaml", text)).expect("only warnings");
    let said = format!("{config:?} {:?} {:?}", config.effective(), config.summaries());
    assert!(!said.contains(SECRET), "{said}");
    assert_eq!(config.summaries()[0].service_name, "shop %{file:token}%");
    let told: Vec<&str> = config.diagnostics().iter().map(|diagnostic| diagnostic.fix.as_str()).collect();
    assert!(told.contains(&"remove it"), "{told:?}");
}

/// Creates a named pipe with the system's `mkfifo`.
#[cfg(unix)]
fn pipe(path: &std::path::Path) {
    _ = fs::remove_file(path);
    let made = std::process::Command::new("mkfifo").arg(path).status().expect("every unix has it");
    assert!(made.success());
}

#[cfg(unix)]
#[test]
fn a_pipe_that_nobody_writes_to_does_not_hold_up_the_start() {
    let text = format!("{TRACER}headers = ['A: %{{file:pipe}}%']\nca-file = 'pipe'\n");
    let file = written("pipe", "telemetry.toml", text);
    pipe(&file.with_file_name("pipe"));
    let error = Config::from_file(&file).expect_err("a pipe").to_string();
    assert_eq!(error.matches("cannot read file \"pipe\": is not a regular file").count(), 2, "{error}");

    let itself = file.with_file_name("pipe.toml");
    pipe(&itself);
    let error = Config::from_file(&itself).expect_err("a pipe");
    assert_eq!(error.diagnostics()[0].what, "cannot read: is not a regular file");

    let certificate = file.with_file_name("pipe").display().to_string();
    let error =
        Config::from_variables([("OTEL_EXPORTER_OTLP_CERTIFICATE", certificate)]).expect_err("a pipe");
    assert!(error.to_string().contains("is not a regular file"), "{error}");
}

#[cfg(unix)]
#[test]
fn what_a_shell_hands_over_is_read() {
    let file = written("shell", "telemetry.toml", TRACER);
    let script = "\"$1\" check --offline <(cat \"$2\") && \"$1\" check --offline /dev/stdin < \"$2\" && \
                  cat \"$2\" | \"$1\" check --offline /dev/stdin";
    let arguments = ["-c", script, "bash", env!("CARGO_BIN_EXE_standpipe")];
    let output = std::process::Command::new("bash").args(arguments).arg(&file).output().expect("bash runs");
    let said = command::stdout(&output) + &command::stderr(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("1 usable exporter").count(), 3, "{said}");
}
