//! The layering: which module may import which other module, and which crate from outside. The tests below hold the
//! source to this table. Test modules are exempt.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::{fmt, fs};

use source::{NamedPath, Source};

#[path = "architecture/source.rs"]
mod source;

/// Read it from the top: a module imports only modules above it, and itself.
///
/// A module is `src/name.rs` or the folder `src/name/`. A row with a star is for all files whose paths begin with its
/// name. If several rows match a file, the row with the longest name applies. `module::Item` allows that one item.
#[rustfmt::skip]
const LAYERS: &[Row] = &[
    // forks, per-process state, the start of threads, atomics that some machines lack
    row("process",         &[],                                               &["portable_atomic"]),
    // helpers of unit tests
    row("tests",           &[],                                               &[]),
    // escaping of untrusted text
    row("escape",          &[],                                               &[]),
    // the OTLP wire format
    row("record",          &["process"],                                      &[]),
    // this thread's current span, suppressed instrumentation, the clock, propagation (W3C, B3)
    row("context",         &["record"],                                       &[]),
    row("context/ticks*",   &["process", "context"],                                  &[]),
    row("context/suppression*", &["process", "context"],                                  &["opentelemetry"]),
    // problems, as the program's hook receives them
    row("problem",         &["escape", "record"],                             &[]),
    // settings: plain data and its readers
    row("config",          &["escape", "record", "context::Propagator", "context::Propagators", "problem"],                  &["serde", "toml_parser"]),
    row("config/yaml*", &["config"],                                               &["granit_parser"]),
    // instruments, and their series until the worker collects them
    row("metrics",         &["process", "record", "context", "config", "problem"], &[]),
    // pure: aggregates many measurements into one data point
    row("metrics/aggregation*", &["record"],                                  &[]),
    // pure: HTTP/2 without a socket, for the gRPC client and the receiver
    row("http2",           &[],                                               &[]),
    // one attempt, which returns one verdict
    row("transport",       &["process", "record", "config"],                  &[]),
    row("transport/file*", &["config", "transport"],                                          &["libc"]),
    row("transport/json*", &["escape", "record", "transport"],                                &[]),
    row("transport/gzip*", &["config", "transport"],                                          &["flate2"]),
    row("transport/tls*", &["config", "process", "transport"],                            &["rustls", "rustls_native_certs", "webpki_roots"]),
    row("transport/proxy*", &["config", "transport"],                                      &["ureq"]),
    row("transport/http*", &["process", "record", "config", "transport"],                  &["ureq"]),
    row("transport/grpc*", &["process", "record", "context::decode_percent", "config", "http2", "transport"], &[]),
    // records that survive the process
    row("spool",           &["process", "escape", "record", "problem", "config"], &[]),
    // the format of a segment, and the scan over it
    row("spool/segment*", &["record", "spool::crc32c", "spool::storage"],        &[]),
    row("spool/storage*", &["process", "record", "spool"],                    &["libc"]),
    row("spool/directory*", &["process", "record", "spool"],                  &["libc"]),
    row("spool/recorder*", &["process", "record", "spool"],                              &["libc"]),
    // one exporter from queue to verdict, and the fan-out over exporters
    row("pipeline",        &["process", "escape", "record", "context", "problem", "config", "metrics", "transport", "spool"], &["crossbeam_channel", "serde"]),
    // pure: what to send, when, and what follows from a verdict
    row("pipeline/batch*", &["record", "config", "pipeline::ledger::Outcome"], &[]),
    row("pipeline/schedule*", &["record", "config"],                          &[]),
    row("pipeline/retry*", &["config", "transport::Verdict"],                 &[]),
    // the whole pipeline in a test, with simulated time
    row("pipeline/simulation*", &["process", "record", "context", "config", "metrics", "transport", "spool", "pipeline", "tests"], &["crossbeam_channel"]),
    // spans and log records, at the call site
    row("trace",           &["process", "record", "context", "config", "pipeline"], &[]),
    row("logs",            &["process", "record", "context", "pipeline"],     &[]),
    // start, flush, shutdown; providers
    row("telemetry",       &["process", "record", "context", "problem", "config", "metrics", "transport", "pipeline", "trace", "logs"], &[]),
    row("telemetry/scope_cache*", &["process"],                               &[]),
    // bridges from other crates, each with the crates that it bridges
    row("bridge",          &[],                                               &[]),
    row("bridge/tracing*", &["process", "record", "context", "trace", "logs", "telemetry::provider", "telemetry::scope_cache", "bridge"], &["tracing", "tracing_subscriber"]),
    row("bridge/log*", &["process", "record", "context", "logs", "telemetry::provider", "telemetry::scope_cache", "bridge"], &["log"]),
    row("bridge/metrics*", &["process", "record", "metrics", "telemetry::provider", "telemetry::scope_cache", "bridge"], &["metrics"]),
    row("bridge/opentelemetry*", &["process", "record", "context", "config", "pipeline", "telemetry::provider", "telemetry::scope_cache", "bridge"], &["opentelemetry", "opentelemetry_sdk"]),
    // the C ABI
    row("ffi",             &["process", "record", "context", "problem", "config", "metrics", "pipeline", "trace", "logs", "telemetry"], &[]),
    // checks, stage by stage, whether a collector can be reached
    row("probe",           &["process", "escape", "record", "config", "transport"],     &[]),
    // the embedded OTLP server
    row("receiver",        &["process", "escape", "record", "metrics::Attributes", "http2", "transport::base64", "transport::is_media_type", "transport::status_name"], &["flate2", "parking_lot"]),
    row("receiver/json*", &["record", "transport::base64", "transport::write_json", "receiver"],          &["serde", "serde_json"]),
    // telemetry that sends to its own receiver
    row("receiver/fixture*", &["record", "config", "pipeline", "telemetry", "receiver"], &[]),
    // the manual: Markdown in rustdoc, no code
    row("guide",           &[],                                               &[]),
    // the command: the library is an outside crate to it
    row("cli",             &[],                                               &["standpipe", "clap", "clap_complete", "clap_mangen", "serde", "serde_json", "unicode_width"]),
    row("cli/live*",       &["cli"],                                          &["crossterm", "libc"]),
    row("cli/terminal*",   &["cli"],                                          &["crossterm", "terminal_size"]),
    row("cli/interrupt*",  &[],                                               &["libc"]),
    row("cli/exec/process*", &["cli"],                                        &["libc"]),
    row("main",            &["cli"],                                          &["standpipe"]),
];

