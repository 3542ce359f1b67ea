//! The spool under system faults: the OOM killer, a full disk, failing system calls, an outage of half a minute.
//!
//! The short forms run with all tests; `tests/faults/run` sets variables that make them longer.

#![cfg(target_os = "linux")]

mod calls;
mod disk;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, Exporter, FlushOutcome, Telemetry};

use crate::spool::{MAX_RECORDS, Progress, emit, emit_and_note, places, private, survives};
use crate::support::process::{self, Child};
use crate::support::{figures, memory, share_of, size_within, skip};

const MIB: u64 = 1 << 20;
/// Maximum time for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

/// Emits on a thread. Calls `die` once the number of accepted records reaches the last word of the task.
fn die_under_load(task: &str, die: impl FnOnce()) {
    let (task, target) = task.rsplit_once(' ').unwrap();
    let progress = Progress::open(Path::new(task.split(' ').nth(2).unwrap()));
    let task = task.to_owned();
    let emitter = thread::spawn(move || emit_and_note(&task, MAX_RECORDS));
    progress.wait_for(target.parse().unwrap());
    die();
    drop(emitter.join());
}

#[test]
fn every_record_whose_end_has_returned_survives_abort() {
    const NAME: &str = "every_record_whose_end_has_returned_survives_abort";
    if let Some(task) = process::task() {
        return die_under_load(&task, || std::process::abort());
    }
    survives(&places(), "abort", share_of(2).into(), |task, _, target| {
        Child::start(NAME, &format!("{task} {target}")).wait_for_end();
    });
}

#[test]
fn every_record_whose_end_has_returned_survives_the_oom_killer() {
    const NAME: &str = "every_record_whose_end_has_returned_survives_the_oom_killer";
    const LIMIT: u64 = 64 * MIB;
    if let Some(task) = process::task() {
        let (group, task) = task.split_once(' ').unwrap();
        fs::write(format!("{group}/cgroup.procs"), "0").unwrap();
        return die_under_load(task, || {
            let hoard: Vec<_> = (0..8 * LIMIT / MIB).map(|_| vec![1_u8; MIB as usize]).collect();
            panic!("{} MiB are allocated, and the process lives", hoard.len());
        });
    }
    if let Err(error) = MemoryGroup::new(LIMIT) {
        return skip(format_args!("no limit on memory can be set here: {error}"));
    }
    survives(&places(), "OOM kill", share_of(2).into(), |task, _, target| {
        // Each process gets a new group, because files in memory that a process leaves behind count against its group.
        let group = MemoryGroup::new(LIMIT).unwrap();
        Child::start(NAME, &format!("{} {task} {target}", group.path.display())).wait_for_end();
        assert_eq!(group.kills(), 1, "it did not die by the OOM killer");
    });
}

/// A control group below that of this process, with a memory limit; removed on drop.
struct MemoryGroup {
    path: PathBuf,
}

impl MemoryGroup {
    fn new(bytes: u64) -> io::Result<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let of = |line: &str| Some(line.split(':').nth(1)?.split(',').any(|name| name == "memory"));
        // Version 1 of control groups has a separate hierarchy for memory, version 2 has one for all resources.
        let (line, root, limit) = match groups.lines().find(|line| of(line) == Some(true)) {
            Some(line) => (line, "/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            None => (groups.lines().next().unwrap_or_default(), "/sys/fs/cgroup", "memory.max"),
        };
        let own = line.splitn(3, ':').nth(2).unwrap_or("/");
        let path = PathBuf::from(format!("{root}{own}")).join(format!("standpipe-{}", std::process::id()));
        fs::create_dir(&path)?;
        let group = Self { path };
        fs::write(group.path.join(limit), bytes.to_string())?;
        // Swap would only make the test slower. Not every system has this file.
        let _ = fs::write(group.path.join("memory.swap.max"), "0");
        Ok(group)
    }

    /// Returns the number of processes that the OOM killer has killed in the group.
    fn kills(&self) -> u64 {
        let read = |name| fs::read_to_string(self.path.join(name));
        let events = read("memory.events").or_else(|_| read("memory.oom_control")).unwrap();
        events.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok()).unwrap()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let by = Instant::now() + Duration::from_secs(5);
        // The kernel may need a moment to remove the last process.
        while fs::remove_dir(&self.path).is_err() && Instant::now() < by {
            thread::park_timeout(Duration::from_millis(1));
        }
    }
}

