//! The house: which room may know which other room, and which crate from outside. This table is the plan, and the
//! tests below hold the source to it. Test modules are exempt.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fmt, fs};

use source::{NamedPath, Source};

#[path = "architecture/source.rs"]
mod source;

/// Read it from the top: a room knows only rooms above it, and itself.
///
/// A room is `src/room.rs` or the folder `src/room/`. A name with a star is a part of a room with a row of its own.
/// `room::Item` allows that one item.
#[rustfmt::skip]
const HOUSE: &[Row] = &[
    // pure: texts from elsewhere, made fit to be shown
    row("escape",          &[],                                               &[]),
    // what a forked child must know
    row("fork",            &[],                                               &[]),
    // how threads are started
    row("spawn",           &[],                                               &[]),
    // what can be said, in wire format
    row("record",          &["fork"],                                         &["prost", "opentelemetry_proto"]),
    row("context",         &["record"],                                       &[]),
    row("context/suppress*", &[],                                             &["opentelemetry"]),
    // pure: many measurements as one point
    row("aggregate",       &["record"],                                       &[]),
    // pure: which traces are kept
    row("sample",          &["record"],                                       &[]),
    // what went wrong, what became of every record, what was set
    row("problem",         &["escape", "record", "context"],                  &[]),
    row("stats",           &["record"],                                       &["serde"]),
    row("config",          &["escape", "record", "problem", "sample"],        &["serde", "toml", "toml_parser"]),
    row("config/yaml*",    &[],                                               &["granit_parser"]),
    // instruments, and what they remember until the worker asks
    row("meter",           &["fork", "record", "aggregate", "context", "problem", "config"], &[]),
    // between the caller and the worker
    row("queue",           &["fork", "record", "context", "stats", "config"], &["crossbeam_channel"]),
    // pure: what to send, and when
    row("batch",           &["record", "config"],                             &["prost"]),
    row("throttle",        &["config"],                                       &[]),
    // out of the program, and what follows from the answer
    row("transport",       &["spawn", "record", "config"],                    &["prost"]),
    row("transport/console*", &["escape", "record", "config"],                &["prost"]),
    row("transport/gzip*", &[],                                               &["flate2"]),
    row("transport/tls*",  &["config"],                                       &["rustls", "webpki_roots"]),
    row("transport/proxy*", &["config"],                                      &["ureq"]),
    row("transport/http*", &["fork", "record", "config"],                     &["ureq"]),
    row("transport/http/tls*", &[],                                           &["rustls", "ureq"]),
    row("transport/grpc*", &["record", "config"],                             &[]),
    row("transport/grpc/tunnel*", &["config"],                                &["ureq"]),
    // pure: HTTP/2 without a socket
    row("transport/grpc/http2*", &[],                                         &[]),
    row("retry",           &["config", "transport::Verdict"],                 &[]),
    // the background thread
    row("worker",          &["record", "context", "problem", "stats", "config", "meter", "queue", "batch", "throttle",
                             "transport", "retry"],                           &["crossbeam_channel"]),
    // one exporter, put together and running
    row("pipeline",        &["record", "context", "problem", "stats", "config", "meter", "queue", "throttle",
                             "transport", "worker", "spawn"],                 &["crossbeam_channel"]),
    // the calling side
    row("pool",            &[],                                               &[]),
    row("outlet",          &["fork", "record", "context", "sample", "stats", "pipeline"], &["crossbeam_channel"]),
    row("outlet/metrics*", &["record", "stats", "config", "pipeline"],        &[]),
    row("tracer",          &["fork", "record", "context", "sample", "stats", "pool", "outlet"], &[]),
    row("logger",          &["fork", "record", "context", "stats", "pool", "outlet"], &[]),
    row("self_observation", &["record", "stats", "config", "meter", "outlet"], &[]),
    row("route",           &["fork", "record", "meter", "outlet", "tracer", "logger"], &[]),
    // start, flush, shutdown
    row("telemetry",       &["record", "context", "stats", "config", "meter", "transport", "pipeline", "outlet", "tracer",
                             "logger", "self_observation", "route"],          &[]),
    // what other crates' telemetry comes in by: one outside crate each
    row("bridge",          &[],                                               &[]),
    row("bridge/tracing*", &["fork", "record", "context", "tracer", "logger", "route"], &["tracing", "tracing_subscriber"]),
    row("bridge/log*",     &["fork", "record", "context", "pool", "logger", "route"], &["log"]),
    row("bridge/metrics*", &["fork", "record", "meter", "route"],             &["metrics"]),
    row("bridge/opentelemetry*", &["fork", "record", "context", "stats", "config", "pool", "outlet", "route"], &["opentelemetry", "opentelemetry_sdk"]),
    // asks a collector whether it can be reached
    row("probe",           &["escape", "spawn", "record", "config", "transport"], &[]),
    // the other end of the wire
    row("receiver",        &["record", "spawn", "transport::grpc::http2", "transport::grpc::metadata"], &["opentelemetry_proto", "prost", "flate2", "parking_lot"]),
    row("receiver/json*",  &["record", "transport::grpc::metadata"],          &["opentelemetry_proto", "prost", "serde", "serde_json"]),
    // the binary: the library is an outside crate to it
    row("cli",             &["escape"],                                       &["standpipe", "lexopt", "serde", "serde_json"]),
    row("main",            &["cli"],                                          &["standpipe", "lexopt", "opentelemetry_proto"]),
];

