//! The manual. Read the chapters in this order, or start with the one that you need.
//!
//! | chapter | content |
//! |---|---|
//! | [`first_hour`] | step by step from an empty directory to a trace in the browser |
//! | [`programs`] | complete programs: a web service, a tool, a program without threads, a migrated program |
//! | [`signals`] | spans, log records, metrics and sampling |
//! | [`contexts`] | traces across threads, processes and services; baggage; the global |
//! | [`configuration`] | every setting and its default |
//! | [`environment`] | every environment variable |
//! | [`backends`] | recipes: the settings of backends that accept OTLP, and their pitfalls |
//! | [`exit`] | which records survive `process::exit`, a panic, SIGTERM and `kill -9` |
//! | [`operations`] | threads, a full queue, the ledger, problems, forks, containers |
//! | [`deployment`] | AWS Lambda, systemd, Docker, Kubernetes and OpenWrt |
//! | [`troubleshooting`] | nothing arrives: a list of checks, from the program to the collector |
//! | [`messages`] | every error and problem, with its meaning and its remedy |
//! | [`testing`] | tests of your program's telemetry |
//! | [`bridges`] | `tracing`, `log`, `metrics` and the OpenTelemetry SDK |
//! | [`migration`] | from tracing-opentelemetry or opentelemetry-otlp, with every difference |
//! | [`grpc`] | OTLP over gRPC |
//! | [`spool`] | records that survive `kill -9` and outages of the collector |
//! | [`c`] | programs in C, and languages that call C |
//! | [`command`] | the `standpipe` command |
//! | [`shell`] | traces of shell scripts, make, cargo and CI jobs |
//! | [`page`] | a tour of the page in the browser |
//! | [`limits`] | limits of queues, requests, records, configurations and retries |
//! | [`targets`] | tested systems and processors, and their differences |
//! | [`size`] | small programs |
//! | [`growing`] | more than one machine |
//! | [`compliance`] | OpenTelemetry's compliance matrix, row by row: what is met, and where |
//! | [`contributing`] | the modules, the test suites, frequent changes, the release |

// The snippets of some chapters need features. The published crate is tested without these features as well, so each of
// these chapters is compiled as a doc test only with its features.
#[cfg(any(
    not(doctest),
    all(feature = "tracing", feature = "log", feature = "metrics", feature = "opentelemetry")
))]
pub mod bridges {
    #![doc = include_str!("bridges.md")]
}

pub mod backends {
    #![doc = include_str!("backends.md")]
}

pub mod c {
    #![doc = include_str!("c.md")]
}

pub mod command {
    #![doc = include_str!("command.md")]
}

pub mod compliance {
    #![doc = include_str!("compliance.md")]
}

pub mod configuration {
    #![doc = include_str!("configuration.md")]
}

#[cfg(any(not(doctest), feature = "tracing"))]
pub mod contexts {
    #![doc = include_str!("contexts.md")]
}

pub mod contributing {
    #![doc = include_str!("contributing.md")]
}

pub mod deployment {
    #![doc = include_str!("deployment.md")]
}

pub mod environment {
    #![doc = include_str!("environment.md")]
}

pub mod exit {
    #![doc = include_str!("exit.md")]
}

#[cfg(any(not(doctest), feature = "receiver"))]
pub mod first_hour {
    #![doc = include_str!("first_hour.md")]
}

pub mod growing {
    #![doc = include_str!("growing.md")]
}

pub mod grpc {
    #![doc = include_str!("grpc.md")]
}

pub mod limits {
    #![doc = include_str!("limits.md")]
}

pub mod messages {
    #![doc = include_str!("messages.md")]
}

#[cfg(any(not(doctest), all(feature = "tracing", feature = "opentelemetry")))]
pub mod migration {
    #![doc = include_str!("migration.md")]
}

pub mod operations {
    #![doc = include_str!("operations.md")]
}

pub mod page {
    // Rustdoc does not copy pictures, so `pictures.md` contains them as data URLs. In Markdown the first definition of
    // a link wins, so these URLs replace the paths of files in `page.md`.
    #![cfg_attr(doc, doc = include_str!("page/pictures.md"))]
    #![doc = include_str!("page.md")]
}

#[cfg(any(not(doctest), feature = "tracing"))]
pub mod programs {
    #![doc = include_str!("programs.md")]
}

pub mod shell {
    #![doc = include_str!("shell.md")]
}

pub mod signals {
    #![doc = include_str!("signals.md")]
}

pub mod size {
    #![doc = include_str!("size.md")]
}

pub mod spool {
    #![doc = include_str!("spool.md")]
}

pub mod targets {
    #![doc = include_str!("targets.md")]
}

#[cfg(any(not(doctest), feature = "receiver"))]
pub mod testing {
    #![doc = include_str!("testing.md")]
}

pub mod troubleshooting {
    #![doc = include_str!("troubleshooting.md")]
}