/// Entries that may exist next to `src`, besides dotfiles.
const TOP_LEVEL: [&str; 10] = [
    "Cargo.toml",
    "Cargo.lock",
    "src",
    "proto",
    "tests",
    "benches",
    "README.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
];

const MAX_FILE_LINES: usize = 500;
/// Maximum width of a comment, which rustfmt does not check.
const MAX_COMMENT_COLUMNS: usize = 120;

#[test]
fn every_module_imports_only_what_the_table_allows() {
    let layering = Layering::of_this_crate();
    assert!(!FILES.is_empty(), "no source file was found");
    let violations: Vec<_> = FILES.iter().flat_map(|file| layering.violations(file)).collect();
    assert!(violations.is_empty(), "\n{}", lines(&violations));
}

#[test]
fn the_table_only_looks_up() {
    for (index, row) in LAYERS.iter().enumerate() {
        for import in row.imports {
            let module = import.split("::").next().unwrap_or_default();
            let above = LAYERS[..index].iter().any(|earlier| earlier.name == module);
            assert!(above, "{row}: {module} has no row above it");
        }
    }
}

#[test]
fn no_file_is_longer_than_it_should_be() {
    let long: Vec<_> = FILES
        .iter()
        // The tests of a module are one file, however long.
        .filter(|file| !is_test(&file.path))
        .map(|file| (&file.path, file.source.length))
        .filter(|(_, length)| *length > MAX_FILE_LINES)
        .map(|(path, length)| {
            format!("src/{path}: {length} lines without tests, {MAX_FILE_LINES} are the limit")
        })
        .collect();
    assert!(long.is_empty(), "\n{}", lines(&long));
}

