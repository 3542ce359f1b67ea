//! The file exporter: lines of OTLP JSON, which `opentelemetry-proto` decodes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use opentelemetry_proto::tonic::logs::v1::LogsData;
use opentelemetry_proto::tonic::metrics::v1::MetricsData;
use opentelemetry_proto::tonic::trace::v1::{Span, TracesData};
use standpipe::{Config, Exporter, FlushOutcome, ProblemKind, Signal, Telemetry};

#[cfg(unix)]
use crate::support::process::{Child, in_a_fork, is_alone, report, task};
use crate::support::scene::{FOR_EVER, LONG, Problems, emit, start};
use crate::support::scratch::Scratch;

const MIB: usize = 1 << 20;

fn exporter(path: &Path) -> Exporter {
    let delay = Duration::from_millis(1);
    Exporter::file(path).throttle(Duration::ZERO).block_timeout(None).retry_delays(delay, delay * 20)
}

/// An exporter that writes only when it is flushed or shut down.
fn gathering(path: &Path) -> Exporter {
    exporter(path).linger(FOR_EVER).queue_bytes(64 << 20)
}

fn spans_of(line: &str) -> Vec<Span> {
    let data: TracesData = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let scopes = data.resource_spans.into_iter().flat_map(|part| part.scope_spans);
    scopes.flat_map(|part| part.spans).collect()
}

/// Returns the spans in all files of a directory.
fn all_spans(directory: &Path) -> Vec<Span> {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let texts: Vec<String> = files.map(|path| fs::read_to_string(path).unwrap()).collect();
    texts.iter().flat_map(|text| text.lines()).flat_map(spans_of).collect()
}