/// What may lie beside `src`, dotfiles aside.
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

const LONGEST_FILE: usize = 500;

#[test]
fn every_room_imports_only_what_the_table_allows() {
    let house = House::of_this_crate();
    let files = source_files();
    assert!(!files.is_empty(), "no source file was found");
    let violations: Vec<_> = files.iter().flat_map(|(path, text)| house.violations(path, text)).collect();
    assert!(violations.is_empty(), "\n{}", lines(&violations));
}

#[test]
fn the_table_only_looks_up() {
    for (index, row) in HOUSE.iter().enumerate() {
        for import in row.imports {
            let room = import.split("::").next().unwrap_or_default();
            let above = HOUSE[..index].iter().any(|earlier| earlier.name == room);
            assert!(above, "{row}: {room} has no row above it");
        }
    }
}

#[test]
fn no_file_is_longer_than_it_should_be() {
    let long: Vec<_> = source_files()
        .into_iter()
        .map(|(path, text)| (path, Source::read(&text).length))
        .filter(|(_, length)| *length > LONGEST_FILE)
        .map(|(path, length)| {
            format!("src/{path}: {length} lines without tests, {LONGEST_FILE} are the limit")
        })
        .collect();
    assert!(long.is_empty(), "\n{}", lines(&long));
}

#[test]
fn every_thread_is_started_in_one_place() {
    let starts_a_thread = |path: &NamedPath| {
        let names = path.segments.iter().map(String::as_str).collect::<Vec<_>>();
        names.windows(2).any(|pair| matches!(pair, ["thread", "spawn" | "Builder"]))
    };
    let elsewhere: Vec<_> = source_files()
        .into_iter()
        .filter(|(path, _)| {
            // the command's own threads are not the library's: a program's handlers never meet them
            let is_exempt = path == "spawn.rs" || path.starts_with("cli/");
            !is_exempt && !path.split('/').any(|part| matches!(part, "tests" | "tests.rs"))
        })
        .flat_map(|(path, text)| {
            let starts: Vec<_> = Source::read(&text).paths().into_iter().filter(starts_a_thread).collect();
            starts.into_iter().map(move |start| format!("src/{path}:{}: use crate::spawn", start.line))
        })
        .collect();
    assert!(elsewhere.is_empty(), "\n{}", lines(&elsewhere));
}