#[test]
fn no_comment_is_wider_than_it_should_be() {
    // The row of a table cannot be divided.
    let is_comment = |line: &str| {
        let text = line.trim_start();
        text.starts_with("//") && !text.trim_start_matches(['/', '!', ' ']).starts_with('|')
    };
    let mut wide = Vec::new();
    for SourceFile { path, text, .. } in FILES.iter() {
        let comments = (1..).zip(text.lines()).filter(|(_, line)| is_comment(line));
        let of_file = comments.filter(|(_, line)| line.chars().count() > MAX_COMMENT_COLUMNS);
        wide.extend(of_file.map(|(number, _)| format!("src/{path}:{number}")));
    }
    assert!(wide.is_empty(), "comments of more than {MAX_COMMENT_COLUMNS} columns:\n{}", lines(&wide));
}

#[test]
fn every_thread_is_started_in_one_place() {
    // The command's threads are exempt: its process runs no code of others, so no foreign signal handler runs on them.
    let may = |file: &str| file == "process/spawn.rs" || file.starts_with("cli/") || is_test(file);
    let found = named_elsewhere(&FILES, may, starts_a_thread);
    assert!(found.is_empty(), "use crate::process::spawn:\n{}", lines(&found));
}

/// Some machines have no 64-bit atomics; the tests run there, too.
#[test]
fn atomics_of_64_bits_come_from_one_place() {
    let found = named_elsewhere(&FILES, |file| file == "process.rs", is_std_atomic_64);
    assert!(found.is_empty(), "use crate::process::atomic:\n{}", lines(&found));
}

#[test]
fn the_crate_root_has_no_logic() {
    let text = fs::read_to_string(root().join("src/lib.rs")).expect("the crate has a lib.rs");
    let logic = Source::read(&text).first_logic();
    assert_eq!(logic, None, "src/lib.rs:{}: neither mod nor use", logic.unwrap_or_default());
}

#[test]
fn the_top_level_holds_only_what_it_may() {
    let strange: Vec<_> = top_level()
        .into_iter()
        .filter(|name| !name.starts_with('.') && !TOP_LEVEL.contains(&name.as_str()))
        .collect();
    assert!(
        strange.is_empty(),
        "at the top level, where only {TOP_LEVEL:?} and dotfiles may be: {strange:?}"
    );
}

fn starts_a_thread(path: &[&str]) -> bool {
    path.windows(2).any(|pair| matches!(pair, ["thread", "spawn" | "Builder"]))
}

fn is_std_atomic_64(path: &[&str]) -> bool {
    let is_named = path.windows(2).any(|pair| matches!(pair, ["atomic", "AtomicI64" | "AtomicU64"]));
    is_named && !path.contains(&"process")
}

/// Returns file and line of each path for which `is_such` is true, in files for which `may` is false.
fn named_elsewhere(
    files: &[SourceFile<'_>],
    may: impl Fn(&str) -> bool,
    is_such: impl Fn(&[&str]) -> bool,
) -> Vec<String> {
    let places = |SourceFile { path: file, source, .. }: &SourceFile<'_>| {
        let paths = source.paths().into_iter().filter(|path| is_such(&path.segments));
        paths.map(|path| format!("src/{file}:{}", path.line)).collect::<Vec<_>>()
    };
    files.iter().filter(|file| !may(&file.path)).flat_map(places).collect()
}

#[derive(Debug)]
struct Row {
    name: &'static str,
    imports: &'static [&'static str],
    outside: &'static [&'static str],
}

