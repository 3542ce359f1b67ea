//! `standpipe init`: the written files are valid, and their comments show the real defaults.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Output;

use standpipe::Config;
use standpipe::config::Setting;

use crate::support::command::{finish, standpipe, stderr, stdout};
use crate::support::scratch::Scratch;
use crate::support::tls::TestCa;

/// Flavors and their default files.
const FLAVORS: [(&str, &str); 4] = [
    ("stalwart", "telemetry.toml"),
    ("tracetest", "tracetest.yaml"),
    ("qualitytrace", "qualitytrace.yaml"),
    ("env", "telemetry.env"),
];

#[test]
fn every_flavor_is_written_to_a_file_of_its_own_and_says_what_to_do_next() {
    let place = Place::new();
    for (flavor, file) in FLAVORS {
        let output = place.run(&["init", flavor]);
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(text.contains(file) && text.contains("standpipe check "), "{text}");
        assert!(text.contains("Telemetry::start(config)?;"), "{text}");
        assert_eq!(place.read(file), stdout(&place.run(&["init", flavor, "--stdout"])));
    }
    assert_eq!(place.read("telemetry.toml"), stdout(&place.run(&["init", "-"])));
}

#[test]
fn the_file_selects_the_flavor() {
    let place = Place::new();
    for (file, flavor) in [("a.toml", "stalwart"), ("a.yml", "tracetest"), ("a.env", "env")] {
        assert_eq!(place.run(&["init", file]).status.code(), Some(0));
        assert_eq!(place.read(file), stdout(&place.run(&["init", flavor, "-"])));
    }
}

