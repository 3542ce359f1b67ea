//! Measures the footprint of a program that sends one span, with each feature of standpipe and with each peer.

use standpipe::receiver::Receiver;

use super::package::{Package, SPAN_TIMEOUT, Scales};
use super::{HELLO, print_notes};
use crate::support::table::Table;
use crate::support::{Error, publish};

/// One row of the table.
struct Row {
    /// Folder below `hello`.
    folder: &'static str,
    program: &'static str,
    features: &'static str,
    name: &'static str,
    is_built_cold: bool,
}

impl Row {
    /// Selects the row for a build from an empty target directory.
    const fn cold(self) -> Self {
        Self { is_built_cold: true, ..self }
    }
}

const fn nothing(name: &'static str) -> Row {
    Row { folder: "nothing", program: "hello-nothing", features: "", name, is_built_cold: false }
}

const fn standpipe(features: &'static str, name: &'static str) -> Row {
    Row { folder: "standpipe", program: "hello-standpipe", features, name, is_built_cold: false }
}

const fn opentelemetry(features: &'static str, name: &'static str) -> Row {
    Row { folder: "opentelemetry", program: "hello-opentelemetry", features, name, is_built_cold: false }
}

const fn fastrace(features: &'static str, name: &'static str) -> Row {
    Row { folder: "fastrace", program: "hello-fastrace", features, name, is_built_cold: false }
}

const fn emit(features: &'static str, name: &'static str) -> Row {
    Row { folder: "emit", program: "hello-emit", features, name, is_built_cold: false }
}

const ROWS: [Row; 23] = [
    nothing("Rust's standard library alone").cold(),
    standpipe("", "standpipe without features").cold(),
    standpipe("file", "standpipe, set up by a TOML file"),
    standpipe("gzip", "standpipe, gzip"),
    standpipe("grpc", "standpipe, grpc"),
    standpipe("tls", "standpipe, tls"),
    standpipe("usual", "standpipe with its default features").cold(),
    standpipe("usual,file", "standpipe, default features, TOML file"),
    standpipe("yaml", "standpipe, yaml, set up by a file"),
    standpipe("console", "standpipe, console"),
    standpipe("tracing", "standpipe, tracing"),
    standpipe("log", "standpipe, log"),
    standpipe("metrics", "standpipe, metrics"),
    standpipe("opentelemetry", "standpipe, opentelemetry"),
    opentelemetry("http", "opentelemetry-otlp 0.33, HTTP").cold(),
    opentelemetry("http-tls", "opentelemetry-otlp 0.33, HTTP, TLS").cold(),
    opentelemetry("grpc", "opentelemetry-otlp 0.33, gRPC").cold(),
    opentelemetry("grpc-tls", "opentelemetry-otlp 0.33, gRPC, TLS"),
    opentelemetry("all", "opentelemetry-otlp 0.33, HTTP, gRPC, TLS, gzip").cold(),
    fastrace("", "fastrace 0.7").cold(),
    fastrace("tls", "fastrace 0.7, TLS"),
    emit("", "emit 2.23").cold(),
    emit("tls,gzip", "emit 2.23, TLS, gzip"),
];

/// Measures and prints the table. A smoke run has one row per program.
pub(super) fn measure(scales: &Scales) -> Result<(), Error> {
    let head = [
        "hello: one span, sent",
        "crates",
        "async ones",
        "release KiB",
        "small KiB",
        "threads",
        "idle",
        "cold CPU s",
        "",
    ];
    let (mut table, mut notes) = (Table::of_contenders(head, &[]), Vec::new());
    table.limit(ROWS[0].name);
    for (number, row) in ROWS.iter().enumerate() {
        let is_first = ROWS[..number].iter().all(|other| other.folder != row.folder);
        if scales.smoke && !is_first {
            continue;
        }
        let has_sent = if row.folder == "nothing" { |_: &Receiver| true } else { has_hello };
        let package = Package {
            folder: format!("hello/{}", row.folder),
            program: row.program,
            features: row.features,
            is_built_cold: row.is_built_cold,
            has_sent,
        };
        let weight = package.weigh(scales)?;
        if !weight.asynchronous.is_empty() {
            notes.push(format!("{}: {}", row.name, weight.asynchronous.join(" ")));
        }
        table.row([
            row.name.to_owned(),
            weight.crates,
            weight.async_crates,
            weight.release,
            weight.small,
            weight.threads,
            weight.idle,
            weight.cold,
        ]);
    }
    table.print("footprint: the first span of a program");
    println!("  idle: memory after the span has been sent, while the program waits");
    print_notes(&notes);
    publish::table(HELLO, &table)
}

/// Returns whether exactly one span has arrived, with its attribute.
fn has_hello(receiver: &Receiver) -> bool {
    let is_hello = || match receiver.spans().as_slice() {
        [received] => received.span.name == "hello" && received.attribute("answer").is_some(),
        _ => false,
    };
    receiver.wait_for_spans(1, SPAN_TIMEOUT) && is_hello()
}