const fn row(name: &'static str, imports: &'static [&'static str], outside: &'static [&'static str]) -> Row {
    Row { name, imports, outside }
}

impl Row {
    fn holds(&self, file: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(start) => file.starts_with(start),
            None => file.strip_prefix(self.name).is_some_and(|rest| rest == ".rs" || rest.starts_with('/')),
        }
    }

    fn allows(&self, import: &Import) -> bool {
        match import {
            Import::Outside(name) => self.outside.contains(&name.as_str()),
            Import::Inside(path) => {
                let own = self.name.trim_end_matches('*').replace('/', "::");
                starts_with(path, &own) || self.imports.iter().any(|allowed| starts_with(path, allowed))
            }
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_none = |names: &[&str]| if names.is_empty() { "–".to_owned() } else { names.join(", ") };
        write!(f, "| {} | {} | {} |", self.name, or_none(self.imports), or_none(self.outside))
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Import {
    /// A path from the root of the crate; empty for the root itself.
    Inside(Vec<String>),
    /// A crate of `Cargo.toml`, or this crate's library.
    Outside(String),
}

struct Layering {
    /// Re-exports of `lib.rs`: the name at the root and its path.
    exports: Vec<(String, Vec<String>)>,
    crates: Vec<String>,
}

impl Layering {
    fn of_this_crate() -> Self {
        let read = |name: &str| fs::read_to_string(root().join(name)).expect("a crate has it");
        Self::new(&read("src/lib.rs"), &read("Cargo.toml"))
    }

    fn new(lib: &str, manifest: &str) -> Self {
        let owned = |path: NamedPath<'_>| path.segments.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let paths = Source::read(lib).paths().into_iter().map(owned);
        let exports = paths.filter_map(|path| Some((path.last()?.clone(), path))).collect();
        let mut crates = dependencies(manifest);
        crates.push("standpipe".to_owned());
        Self { exports, crates }
    }

    /// Returns the forbidden imports of a file, one line each.
    fn violations(&self, SourceFile { path: file, source, .. }: &SourceFile<'_>) -> Vec<String> {
        if file == "lib.rs" || is_test(file) {
            return Vec::new();
        }
        // The most specific row is the one with the longest name.
        let Some(row) = LAYERS.iter().filter(|row| row.holds(file)).max_by_key(|row| row.name.len()) else {
            return vec![format!("src/{file}:1: this module has no row in the table")];
        };
        let modules = source.modules();
        let paths = source.paths();
        let brought_in: Vec<_> = paths.iter().filter_map(NamedPath::brings_in).collect();
        paths
            .iter()
            // A name that was imported is checked at its import.
            .filter(|path| !path.segments.first().is_some_and(|first| brought_in.contains(first)))
            .filter_map(|path| Some((path, self.resolve(path, file, &modules)?)))
            .filter(|(_, import)| !row.allows(import))
            .map(|(path, import)| {
                let imported = match import {
                    Import::Outside(name) => format!("the crate {name}"),
                    Import::Inside(path) => format!("crate::{}", path.join("::")),
                };
                let written = path.segments.join("::");
                format!(
                    "src/{file}:{}: {} imports {imported} (as {written}); its row: {row}",
                    path.line, row.name
                )
            })
            .collect()
    }

    /// Resolves a path; `None` if it belongs neither to this crate nor to a dependency.
    fn resolve(&self, path: &NamedPath<'_>, file: &str, modules: &[&str]) -> Option<Import> {
        let here = || {
            let mut here = module_of(file);
            here.extend(path.within.iter().map(|name| (*name).to_owned()));
            here
        };
        let owned = |path: &[&str]| path.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let segments = path.segments.as_slice();
        let (first, rest) = segments.split_first()?;
        let absolute = match *first {
            "crate" => self.through_the_crate_root(&owned(rest)),
            "self" => [here(), owned(rest)].concat(),
            "super" => {
                let ups = segments.iter().take_while(|segment| **segment == "super").count();
                let mut here = here();
                here.truncate(here.len().saturating_sub(ups));
                here.extend(owned(&segments[ups..]));
                self.through_the_crate_root(&here)
            }
            name if modules.contains(&name) => [here(), owned(segments)].concat(),
            name if self.crates.iter().any(|known| known == name) => {
                return Some(Import::Outside(name.to_owned()));
            }
            _ => return None,
        };
        Some(Import::Inside(absolute))
    }

    /// Resolves re-exports of `lib.rs`: `crate::Config` is `crate::config::Config`.
    fn through_the_crate_root(&self, path: &[String]) -> Vec<String> {
        let Some((first, rest)) = path.split_first() else {
            return Vec::new();
        };
        match self.exports.iter().find(|(name, _)| name == first) {
            Some((_, target)) => [target.as_slice(), rest].concat(),
            None => path.to_vec(),
        }
    }
}

fn starts_with(path: &[String], allowed: &str) -> bool {
    let mut segments = path.iter();
    allowed.split("::").all(|segment| segments.next().is_some_and(|found| found == segment))
}

/// `record/span.rs` is the module `record::span`; `lib.rs` and `main.rs` are the crate itself.
fn module_of(file: &str) -> Vec<String> {
    let module = file.trim_end_matches(".rs").trim_end_matches("/mod");
    if matches!(module, "lib" | "main") {
        return Vec::new();
    }
    module.split('/').map(str::to_owned).collect()
}

/// Whether a file below `src` holds the tests of a module.
fn is_test(file: &str) -> bool {
    file.split('/').any(|part| matches!(part, "tests" | "tests.rs"))
}

/// The names of all dependencies in a manifest, as they are written in code.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut listed = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            listed = section.trim_end_matches(']').ends_with("dependencies");
        } else if listed && !line.starts_with('#') {
            let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
            if !name.is_empty() {
                names.push(name.replace('-', "_"));
            }
        }
    }
    names
}

/// A Rust file below `src`.
struct SourceFile<'a> {
    /// The path from `src`, with forward slashes.
    path: String,
    text: &'a str,
    source: Source<'a>,
}