#[test]
fn the_front_door_has_no_logic() {
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
                let own = self.name.split('/').next();
                path.first().map(String::as_str) == own
                    || self.imports.iter().any(|allowed| starts_with(path, allowed))
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

struct House {
    /// What `lib.rs` re-exports: the name at the root and the path it stands for.
    exports: Vec<(String, Vec<String>)>,
    crates: Vec<String>,
}

impl House {
    fn of_this_crate() -> Self {
        let read = |name: &str| fs::read_to_string(root().join(name)).expect("a crate has it");
        Self::new(&read("src/lib.rs"), &read("Cargo.toml"))
    }

    fn new(lib: &str, manifest: &str) -> Self {
        let exports = Source::read(lib)
            .paths()
            .into_iter()
            .filter_map(|path| Some((path.segments.last()?.clone(), path.segments)))
            .collect();
        let mut crates = dependencies(manifest);
        crates.push("standpipe".to_owned());
        Self { exports, crates }
    }

    /// What is wrong with the imports of `file`, a path below `src`, one line each.
    fn violations(&self, file: &str, text: &str) -> Vec<String> {
        let is_test = file.split('/').any(|part| matches!(part, "tests" | "tests.rs"));
        if file == "lib.rs" || is_test {
            return Vec::new();
        }
        // The most particular row is the one with the longest name.
        let Some(row) = HOUSE.iter().filter(|row| row.holds(file)).max_by_key(|row| row.name.len()) else {
            return vec![format!("src/{file}:1: this room has no row in the table")];
        };
        let source = Source::read(text);
        let modules = source.modules();
        let paths = source.paths();
        let brought_in: Vec<_> = paths.iter().filter_map(NamedPath::brings_in).collect();
        paths
            .iter()
            // what a name stands for that was brought in is judged where that was done
            .filter(|path| !path.segments.first().is_some_and(|first| brought_in.contains(&first.as_str())))
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

    /// What a path stands for; `None` if it is neither of this crate nor of a dependency.
    fn resolve(&self, path: &NamedPath, file: &str, modules: &[&str]) -> Option<Import> {
        let mut here = module_of(file);
        here.extend(path.within.iter().cloned());
        let segments = path.segments.as_slice();
        let (first, rest) = segments.split_first()?;
        let absolute = match first.as_str() {
            "crate" => self.through_the_front_door(rest),
            "self" => [here.as_slice(), rest].concat(),
            "super" => {
                let ups = segments.iter().take_while(|segment| *segment == "super").count();
                here.truncate(here.len().saturating_sub(ups));
                here.extend_from_slice(&segments[ups..]);
                self.through_the_front_door(&here)
            }
            name if modules.contains(&name) => [here.as_slice(), segments].concat(),
            name if self.crates.iter().any(|known| known == name) => {
                return Some(Import::Outside(name.to_owned()));
            }
            _ => return None,
        };
        Some(Import::Inside(absolute))
    }

    /// `crate::Config` is `crate::config::Config`, if that is what `lib.rs` makes of it.
    fn through_the_front_door(&self, path: &[String]) -> Vec<String> {
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

/// `record/span.rs` is the module `record::span`; the roots are the crate itself.
fn module_of(file: &str) -> Vec<String> {
    let module = file.trim_end_matches(".rs").trim_end_matches("/mod");
    if matches!(module, "lib" | "main") {
        return Vec::new();
    }
    module.split('/').map(str::to_owned).collect()
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

/// Every Rust file below `src`: its path from there, with forward slashes, and its text.
fn source_files() -> Vec<(String, String)> {
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
                files.push((name, fs::read_to_string(&path).expect("a source file is text")));
            }
        }
    }
    files.sort();
    files
}

/// What is committed at the top level; in a tree without git, what lies there.
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

/// The checks above can fail: each is shown a made-up house that breaks its rule.
mod the_checker {
    use super::*;

    const LIB: &str = "mod config; mod telemetry; pub use config::Config; pub use telemetry::Telemetry;";
    const MANIFEST: &str = "[package]\nname = \"x\"\n[dependencies]\nureq = \"3\"\nprost.workspace = true\n\
                            [dev-dependencies]\nlog = \"0.4\"\ncrossbeam-channel = \"0.5\"\n[lints.rust]\nserde = 1";

    fn violations(file: &str, text: &str) -> Vec<String> {
        House::new(LIB, MANIFEST).violations(file, text)
    }

    /// The snippet breaks the table exactly once, on this line.
    fn assert_caught(file: &str, line: usize, text: &str) {
        let found = violations(file, text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].starts_with(&format!("src/{file}:{line}: ")), "{text}: {found:?}");
    }

    fn assert_allowed(file: &str, text: &str) {
        assert_eq!(violations(file, text), Vec::<String>::new(), "{text}");
    }

    #[test]
    fn says_file_line_room_import_and_row() {
        let found = violations("throttle.rs", "use crate::config::Throttle;\nuse crate::queue::Queue;\n");
        let expected = "src/throttle.rs:2: throttle imports crate::queue::Queue (as crate::queue::Queue); \
                        its row: | throttle | config | – |";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn catches_an_upward_import_however_it_is_written() {
        assert_caught("queue.rs", 1, "use crate::telemetry::Telemetry;");
        assert_caught("queue.rs", 2, "\nuse crate::{config::Queue, worker};");
        assert_caught("queue.rs", 3, "use crate::{\n    config::{A, B},\n    worker::{self as w},\n};");
        assert_caught("queue.rs", 1, "fn f(worker: &crate::worker::Worker) {}");
        assert_caught("queue.rs", 1, "pub(crate) use super::worker::Worker as Helper;");
        assert_caught("record/span.rs", 1, "use super::super::context::Current;");
        assert_caught("record/mod.rs", 1, "mod deep { fn f() { super::super::stats::count() } }");
        assert_caught("config/mod.rs", 1, "macro_rules! m { () => { $crate::worker::go() } }");
    }

    #[test]
    fn catches_an_upward_import_through_the_front_door() {
        assert_caught("queue.rs", 1, "use crate::Telemetry;");
        assert_caught("queue.rs", 1, "use super::Telemetry;");
        assert_caught("queue.rs", 1, "use crate::*;");
        assert_caught("queue.rs", 1, "use standpipe::Config;");
        assert_allowed("queue.rs", "use crate::Config;");
    }

    #[test]
    fn allows_a_room_itself_and_the_rooms_of_its_row() {
        assert_allowed("record/span.rs", "use super::buffer::Buffer; use crate::record::id; use self::x::y;");
        assert_allowed("worker.rs", "use crate::{batch, queue::Queue, retry}; use std::time::Instant;");
        assert_allowed("main.rs", "mod cli; use cli::run; use standpipe::Config;");
        assert_allowed(
            "cli/send.rs",
            "use super::arguments; use crate::cli::exit; use standpipe::Telemetry;",
        );
    }

    #[test]
    fn allows_one_item_where_the_row_names_one() {
        assert_allowed("retry.rs", "use crate::transport::Verdict;");
        assert_allowed("retry.rs", "fn f() { crate::transport::Verdict::Accepted; }");
        assert_caught("retry.rs", 1, "use crate::transport::{Transport, Verdict};");
        assert_caught("retry.rs", 1, "use crate::transport;");
        assert_caught("retry.rs", 1, "use crate::transport::*;");
    }

    #[test]
    fn catches_an_outside_crate_in_the_wrong_room_or_file() {
        assert_allowed("transport/http.rs", "use ureq::Agent;");
        assert_allowed("transport/http_tls.rs", "use ureq::Agent;");
        assert_allowed("transport/http/agent.rs", "use ureq::Agent;");
        assert_caught("transport/memory.rs", 1, "use ureq::Agent;");
        assert_caught("transport/mod.rs", 2, "\nfn f() -> ::ureq::Error {}");
        assert_caught("batch.rs", 1, "use crossbeam_channel;");
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
            "batch.rs",
            "// crate::worker::Worker\n/* use /* ureq::x */ ureq::y; */\n/// [`crate::worker`]\n",
        );
        assert_allowed(
            "batch.rs",
            r###"const A: &str = "use \" crate::worker;"; const B: &str = r#"" ureq::x"#;"###,
        );
        assert_allowed(
            "batch.rs",
            "#[cfg(test)]\nmod tests { use crate::worker::Worker; mod m { use ureq::A; } }",
        );
        assert_allowed("queue/tests.rs", "use crate::worker::Worker;");
        assert_caught(
            "batch.rs",
            4,
            "const C: char = '\"';\nfn f<'a>(x: &'a str) {}\n\nuse ureq::Agent; // \"",
        );
        assert_caught("batch.rs", 2, "#[cfg(test)] mod tests { }\nuse crate::worker::Worker;");
        assert_caught("batch.rs", 1, "#[cfg(test)] use crate::worker::Worker;");
    }

    #[test]
    fn knows_no_room_without_a_row() {
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
        let door = "//! Docs.\n#![deny(missing_docs)]\n\n#[cfg(feature = \"x\")]\npub mod a;\npub(crate) use a::{B, c::D};\n";
        assert_eq!(Source::read(door).first_logic(), None);
        assert_eq!(Source::read(&format!("{door}pub fn f() {{}}\n")).first_logic(), Some(7));
        assert_eq!(Source::read(&format!("{door}mod m {{}}\n")).first_logic(), None);
        assert_eq!(Source::read(&format!("{door}mod m {{ fn f() {{}} }}\n")).first_logic(), Some(7));
        assert_eq!(Source::read(&format!("{door}#[test]\nconst X: u8 = 1;\n")).first_logic(), Some(8));
    }
}
