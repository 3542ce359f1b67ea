//! The threads of the library keep out of the program's way.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use standpipe::receiver::Receiver;
use standpipe::{Config, Exporter, Flushed, Telemetry};

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(20);
/// Those that no thread can block: KILL, STOP, and two that the C library keeps for itself.
const NEVER_BLOCKED: u64 = 1 << 8 | 1 << 18 | 1 << 31 | 1 << 32;

/// The signals that a thread can be given.
fn not_blocked(task: &Path) -> Option<u64> {
    // a thread of another test may end meanwhile
    let status = fs::read_to_string(task.join("status")).ok()?;
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
    Some(!u64::from_str_radix(blocked.trim(), 16).unwrap() & !NEVER_BLOCKED)
}

/// The threads of this process whose names begin like this, with the signals that they can be given.
fn threads_named(start: &str) -> Vec<(String, u64)> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let named = tasks.filter_map(|task| Some((fs::read_to_string(task.join("comm")).ok()?, task)));
    let ours = named.filter(|(name, _)| name.starts_with(start));
    ours.filter_map(|(name, task)| Some((name.trim().to_owned(), not_blocked(&task)?))).collect()
}

#[test]
fn no_thread_of_the_library_can_be_given_a_signal() {
    let receiver = Receiver::start().unwrap();
    let before = not_blocked(Path::new("/proc/thread-self"));
    let config = Config::new()
        .exporter(Exporter::http(receiver.endpoint()).id("http"))
        .exporter(Exporter::grpc(receiver.grpc_endpoint()).id("grpc"));
    let telemetry = Telemetry::start(config).unwrap();
    telemetry.tracer("shop").span("checkout").end();
    // a thread that has done something has its name
    assert_eq!(telemetry.flush(PATIENCE), Flushed::Complete);
    let threads = threads_named("standpipe-");
    for name in ["standpipe-http", "standpipe-grpc", "standpipe-door", "standpipe-in-"] {
        assert!(threads.iter().any(|(thread, _)| thread.starts_with(name)), "no {name} in {threads:?}");
    }
    for (name, signals) in threads {
        assert_eq!(signals, 0, "{name} can be given {signals:#x}");
    }
    assert_eq!(not_blocked(Path::new("/proc/thread-self")), before, "the caller's own signals changed");
}