impl<'a> SourceFile<'a> {
    fn new(path: impl Into<String>, text: &'a str) -> Self {
        Self { path: path.into(), text, source: Source::read(text) }
    }
}

/// Every Rust file below `src`, read once for all tests.
static FILES: LazyLock<Vec<SourceFile<'static>>> = LazyLock::new(|| {
    let src = root().join("src");
    let mut files = Vec::new();
    let mut folders = vec![src.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the source tree can be listed") {
            let path = entry.expect("an entry of the source tree can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name =
                    path.strip_prefix(&src).expect("it lies below src").to_string_lossy().replace('\\', "/");
                let text = fs::read_to_string(&path).expect("a source file is text");
                files.push(SourceFile::new(name, text.leak()));
            }
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files
});

/// Returns the committed entries of the top level; in a tree without git, all entries.
fn top_level() -> Vec<String> {
    let listed = Command::new("git").arg("ls-files").current_dir(root()).output();
    let committed =
        listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let mut names: Vec<_> =
        committed.lines().filter_map(|path| path.split('/').next()).map(str::to_owned).collect();
    if names.is_empty() {
        names = fs::read_dir(root())
            .expect("the top level can be listed")
            .map(|entry| entry.expect("its entries can be read").file_name().to_string_lossy().into_owned())
            .filter(|name| name != "target")
            .collect();
    }
    names.sort();
    names.dedup();
    names
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn lines(items: &[String]) -> String {
    items.join("\n")
}

/// Tests of the checks above: each finds the fault of a made-up file.
mod the_checker {
    use super::*;

    const LIB: &str = "mod config; mod telemetry; pub use config::Config; pub use telemetry::Telemetry;";
    const MANIFEST: &str = "[package]\nname = \"x\"\n[dependencies]\nureq = \"3\"\nprost.workspace = true\n\
                            [dev-dependencies]\nlog = \"0.4\"\ncrossbeam-channel = \"0.5\"\n[lints.rust]\nserde = 1";

    fn violations(file: &str, text: &str) -> Vec<String> {
        Layering::new(LIB, MANIFEST).violations(&SourceFile::new(file, text))
    }

    /// Asserts that the snippet breaks the table exactly once, on this line.
    fn assert_caught(file: &str, line: usize, text: &str) {
        let found = violations(file, text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].starts_with(&format!("src/{file}:{line}: ")), "{text}: {found:?}");
    }

    fn assert_allowed(file: &str, text: &str) {
        assert_eq!(violations(file, text), Vec::<String>::new(), "{text}");
    }

    #[test]
    fn says_file_line_module_import_and_row() {
        let found =
            violations("pipeline/schedule.rs", "use crate::config::Throttle;\nuse super::queue::Queue;\n");
        let expected = "src/pipeline/schedule.rs:2: pipeline/schedule* imports crate::pipeline::queue::Queue \
                        (as super::queue::Queue); its row: | pipeline/schedule* | record, config | – |";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn catches_an_upward_import_however_it_is_written() {
        assert_caught("metrics.rs", 1, "use crate::telemetry::Telemetry;");
        assert_caught("metrics.rs", 2, "\nuse crate::{config::Queue, pipeline};");
        assert_caught("metrics.rs", 3, "use crate::{\n    config::{A, B},\n    pipeline::{self as w},\n};");
        assert_caught("metrics.rs", 1, "fn f(worker: &crate::pipeline::Worker) {}");
        assert_caught("metrics.rs", 1, "pub(crate) use super::pipeline::Worker as Helper;");
        assert_caught("record/span.rs", 1, "use super::super::context::Current;");
        assert_caught("record/mod.rs", 1, "mod deep { fn f() { super::super::config::count() } }");
        assert_caught("config/mod.rs", 1, "macro_rules! m { () => { $crate::pipeline::go() } }");
    }

    #[test]
    fn catches_an_upward_import_through_the_crate_root() {
        assert_caught("metrics.rs", 1, "use crate::Telemetry;");
        assert_caught("metrics.rs", 1, "use super::Telemetry;");
        assert_caught("metrics.rs", 1, "use crate::*;");
        assert_caught("metrics.rs", 1, "use standpipe::Config;");
        assert_allowed("metrics.rs", "use crate::Config;");
    }

    #[test]
    fn allows_a_module_itself_and_the_modules_of_its_row() {
        assert_allowed("record/span.rs", "use super::buffer::Buffer; use crate::record::id; use self::x::y;");
        assert_allowed(
            "pipeline/worker/mod.rs",
            "use crate::{transport, pipeline::queue::Queue, config}; use std::time::Instant;",
        );
        assert_allowed("main.rs", "mod cli; use cli::run; use standpipe::Config;");
        assert_allowed(
            "cli/send.rs",
            "use super::arguments; use crate::cli::exit; use standpipe::Telemetry;",
        );
    }

    #[test]
    fn allows_one_item_where_the_row_names_one() {
        assert_allowed("pipeline/retry.rs", "use crate::transport::Verdict;");
        assert_allowed("pipeline/retry.rs", "fn f() { crate::transport::Verdict::Accepted; }");
        assert_caught("pipeline/retry.rs", 1, "use crate::transport::{Transport, Verdict};");
        assert_caught("pipeline/retry.rs", 1, "use crate::transport;");
        assert_caught("pipeline/retry.rs", 1, "use crate::transport::*;");
    }

    #[test]
    fn catches_an_outside_crate_in_the_wrong_module_or_file() {
        assert_allowed("transport/http.rs", "use ureq::Agent;");
        assert_allowed("transport/http_tls.rs", "use ureq::Agent;");
        assert_allowed("transport/http/agent.rs", "use ureq::Agent;");
        assert_caught("transport/gate.rs", 1, "use ureq::Agent;");
        assert_caught("transport/mod.rs", 2, "\nfn f() -> ::ureq::Error {}");
        assert_caught("pipeline/batch.rs", 1, "use crossbeam_channel;");
        assert_caught("cli/mod.rs", 1, "use crate::record::Signal;");
    }

    #[test]
    fn takes_a_module_or_a_method_for_no_crate() {
        assert_allowed("record/mod.rs", "mod log; use log::LogRecord; fn f() { log::LogRecord::new() }");
        assert_allowed("record/mod.rs", "fn f(x: X) { x.log::<u8>() }");
        assert_allowed(
            "record/span.rs",
            "use super::log::{self, LogRecord}; fn f() { log::LogRecord::new() }",
        );
        assert_caught("record/mod.rs", 1, "use log::Record;");
        assert_caught("record/span.rs", 1, "use super::log::LogRecord; fn f() { log::Record::new() }");
    }

    #[test]
    fn passes_over_comments_literals_and_test_modules() {
        assert_allowed(
            "pipeline/batch.rs",
            "// crate::pipeline::worker::Worker\n/* use /* ureq::x */ ureq::y; */\n/// [`crate::pipeline::worker`]\n",
        );
        assert_allowed(
            "pipeline/batch.rs",
            r###"const A: &str = "use \" crate::pipeline::worker;"; const B: &str = r#"" ureq::x"#;"###,
        );
        assert_allowed(
            "pipeline/batch.rs",
            "#[cfg(test)]\nmod tests { use crate::pipeline::worker::Worker; mod m { use ureq::A; } }",
        );
        assert_allowed("pipeline/batch/tests.rs", "use crate::pipeline::worker::Worker;");
        assert_caught(
            "pipeline/batch.rs",
            4,
            "const C: char = '\"';\nfn f<'a>(x: &'a str) {}\n\nuse ureq::Agent; // \"",
        );
        assert_caught(
            "pipeline/batch.rs",
            2,
            "#[cfg(test)] mod tests { }\nuse crate::pipeline::worker::Worker;",
        );
        assert_caught("pipeline/batch.rs", 1, "#[cfg(test)] use crate::pipeline::worker::Worker;");
    }

    #[test]
    fn catches_what_has_one_place_elsewhere() {
        let places = |text: &str, is_such: fn(&[&str]) -> bool| {
            named_elsewhere(&[SourceFile::new("logs.rs", text)], |_| false, is_such)
        };
        assert_eq!(places("\nfn f() { std::thread::spawn(g); }", starts_a_thread), ["src/logs.rs:2"]);
        let atomics =
            "use std::sync::atomic::{\n    AtomicU64,\n    Ordering,\n};\nstatic A: atomic::AtomicI64 = N;";
        assert_eq!(places(atomics, is_std_atomic_64), ["src/logs.rs:2", "src/logs.rs:5"]);
        assert_eq!(places("use crate::process::atomic::AtomicU64;", is_std_atomic_64), Vec::<String>::new());
    }

    #[test]
    fn knows_no_module_without_a_row() {
        assert_caught("helpers.rs", 1, "");
        assert_caught("recorder.rs", 1, "");
    }

    #[test]
    fn counts_lines_without_test_modules() {
        assert_eq!(Source::read("a\n\n// b\n#[cfg(test)]\nmod tests {\n    x\n}\n").length, 3);
        assert_eq!(
            Source::read("a\n#[cfg(all(test, unix))]\n#[path = \"t.rs\"]\npub(crate) mod t;\nb\n").length,
            2
        );
    }

    #[test]
    fn tells_logic_from_mod_and_use() {
        let root = "//! Docs.\n#![deny(missing_docs)]\n\n#[cfg(feature = \"x\")]\npub mod a;\npub(crate) use a::{B, c::D};\n";
        assert_eq!(Source::read(root).first_logic(), None);
        assert_eq!(Source::read(&format!("{root}pub fn f() {{}}\n")).first_logic(), Some(7));
        assert_eq!(Source::read(&format!("{root}mod m {{}}\n")).first_logic(), None);
        assert_eq!(Source::read(&format!("{root}mod m {{ fn f() {{}} }}\n")).first_logic(), Some(7));
        assert_eq!(Source::read(&format!("{root}#[test]\nconst X: u8 = 1;\n")).first_logic(), Some(8));
    }
}