#[test]
fn appends_lines_of_all_signals_for_its_user_alone() {
    let scratch = Scratch::new();
    let path = scratch.path().join("otlp.jsonl");
    for round in 0..2 {
        let telemetry = start(exporter(&path));
        telemetry.tracer("shop").span("check\nout").set("round", round);
        telemetry.logger("shop").info("paid").emit();
        telemetry.meter("shop").counter("orders").add(1, &[]);
        let ledger = telemetry.shutdown(LONG);
        assert_eq!((ledger.total().delivered, ledger.lost()), (3, 0), "{ledger}");
    }
    let text = fs::read_to_string(&path).unwrap();
    let lines = |key: &str| -> Vec<&str> {
        text.lines().filter(|line| line.starts_with(&format!("{{\"{key}\":"))).collect()
    };
    assert_eq!((text.lines().count(), text.ends_with('\n')), (6, true), "{text}");
    let rounds: Vec<Span> = lines("resourceSpans").into_iter().flat_map(spans_of).collect();
    assert_eq!((rounds.len(), rounds[1].name.as_str()), (2, "check\nout"));
    assert_ne!(rounds[0].attributes, rounds[1].attributes);
    for line in lines("resourceLogs") {
        let logs: LogsData = serde_json::from_str(line).unwrap();
        assert_eq!(logs.resource_logs[0].scope_logs[0].log_records[0].severity_number, 9);
    }
    for line in lines("resourceMetrics") {
        let metrics: MetricsData = serde_json::from_str(line).unwrap();
        assert_eq!(metrics.resource_metrics[0].scope_metrics[0].metrics[0].name, "orders");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn keeps_lines_below_1_mib_and_counts_longer_ones() {
    let scratch = Scratch::new();
    let path = scratch.path().join("otlp.jsonl");
    let problems = Problems::default();
    let telemetry = problems.start(gathering(&path));
    let tracer = telemetry.tracer("shop");
    for length in [400_000, 200_000, 400_000, 1_100_000, 100_000] {
        tracer.span("work").set("text", "x".repeat(length));
    }
    let ledger = telemetry.shutdown(LONG);
    let total = ledger.total();
    assert_eq!((total.delivered, total.dropped.too_large, ledger.lost()), (4, 1, 1), "{ledger}");
    let message = problems.wait_for(ProblemKind::TooLarge).message;
    assert!(message.contains("its JSON exceeds batch-bytes, or 1 MiB in a file"), "{message}");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.lines().all(|line| line.len() + 1 < MIB) && text.lines().count() > 1);
    assert_eq!(text.lines().flat_map(spans_of).count(), 4);
}

#[test]
fn rotates_by_size_and_keeps_as_many_files_as_configured() {
    let scratch = Scratch::new();
    let telemetry = start(gathering(&scratch.path().join("otlp.jsonl")).file_bytes(4096).file_backups(3));
    let tracer = telemetry.tracer("shop");
    for _ in 0..40 {
        emit(&tracer, 2);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    }
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    let sizes: Vec<u64> =
        fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
    assert_eq!(sizes.len(), 4, "{sizes:?}");
    assert!(sizes.iter().all(|size| (1..=4096).contains(size)), "{sizes:?}");
    assert!(all_spans(scratch.path()).len() >= 20);
}

#[cfg(unix)]
#[test]
fn loses_and_tears_no_line_when_processes_and_forks_rotate_one_file() {
    const NAME: &str = "loses_and_tears_no_line_when_processes_and_forks_rotate_one_file";
    let rounds = u64::from(crate::support::size_within(30..=60));
    let run = |directory: &Path| {
        let path = directory.join("otlp.jsonl");
        let telemetry = start(gathering(&path).file_bytes(8192).file_backups(10_000));
        let tracer = telemetry.tracer("shop");
        let write = || {
            for round in 0..rounds {
                emit(&tracer, 1 + round % 7);
                assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
            }
            telemetry.ledger().lost() == 0
        };
        assert!(in_a_fork(write) && write());
        assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    };
    if let Some(directory) = task() {
        run(Path::new(&directory));
        return report("done");
    }
    let scratch = Scratch::new();
    let directory = scratch.path();
    let children: Vec<Child> = (0..4).map(|_| Child::start(NAME, directory.to_str().unwrap())).collect();
    for child in children {
        assert_eq!(child.finish(), ["done"]);
    }
    let spans_per_run: u64 = (0..rounds).map(|round| 1 + round % 7).sum();
    let spans = all_spans(directory);
    assert_eq!(spans.len() as u64, 8 * spans_per_run);
    assert!(fs::read_dir(directory).unwrap().count() > 20);
}

#[cfg(unix)]
#[test]
#[allow(unsafe_code, reason = "std does not limit the size of files")]
fn retries_and_leaves_no_torn_line_when_the_file_may_not_grow() {
    if !is_alone("retries_and_leaves_no_torn_line_when_the_file_may_not_grow") {
        return;
    }
    let limit = |bytes: libc::rlim_t| {
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: `limit` outlives the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
    };
    let scratch = Scratch::new();
    let path = scratch.path().join("otlp.jsonl");
    let problems = Problems::default();
    let telemetry = problems.start(gathering(&path));
    let tracer = telemetry.tracer("shop");
    emit(&tracer, 3);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let whole = fs::read_to_string(&path).unwrap();
    // The file has room for a part of the next line.
    limit(whole.len() as libc::rlim_t + 10);
    emit(&tracer, 5);
    let _ = telemetry.flush(Duration::from_millis(50));
    let message = problems.wait_for(ProblemKind::Unavailable).message;
    assert!(message.starts_with(&format!("write to {}: ", path.display())), "{message}");
    assert_eq!(fs::read_to_string(&path).unwrap(), whole);
    assert_eq!(telemetry.ledger().total().in_flight, 5);
    limit(libc::RLIM_INFINITY);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (8, 0), "{ledger}");
    let lines: Vec<usize> =
        fs::read_to_string(&path).unwrap().lines().map(|line| spans_of(line).len()).collect();
    assert_eq!(lines, [3, 5]);
}

#[test]
fn creates_the_file_again_when_another_program_has_moved_it() {
    let scratch = Scratch::new();
    let path = scratch.path().join("otlp.jsonl");
    let telemetry = start(gathering(&path).signals([Signal::Traces]));
    for round in 1..3 {
        emit(&telemetry.tracer("shop"), round);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
        fs::rename(&path, scratch.path().join(format!("moved-{round}"))).unwrap();
    }
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    assert_eq!(all_spans(scratch.path()).len(), 3);
}

#[test]
fn refuses_a_file_that_cannot_be_opened_at_start() {
    let scratch = Scratch::new();
    let refused = |path: PathBuf| {
        Telemetry::start(Config::new().exporter(Exporter::file(path))).err().unwrap().to_string()
    };
    let missing = scratch.path().join("missing").join("otlp.jsonl");
    let error = refused(missing.clone());
    assert!(error.contains(&format!("open {}: ", missing.display())), "{error}");
    let error = refused(PathBuf::new());
    assert!(error.contains("exporter \"file\".file: no file is named; write the path of a file"), "{error}");
}