/// Records per second while the collector is unreachable.
fn rate() -> u64 {
    size_within(1000..=5000).into()
}

#[test]
fn an_outage_leaves_memory_as_it_was_and_loses_nothing() {
    const NAME: &str = "an_outage_leaves_memory_as_it_was_and_loses_nothing";
    let seconds = figures::amount("STANDPIPE_OUTAGE_SECONDS", 2);
    if let Some(task) = process::task() {
        return live_through_an_outage(&task, seconds);
    }
    let rate = rate();
    let (spool, receiver) = (private(), Receiver::builder().keep_bytes(0).start().unwrap());
    let mut child = Child::start(NAME, &format!("{} {}", receiver.endpoint(), spool.path().display()));
    assert_eq!(child.next_report(), "warm");
    receiver.always(Answer::status(503));
    let_go_on(spool.path());
    assert_eq!(child.next_report(), "spooled");
    receiver.behave();
    let_go_on(spool.path());
    let reports = child.finish();
    let numbers: Vec<u64> = reports.iter().map(|report| report.parse().unwrap()).collect();
    let [before, during, after, delivered, millis] = numbers[..] else { panic!("{reports:?}") };
    assert_eq!((delivered, receiver.span_count()), (rate * (seconds + 1), rate * (seconds + 1)));
    let mib = |bytes: u64| bytes as f64 / MIB as f64;
    figures::show(format!(
        "{} records in {seconds} s without a collector, all delivered {:.1} s after its return; peak memory before, during, \
         after: {:.1}, {:.1}, {:.1} MiB",
        rate * seconds,
        millis as f64 / 1000.0,
        mib(before),
        mib(during),
        mib(after),
    ));
    let most = before + 6 * MIB;
    assert!(during <= most && after <= most, "{before}, {during}, {after}");
}

/// Lets the waiting child continue.
fn let_go_on(spool: &Path) {
    fs::write(spool.with_extension("go"), "").unwrap();
}

fn wait_to_go_on(spool: &Path) {
    let by = Instant::now() + PATIENCE;
    while fs::remove_file(spool.with_extension("go")).is_err() {
        assert!(Instant::now() < by, "the parent does not go on");
        thread::sleep(Duration::from_millis(1));
    }
}

fn live_through_an_outage(task: &str, seconds: u64) {
    let rate = rate();
    let (endpoint, spool) = task.split_once(' ').unwrap();
    let spool = Path::new(spool);
    let exporter = Exporter::http(endpoint).spool(spool);
    let telemetry = Telemetry::start(Config::new().service_name("shop").exporter(exporter)).unwrap();
    let tracer = telemetry.tracer("shop");
    let peak = |work: &dyn Fn()| {
        assert!(memory::forget_peak(), "the kernel cannot forget a peak");
        work();
        memory::resident_peak().expect("the kernel says what was held")
    };
    // At an even pace: the clock determines how many records are due.
    let emit_for = |seconds: u64| {
        let (begun, mut emitted) = (Instant::now(), 0);
        while emitted < seconds * rate {
            let due = (begun.elapsed().as_micros() as u64 * rate / 1_000_000).min(seconds * rate);
            emit(&tracer, seconds, emitted..due);
            emitted = due;
            thread::sleep(Duration::from_millis(1));
        }
    };
    let before = peak(&|| {
        emit_for(1);
        assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    });
    process::report("warm");
    wait_to_go_on(spool);
    let during = peak(&|| emit_for(seconds));
    // The worker may still be writing records to the spool.
    let expected = rate * seconds / 2;
    disk::wait_until(&telemetry, |ledger| ledger.total().spooled >= expected);
    let counts = telemetry.ledger().total();
    assert_eq!((counts.delivered, counts.lost()), (rate, 0), "{counts}");
    assert!(counts.spooled >= expected, "{counts}");
    process::report("spooled");
    wait_to_go_on(spool);
    let back = Instant::now();
    let after = peak(&|| {
        assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    });
    let took = back.elapsed();
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!((ledger.lost(), ledger.total().spooled), (0, 0), "{ledger}");
    for number in [before, during, after, ledger.total().delivered, took.as_millis() as u64] {
        process::report(number);
    }
}