#[test]
fn nothing_is_ever_overwritten() {
    let place = Place::new();
    fs::write(place.path().join("telemetry.toml"), "mine").expect("the place is writable");
    let output = place.run(&["init"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!((place.read("telemetry.toml").as_str(), stdout(&output).as_str()), ("mine", ""));
    assert!(stderr(&output).contains("\"telemetry.toml\" already exists"), "{}", stderr(&output));

    let output = place.run(&["init", "nowhere/telemetry.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no such directory"), "{}", stderr(&output));
}

#[cfg(unix)]
#[test]
fn nothing_is_written_through_a_link_to_nowhere() {
    let place = Place::new();
    let link = place.path().join("telemetry.toml");
    std::os::unix::fs::symlink(place.path().join("elsewhere.toml"), &link).expect("the place is writable");
    let output = place.run(&["init"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(!place.path().join("elsewhere.toml").exists());
}

#[test]
fn the_toml_starter_is_fine_as_it_is() {
    let place = Place::new();
    place.run(&["init"]);
    let config = Config::from_file(place.path().join("telemetry.toml")).expect("it has no error");
    assert_eq!(config.diagnostics(), []);
    let names: Vec<&str> = config.exporters().iter().map(standpipe::Exporter::name).collect();
    assert_eq!(names, ["otel", "metrics.open-telemetry"]);
    let output = place.run(&["check", "--offline", "telemetry.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stdout(&output).ends_with(" telemetry.toml: 2 usable exporters\n"), "{}", stdout(&output));
}

#[test]
fn every_default_of_the_toml_starter_is_true() {
    let place = Place::new();
    let starter = stdout(&place.run(&["init", "--stdout"]));
    let as_it_is = Config::from_toml_str(&starter).expect("it has no error");
    let (all, defaults) = uncommented(&starter, DEFAULT, " = ");
    let with_defaults = Config::from_toml_str(&all).expect(&all);
    assert_eq!(with_defaults.diagnostics(), [], "{all}");
    assert!(defaults > 25, "{defaults}");
    for (plain, set) in as_it_is.exporters().iter().zip(with_defaults.exporters()) {
        assert_eq!(values(&plain.effective()), values(&set.effective()), "{all}");
    }
}

#[test]
fn every_example_of_the_toml_starter_works() {
    let place = Place::new();
    place.add_certificates();
    let starter = stdout(&place.run(&["init", "--stdout"]));
    let (all, examples) = uncommented(&starter, EXAMPLE, " = ");
    assert!(examples > 10, "{examples}");
    // The settings for certificates need https, so the endpoint is changed below. The settings of the file transport
    // are left out. On systems other than Linux, the settings of the spool are left out, too.
    let is_usable =
        |line: &&str| !line.starts_with("file") && (cfg!(target_os = "linux") || !line.starts_with("spool"));
    let usable: String = all.lines().filter(is_usable).flat_map(|line| [line, "\n"]).collect();
    fs::write(place.path().join("all.toml"), usable.replace("http://localhost", "https://localhost"))
        .expect("the place is writable");
    let mut command = standpipe(&["check", "--offline", "all.toml"]);
    let output = finish(command.current_dir(place.path()).env("COLLECTOR_TOKEN", "hunter2"));
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.ends_with(" all.toml: 2 usable exporters\n"), "{text}");
}

#[test]
fn the_toml_starter_explains_every_key() {
    let place = Place::new();
    let starter = stdout(&place.run(&["init", "--stdout"]));
    let config = Config::from_toml_str(&starter).expect("it has no error");
    let (tracer, metrics) = starter.split_once("\n[metrics").expect("there are metrics");
    for (exporter, table) in config.exporters().iter().zip([tracer, metrics]) {
        // Files have no key for signals: the kind of table decides which signals are sent.
        for setting in exporter.effective().into_iter().filter(|setting| setting.key != "signals") {
            let line = format!("{} = ", setting.key);
            let is_explained =
                table.lines().any(|written| written.trim_start_matches(['#', ' ']).starts_with(&line));
            assert!(is_explained, "{} is not in {table}", setting.key);
        }
    }
}

#[test]
fn the_variables_of_the_env_starter_are_true() {
    let place = Place::new();
    let starter = stdout(&place.run(&["init", "env", "--stdout"]));
    let as_it_is = Config::from_variables(variables(&starter)).expect("it has no error");
    let (all, defaults) = uncommented(&starter, DEFAULT, "=");
    let with_defaults = Config::from_variables(variables(&all)).expect(&all);
    assert!(defaults > 5, "{defaults}");
    assert_eq!((as_it_is.diagnostics(), with_defaults.diagnostics()), (&[][..], &[][..]));
    for (plain, set) in as_it_is.exporters().iter().zip(with_defaults.exporters()) {
        assert_eq!(values(&plain.effective()), values(&set.effective()), "{all}");
    }
    for (name, value) in variables(&uncommented(&all, EXAMPLE, "=").0) {
        assert!(name.starts_with("OTEL_") && !value.contains([' ', '"', '\'']), "{name}={value}");
    }
}

#[test]
fn the_examples_of_the_env_starter_work() {
    let place = Place::new();
    place.add_certificates();
    let starter = stdout(&place.run(&["init", "env", "--stdout"]));
    let (all, examples) = uncommented(&starter, EXAMPLE, "=");
    assert!(examples > 5, "{examples}");
    let all = all.replace("http://localhost", "https://localhost");
    let mut command = standpipe(&["check", "--env", "--offline"]);
    let output = finish(command.current_dir(place.path()).envs(variables(&all)));
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(!text.contains("warning: "), "{text}");
}

#[cfg(unix)]
#[test]
fn a_shell_reads_the_env_starter() {
    let place = Place::new();
    place.run(&["init", "env"]);
    let mut shell = std::process::Command::new("sh");
    let script = "set -eu; . ./telemetry.env; echo \"$OTEL_SERVICE_NAME $OTEL_EXPORTER_OTLP_ENDPOINT\"";
    let output = finish(shell.args(["-c", script]).current_dir(place.path()));
    assert_eq!(stdout(&output), "shop http://localhost:4318\n", "{}", stderr(&output));
}

#[test]
fn the_yaml_starters_describe_both_routes() {
    let place = Place::new();
    for flavor in ["tracetest", "qualitytrace"] {
        let starter = stdout(&place.run(&["init", flavor, "--stdout"]));
        let (all, defaults) = uncommented(&starter, DEFAULT, ": ");
        assert!(defaults > 0, "{starter}");
        let [plain, set] = [("plain.yaml", &starter), ("all.yaml", &all)].map(|(file, text)| {
            let file = place.path().join(file);
            fs::write(&file, text).expect("the place is writable");
            Config::from_file(file).expect("it has no error")
        });
        for config in [&plain, &set] {
            assert!(config.diagnostics().is_empty(), "{:?}", config.diagnostics());
        }
        let summaries = plain.summaries();
        let reported: Vec<_> = summaries
            .iter()
            .map(|summary| (summary.id.as_str(), summary.route, summary.service_name.as_str()))
            .collect();
        let expected = [("collector", Some("internal"), flavor), ("collector", Some("application"), flavor)];
        assert_eq!(reported, expected);
        assert_eq!(summaries, set.summaries());
    }
}

/// Returns the recipes in `src/cli/init/recipes.toml`: name, title, pitfalls as one text, and tables.
fn recipes() -> Vec<(&'static str, &'static str, String, &'static str)> {
    let recipes = include_str!("../../src/cli/init/recipes.toml").split("#: ").skip(1).map(|recipe| {
        let (head, text) = recipe.split_once('\n').expect("a head");
        let (name, title) = head.split_once(" = ").expect(head);
        let (pitfalls, tables) = text.split_once("\n\n").expect(name);
        let pitfalls: Vec<&str> = pitfalls.lines().map(|line| line.strip_prefix("# ").expect(line)).collect();
        (name, title, pitfalls.join(" "), tables)
    });
    recipes.collect()
}

#[test]
fn writes_a_file_for_each_backend_that_passes_the_check() {
    let place = Place::new();
    for (name, _, _, tables) in recipes() {
        let file = format!("{name}.toml");
        let output = place.run(&["init", "--for", name, &file]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains(&format!("standpipe check {file}")), "{}", stdout(&output));
        assert!(place.read(&file).contains(tables.trim_end()), "{}", place.read(&file));
        let variables = tables.split("%{env:").skip(1).filter_map(|rest| rest.split_once("}%"));
        let mut command = standpipe(&["check", "--offline", &file]);
        let command = command.current_dir(place.path());
        let output = finish(command.envs(variables.clone().map(|(variable, _)| (variable, "hunter2"))));
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        let (tracers, metrics) = (tables.matches("[tracer.").count(), tables.matches("[metrics.").count());
        let exporters = tracers + metrics;
        let plural = if exporters == 1 { "" } else { "s" };
        assert!(text.ends_with(&format!(" {file}: {exporters} usable exporter{plural}\n")), "{text}");
        assert!(!text.contains("warning: ") && !text.contains("hunter2"), "{text}");
        if variables.clone().next().is_some() {
            let output = finish(standpipe(&["check", "--offline", &file]).current_dir(place.path()));
            assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
        }
    }
}

#[test]
fn requests_to_backends_with_a_limit_stay_below_it() {
    for (name, limit) in [("newrelic", 1_000_000), ("datadog", 3_200_000)] {
        let (.., tables) = *recipes().iter().find(|recipe| recipe.0 == name).expect(name);
        let tables = tables.replace("%{env:", "").replace("}%", "");
        for exporter in Config::from_toml_str(&tables).expect(name).exporters() {
            let settings = exporter.effective();
            let bytes = settings.iter().find(|setting| setting.key == "batch-bytes").expect("a setting");
            let (number, unit) = bytes.value.split_once(' ').expect("a number and a unit");
            let unit = if unit == "MiB" { 1 << 20 } else { 1 << 10 };
            assert!(number.parse::<u64>().expect("a number") * unit < limit, "{name}: {}", bytes.value);
        }
    }
}

#[test]
fn the_guide_describes_each_backend() {
    let rows = recipes().into_iter().map(|(name, title, pitfalls, tables)| {
        let values = |key: &str| -> Vec<&str> {
            let lines = tables.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
            lines.map(|value| value.trim_matches(['[', ']', '"'])).collect()
        };
        let headers = values("headers").into_iter().flat_map(|list| list.split("\", \"")).collect();
        let limits = ["batch-bytes", "temporality"]
            .map(|key| values(key).first().map(|value| format!("{key} = {value}")));
        format!(
            "| `{name}` | {title} | {} | {} | {} | {} | {pitfalls} |\n",
            listed(values("transport")),
            listed(values("endpoint")),
            listed(headers),
            listed(limits.iter().flatten().map(String::as_str).collect()),
        )
    });
    let rows: String = rows.collect();
    let guide = include_str!("../../src/guide/backends.md");
    assert!(guide.contains(&rows), "write these rows into src/guide/backends.md:\n{rows}");
}

/// Returns the distinct words as a list, each in backticks.
fn listed(mut words: Vec<&str>) -> String {
    let mut seen = HashSet::new();
    words.retain(|word| seen.insert(*word));
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

#[test]
fn refuses_a_backend_that_it_does_not_know_and_a_file_that_is_not_toml() {
    let place = Place::new();
    let output = place.run(&["init", "--for", "honeycom"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("honeycomb"), "{}", stderr(&output));
    for arguments in [["init", "--for", "loki", "a.yaml"], ["init", "--for", "loki", "env"]] {
        let output = place.run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("init --for writes TOML"), "{}", stderr(&output));
    }
    assert_eq!(fs::read_dir(place.path()).expect("a directory").count(), 0);
}

/// Prefixes of lines that show a default, and of lines that show an example.
const DEFAULT: &str = "# ";
const EXAMPLE: &str = "#   ";

/// Removes the comment prefix of lines of one kind. Returns the text and the number of these lines.
fn uncommented(text: &str, mark: &str, separator: &str) -> (String, usize) {
    let mut count = 0;
    let line = |line: &str| {
        let indent = &line[..line.len() - line.trim_start().len()];
        let entry = line.trim_start().strip_prefix(mark).filter(|entry| is_entry(entry, separator));
        count += usize::from(entry.is_some());
        entry.map_or_else(|| format!("{line}\n"), |entry| format!("{indent}{entry}\n"))
    };
    (text.lines().map(line).collect(), count)
}

fn is_entry(text: &str, separator: &str) -> bool {
    let is_of_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.split_once(separator).is_some_and(|(key, _)| !key.is_empty() && key.chars().all(is_of_key))
}

fn variables(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn values(settings: &[Setting]) -> Vec<(&str, &str)> {
    settings.iter().map(|setting| (setting.key, setting.value.as_str())).collect()
}

/// Temporary directory of one test.
struct Place(Scratch);

impl Place {
    fn new() -> Self {
        Self(Scratch::new())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        finish(standpipe(arguments).current_dir(self.path()))
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path().join(file)).expect(file)
    }

    /// Creates the files that the examples refer to.
    fn add_certificates(&self) {
        let ca = TestCa::new();
        let client = ca.client("shop");
        for (file, pem) in [
            ("ca.pem", ca.pem()),
            ("company.pem", ca.pem()),
            ("client.pem", client.certificate_pem),
            ("client.key", client.key_pem),
        ] {
            self.0.write(file, pem);
        }
    }
}
