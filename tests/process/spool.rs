//! Accepted records survive their process, and records that a collector cannot accept wait on disk.

#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use standpipe::ledger::Counts;
use standpipe::receiver::{Answer, Batch, ReceivedSpan, Receiver};
use standpipe::{Config, Exporter, Problem, ProblemKind, Signal, Telemetry, Tracer, WhenFull};

use crate::support::process::{self, Child};
use crate::support::scratch::Scratch;
use crate::support::{figures, share_of, size_within};

/// Maximum time for an expected event.
const PATIENCE: Duration = Duration::from_secs(30);
/// An endpoint on which nothing listens.
pub(crate) const NOWHERE: &str = "http://127.0.0.1:9";
/// Small, so that a test can have many recorders.
const QUEUE_BYTES: usize = 1 << 20;
/// A batch has at most an eighth of the queue's bytes, and a record has at least 64 bytes.
const MAX_BATCH_RECORDS: u64 = QUEUE_BYTES as u64 / 8 / 64;
/// More than a process emits before it dies.
pub(crate) const MAX_RECORDS: u64 = 2_000_000;

/// A directory on a disk, and one in memory.
pub(crate) fn places() -> [Scratch; 2] {
    [private(), private_in(Path::new("/dev/shm"))]
}

pub(crate) fn private() -> Scratch {
    private_in(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

fn private_in(place: &Path) -> Scratch {
    let scratch = Scratch::new_in(place);
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o700)).unwrap();
    scratch
}

pub(crate) fn exporter(endpoint: &str, spool: &Path) -> Exporter {
    Exporter::http(endpoint).queue_bytes(QUEUE_BYTES).throttle(Duration::ZERO).spool(spool)
}

pub(crate) fn start(exporter: Exporter) -> Telemetry {
    Telemetry::start(Config::new().service_name("shop").exporter(exporter)).unwrap()
}

pub(crate) fn emit(tracer: &Tracer, run: u64, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| {
        tracer.span_builder("work").set("run", run as i64).set("number", number as i64).start().end()
    });
}

/// Number of arrivals of each record, by run and record number.
pub(crate) type Arrived = HashMap<(u64, u64), u64>;

pub(crate) fn arrived(receivers: &[&Receiver]) -> Arrived {
    let mut arrived = HashMap::new();
    receivers.iter().flat_map(|receiver| receiver.spans()).for_each(|span| note(&mut arrived, &span));
    arrived
}

fn note(arrived: &mut Arrived, span: &ReceivedSpan) {
    let attribute = |key: &str| span.attribute(key).as_i64().unwrap() as u64;
    *arrived.entry((attribute("run"), attribute("number"))).or_insert(0) += 1;
}

/// Starts a receiver that counts arrivals and keeps no records, because there may be too many to keep.
fn noting_receiver() -> (Receiver, Arc<Mutex<Arrived>>) {
    let arrived = Arc::new(Mutex::new(Arrived::new()));
    let noted = Arc::clone(&arrived);
    let on_batch = move |batch: &Batch| {
        let mut noted = noted.lock().unwrap();
        batch.spans.iter().for_each(|span| note(&mut noted, span));
    };
    (Receiver::builder().keep_bytes(0).on_batch(on_batch).start().unwrap(), arrived)
}

pub(crate) fn files(spool: &Path) -> Vec<PathBuf> {
    fs::read_dir(spool).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Waits until no worker holds a file. On a busy machine, a worker may end after its deadline.
fn wait_for_release(spool: &Path) {
    let by = Instant::now() + PATIENCE;
    while standpipe::spool::inspect(spool).unwrap().iter().any(|instance| instance.is_running) {
        assert!(Instant::now() < by, "a worker does not end");
        thread::park_timeout(Duration::from_millis(1));
    }
}

/// Delivers the records in the spool, and emits no others.
pub(crate) fn deliver(receiver: &Receiver, spool: &Path) -> Counts {
    // The budget is large, because 200 processes may have left millions of records.
    let ledger = start(exporter(&receiver.endpoint(), spool)).shutdown(10 * PATIENCE);
    assert_eq!(files(spool), Vec::<PathBuf>::new(), "{ledger}");
    ledger.total()
}

/// A number that the parent process sees as well, in a file of eight bytes.
pub(crate) struct Progress {
    shared: &'static AtomicU64,
}

impl Progress {
    #[allow(unsafe_code)]
    pub(crate) fn open(path: &Path) -> Self {
        use std::os::fd::AsRawFd;

        let file =
            fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        file.set_len(8).unwrap();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: eight bytes of a file of this length, used only as an atomic number, and mapped until the process
        // ends
        let shared = unsafe {
            let map = libc::mmap(std::ptr::null_mut(), 8, access, libc::MAP_SHARED, file.as_raw_fd(), 0);
            assert_ne!(map, libc::MAP_FAILED);
            &*map.cast::<AtomicU64>()
        };
        Self { shared }
    }

    fn get(&self) -> u64 {
        self.shared.load(Ordering::SeqCst)
    }

    pub(crate) fn wait_for(&self, target: u64) {
        let by = Instant::now() + PATIENCE;
        while self.get() < target && Instant::now() < by {
            thread::park_timeout(Duration::from_micros(50));
        }
    }
}

/// A task of a child: where to send, where to spool, where to note its progress, and the number of the run.
fn child_task(endpoint: &str, spool: &Path, progress: &Path, run: u64) -> String {
    format!("{endpoint} {} {} {run}", spool.display(), progress.display())
}

/// Emits until the process is killed or has emitted `most` records.
pub(crate) fn emit_and_note(task: &str, most: u64) -> Telemetry {
    let words: Vec<&str> = task.split(' ').collect();
    let [endpoint, spool, progress, run] = words[..] else { panic!("{task}") };
    let progress = Progress::open(Path::new(progress));
    let telemetry = start(exporter(endpoint, Path::new(spool)));
    let tracer = telemetry.tracer("shop");
    for number in 0..most {
        emit(&tracer, run.parse().unwrap(), number..number + 1);
        progress.shared.store(number + 1, Ordering::SeqCst);
    }
    telemetry
}

/// Lets processes die under load, each at another moment. Repeats this with the spool in each of `places`. Asserts that
/// no accepted record is lost. `STANDPIPE_KILLS` sets the number of deaths. `die` receives the process's task and the
/// number of records after which the process must die.
pub(crate) fn survives(places: &[Scratch], how: &str, usual: u64, mut die: impl FnMut(&str, &Progress, u64)) {
    let deaths = figures::amount("STANDPIPE_KILLS", usual);
    for spool in places {
        let (receiver, arrived) = noting_receiver();
        let progress_path = spool.path().with_extension("progress");
        let mut accepted = Vec::new();
        for run in 0..deaths {
            let _ = fs::remove_file(&progress_path);
            let progress = Progress::open(&progress_path);
            let target =
                1 + (run * 7919 + u64::from(std::process::id())) % u64::from(size_within(1500..=6000));
            die(&child_task(&receiver.endpoint(), spool.path(), &progress_path, run), &progress, target);
            accepted.push(progress.get());
            assert!(progress.get() >= target, "run {run}: {}", progress.get());
            // Each earlier death may have caused one batch to be sent again: the collector had received the batch,
            // and the process had not noted that yet.
            let again = sent_again(&arrived.lock().unwrap());
            assert!(again <= run * MAX_BATCH_RECORDS, "{again} sent again after {run} deaths");
        }
        let counts = deliver(&receiver, spool.path());
        fs::remove_file(&progress_path).unwrap();
        let arrived = arrived.lock().unwrap();
        for (run, accepted) in (0..).zip(&accepted) {
            let lost = (0..*accepted).filter(|number| !arrived.contains_key(&(run, *number))).count();
            assert_eq!(lost, 0, "run {run}: {lost} of {accepted} lost");
        }
        let again = sent_again(&arrived);
        assert!(again <= deaths * MAX_BATCH_RECORDS, "{again} sent again after {deaths} deaths");
        let (place, records) = (file_system(spool.path()), arrived.len());
        figures::show(format!("{deaths} × {how} on {place}: {records} records, 0 lost, {again} sent twice"));
        println!("the last start: {counts}");
    }
}

fn sent_again(arrived: &Arrived) -> u64 {
    arrived.values().map(|times| times - 1).sum()
}

fn file_system(path: &Path) -> &str {
    if path.starts_with("/dev/shm") { "tmpfs" } else { "disk" }
}

#[test]
fn every_record_whose_end_has_returned_survives_kill_9() {
    const NAME: &str = "every_record_whose_end_has_returned_survives_kill_9";
    if let Some(task) = process::task() {
        return drop(emit_and_note(&task, MAX_RECORDS));
    }
    survives(&places(), "kill -9", size_within(2..=5).into(), |task, progress, target| {
        let mut child = Child::start(NAME, task);
        progress.wait_for(target);
        child.kill();
    });
}

#[test]
fn records_survive_abort_and_exit_and_a_panic_that_aborts() {
    const NAME: &str = "records_survive_abort_and_exit_and_a_panic_that_aborts";
    if let Some(task) = process::task() {
        let (task, end) = task.rsplit_once(' ').unwrap();
        let telemetry = emit_and_note(task, 1000);
        match end {
            "abort" => std::process::abort(),
            "exit" => std::process::exit(3),
            _ => std::mem::forget(telemetry),
        }
        // The effect of `panic = "abort"`.
        std::panic::set_hook(Box::new(|_| std::process::abort()));
        panic!("as asked");
    }
    let receiver = Receiver::start().unwrap();
    for spool in places() {
        for (run, end) in (0..).zip(["abort", "exit", "panic"]) {
            let progress = spool.path().with_extension("progress");
            let task = child_task(NOWHERE, spool.path(), &progress, run);
            Child::start(NAME, &format!("{task} {end}")).wait_for_end();
            fs::remove_file(progress).unwrap();
        }
        let counts = deliver(&receiver, spool.path());
        assert!(counts.recovered >= 3000 && counts.lost() == 0, "{counts}");
        let arrived = arrived(&[&receiver]);
        assert_eq!(arrived.len(), 3000, "{counts}");
    }
}

#[test]
fn an_outage_costs_nothing_however_small_the_queue_is() {
    let spool = private();
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::status(503));
    let small = exporter(&receiver.endpoint(), spool.path()).queue_records(100).block_timeout(None);
    let telemetry = start(small.retry_delays(Duration::from_millis(1), Duration::from_millis(50)));
    let tracer = telemetry.tracer("shop");
    // Far more than the queue can hold: without the spool, the caller would wait forever.
    emit(&tracer, 0, 0..5000);
    let during = telemetry.ledger().total();
    assert_eq!((during.accepted, during.delivered), (5000, 0), "{during}");
    assert!(during.spooled > 4000 && during.accepted == during.spooled + during.in_flight, "{during}");
    receiver.behave();
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!((ledger.total().delivered, ledger.lost(), ledger.total().spooled), (5000, 0, 0), "{ledger}");
    let numbers =
        receiver.spans().iter().map(|span| span.attribute("number").as_i64().unwrap()).collect::<Vec<_>>();
    assert_eq!(numbers, (0..5000).collect::<Vec<_>>(), "each once, and oldest first");
    assert_eq!(files(spool.path()), Vec::<PathBuf>::new());
}

/// An exporter with a small queue, whose first attempt lasts longer than the test.
fn hanging(endpoint: &str, spool: &Path) -> Exporter {
    // With these limits, a batch has more than one chunk.
    let small = exporter(endpoint, spool).queue_records(2000).batch_records(1000);
    small.timeout(PATIENCE).block_timeout(None).linger(PATIENCE)
}

#[test]
fn a_collector_that_never_answers_fills_the_disk_and_not_the_queue() {
    let spool = private();
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let telemetry = start(hanging(&receiver.endpoint(), spool.path()));
    let tracer = telemetry.tracer("shop");
    // Far more than the queue can hold, all during the first attempt: without the spool, the caller would wait for the
    // end of the attempt.
    let records = size_within(8000..=20_000).into();
    emit(&tracer, 0, 0..records);
    let during = telemetry.ledger();
    let total = during.total();
    assert_eq!((total.accepted, total.delivered, during.exporters[0].attempts), (records, 0, 1), "{during}");
    assert!(total.spooled > records - 5000 && total.accepted == total.spooled + total.in_flight, "{during}");
    receiver.resume();
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!(
        (ledger.total().delivered, ledger.lost(), ledger.total().spooled),
        (records, 0, 0),
        "{ledger}"
    );
    let numbers =
        receiver.spans().iter().map(|span| span.attribute("number").as_i64().unwrap()).collect::<Vec<_>>();
    assert_eq!(numbers, (0..records as i64).collect::<Vec<_>>(), "each once, and oldest first");
}

#[test]
fn a_process_that_dies_while_its_collector_hangs_leaves_no_record_twice() {
    const NAME: &str = "a_process_that_dies_while_its_collector_hangs_leaves_no_record_twice";
    let records = size_within(5000..=20_000).into();
    if let Some(task) = process::task() {
        let [endpoint, spool, delivered] = task.split(' ').collect::<Vec<_>>()[..] else { panic!("{task}") };
        let telemetry = start(hanging(endpoint, Path::new(spool)));
        let tracer = telemetry.tracer("shop");
        // One batch, which fills half of the queue.
        emit(&tracer, 0, 0..1000);
        let (delivered, by) = (delivered.parse().unwrap(), Instant::now() + PATIENCE);
        while telemetry.ledger().total().delivered < delivered && Instant::now() < by {
            thread::park_timeout(Duration::from_millis(1));
        }
        emit(&tracer, 0, 1000..records);
        process::report("emitted");
        return thread::sleep(2 * PATIENCE);
    }
    // In the first case the whole batch hangs; in the second case, only its second half does.
    for (before, delivered) in [(vec![], 0), (vec![Answer::status(413), Answer::ok()], 500)] {
        let (spool, receiver) = (private(), Receiver::start().unwrap());
        receiver.script(before);
        receiver.always(Answer::hang());
        let task = format!("{} {} {delivered}", receiver.endpoint(), spool.path().display());
        let mut child = Child::start(NAME, &task);
        // When the child reports `emitted`, the batch that it is sending is also on disk, as the oldest entry of the
        // spool.
        assert_eq!(child.next_report(), "emitted");
        child.kill();
        let next = Receiver::start().unwrap();
        let counts = deliver(&next, spool.path());
        let arrived = arrived(&[&receiver, &next]);
        assert!(arrived.len() as u64 == records && arrived.values().all(|times| *times == 1), "{counts}");
    }
}

#[test]
fn what_a_shutdown_leaves_is_spooled_and_the_next_start_delivers_it() {
    for spool in places() {
        let telemetry = start(exporter(NOWHERE, spool.path()));
        emit(&telemetry.tracer("shop"), 0, 0..700);
        telemetry.logger("shop").info("left behind").emit();
        telemetry.meter("shop").counter("orders").add(3, ());
        let left = telemetry.shutdown(PATIENCE);
        let total = left.total();
        assert_eq!((total.delivered, left.lost(), total.spooled), (0, 0, total.accepted), "{left}");
        let receiver = Receiver::start().unwrap();
        let counts = deliver(&receiver, spool.path());
        assert_eq!(
            (counts.recovered, counts.delivered, counts.lost()),
            (total.spooled, total.spooled, 0),
            "{counts}"
        );
        assert_eq!((receiver.span_count(), receiver.log_count()), (700, 1));
        assert!(receiver.point_count() >= 1);
        assert!(
            receiver.spans().iter().all(|span| span.service_name() == "shop" && span.scope_name() == "shop")
        );
    }
}

#[test]
fn recovered_records_keep_the_instance_id_of_the_process_that_made_them() {
    const NAME: &str = "recovered_records_keep_the_instance_id_of_the_process_that_made_them";
    if let Some(spool) = process::task() {
        let telemetry = start(exporter(NOWHERE, Path::new(&spool)));
        emit(&telemetry.tracer("shop"), 1, 0..3);
        assert_eq!(telemetry.shutdown(Duration::ZERO).total().delivered, 0);
        return;
    }
    let (scratch, receiver) = (private(), Receiver::start().unwrap());
    let path = scratch.path().to_str().unwrap();
    [(); 2].iter().for_each(|()| _ = process::run(NAME, path));
    let telemetry = start(exporter(&receiver.endpoint(), scratch.path()));
    emit(&telemetry.tracer("shop"), 2, 0..3);
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 9);
    let mut records: HashMap<String, usize> = HashMap::new();
    for span in receiver.spans() {
        let id = span.resource_attribute("service.instance.id").as_str().unwrap().to_owned();
        *records.entry(id).or_default() += 1;
    }
    assert_eq!(records.into_values().collect::<Vec<_>>(), [3, 3, 3]);
}

#[test]
fn processes_that_share_a_directory_leave_each_others_files_alone() {
    let spool = private();
    let (first, second) = (start(exporter(NOWHERE, spool.path())), start(exporter(NOWHERE, spool.path())));
    emit(&first.tracer("shop"), 1, 0..10);
    emit(&second.tracer("shop"), 2, 0..10);
    let receiver = Receiver::start().unwrap();
    let third = start(exporter(&receiver.endpoint(), spool.path()));
    let ledger = third.shutdown(PATIENCE);
    assert_eq!(ledger.total().recovered, 0, "both are alive");
    assert_eq!(first.shutdown(PATIENCE).total().spooled, 10);
    assert_eq!(second.shutdown(PATIENCE).total().spooled, 10);
    assert_eq!(deliver(&receiver, spool.path()).recovered, 20);
    assert!(arrived(&[&receiver]).values().all(|times| *times == 1));
}

#[test]
fn delivers_only_records_of_the_same_service_and_exporter_and_reports_the_rest() {
    let spool = private();
    let telemetry = start(exporter(NOWHERE, spool.path()).named("eu"));
    emit(&telemetry.tracer("shop"), 0, 0..10);
    drop(telemetry.shutdown(PATIENCE));
    let receiver = Receiver::start().unwrap();
    for (service, name) in [("shop", "us"), ("bank", "eu")] {
        let (sender, problems) = std::sync::mpsc::channel();
        let other = exporter(&receiver.endpoint(), spool.path()).named(name);
        let hook = move |problem: &Problem| sender.send(problem.clone()).unwrap();
        let config = Config::new().service_name(service).exporter(other).on_problem(hook);
        let telemetry = Telemetry::start(config).unwrap();
        let mut reported = std::iter::from_fn(|| problems.recv_timeout(PATIENCE).ok());
        let problem = reported.find(|problem| problem.kind == ProblemKind::Spool).unwrap();
        assert_eq!(problem.signal, None, "a file may hold several signals: {problem}");
        let words = "left by exporter \"eu\" of service \"shop\"";
        assert!(problem.to_string().contains(words), "{problem}");
        assert_eq!(telemetry.shutdown(PATIENCE).total().recovered, 0);
    }
    assert_eq!(receiver.span_count(), 0);
    let same = start(exporter(&receiver.endpoint(), spool.path()).named("eu"));
    assert_eq!(same.shutdown(PATIENCE).total().recovered, 10);
}

#[test]
fn what_is_too_old_is_dropped_and_counted_also_while_the_collector_is_away() {
    let spool = private();
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::status(503));
    let (sender, problems) = std::sync::mpsc::channel();
    let hook = move |problem: &Problem| drop(sender.send(problem.clone()));
    let exporter = exporter(&receiver.endpoint(), spool.path()).spool_age(Duration::from_millis(500));
    let telemetry = Telemetry::start(Config::new().exporter(exporter).on_problem(hook)).unwrap();
    emit(&telemetry.tracer("shop"), 0, 0..1000);
    let by = Instant::now() + PATIENCE;
    while telemetry.ledger().total().dropped.expired < 1000 {
        assert!(Instant::now() < by, "{}", telemetry.ledger());
        std::thread::sleep(Duration::from_millis(10));
    }
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!((ledger.total().dropped.expired, ledger.lost()), (1000, 1000), "{ledger}");
    assert_eq!(files(spool.path()), Vec::<PathBuf>::new());
    let problem = problems.try_iter().find(|problem| problem.kind == ProblemKind::GaveUp).unwrap();
    assert!(problem.message.contains("spool-age") && problem.signal == Some(Signal::Traces), "{problem}");
}

#[test]
fn an_exporter_that_runs_delivers_what_another_process_leaves_meanwhile() {
    const NAME: &str = "an_exporter_that_runs_delivers_what_another_process_leaves_meanwhile";
    if let Some(task) = process::task() {
        let _telemetry = emit_and_note(&task, 100);
        process::report("emitted");
        return std::thread::park();
    }
    let spool = private();
    let progress = spool.path().with_extension("progress");
    let mut child = Child::start(NAME, &child_task(NOWHERE, spool.path(), &progress, 0));
    assert_eq!(child.next_report(), "emitted");
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver.endpoint(), spool.path()));
    child.kill();
    // The exporter searches the spool for dead processes' files after a second, and then every minute.
    assert!(receiver.wait_for_spans(100, 3 * PATIENCE), "{}", telemetry.ledger());
    fs::remove_file(progress).unwrap();
    let counts = telemetry.shutdown(PATIENCE).total();
    assert_eq!((counts.recovered, counts.accepted, counts.lost()), (counts.delivered, 0, 0), "{counts}");
}

#[test]
fn of_a_request_that_was_divided_only_what_is_left_is_sent_again() {
    let spool = private();
    let telemetry = start(exporter(NOWHERE, spool.path()).linger(Duration::from_secs(60)));
    emit(&telemetry.tracer("shop"), 0, 0..100);
    assert_eq!(telemetry.shutdown(PATIENCE).total().spooled, 100);
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(413), Answer::ok()]);
    receiver.always(Answer::status(503));
    let telemetry = start(exporter(&receiver.endpoint(), spool.path()));
    assert!(receiver.wait_for_requests(3, PATIENCE), "{}", telemetry.ledger());
    let counts = telemetry.shutdown(Duration::from_millis(100)).total();
    assert_eq!((counts.recovered, counts.delivered, counts.spooled), (100, 50, 50), "{counts}");
    wait_for_release(spool.path());
    // A request that the shutdown cut off may still arrive at the first receiver.
    let next = Receiver::start().unwrap();
    assert_eq!(deliver(&next, spool.path()).recovered, 50);
    let arrived = arrived(&[&receiver, &next]);
    assert!(arrived.len() == 100 && arrived.values().all(|times| *times == 1), "{arrived:?}");
}

#[test]
fn a_drain_that_ends_between_the_parts_of_a_request_leaves_the_request_to_its_owner() {
    let spool = private();
    let telemetry = start(exporter(NOWHERE, spool.path()).linger(Duration::from_secs(60)));
    emit(&telemetry.tracer("shop"), 0, 0..100);
    assert_eq!(telemetry.shutdown(PATIENCE).total().spooled, 100);
    let left = files(spool.path()).len();
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(413), Answer::ok()]);
    receiver.always(Answer::status(503));
    let exporter = Exporter::http(receiver.endpoint()).throttle(Duration::ZERO).drain(spool.path());
    let drain = Telemetry::start(Config::new().service_name("drain").exporter(exporter)).unwrap();
    assert!(receiver.wait_for_requests(3, PATIENCE), "{}", drain.ledger());
    assert_eq!(files(spool.path()).len(), left, "a killed drain would leave a file");
    let counts = drain.shutdown(Duration::from_millis(100)).total();
    assert_eq!((counts.recovered, counts.delivered, counts.lost()), (50, 50, 0), "{counts}");
    wait_for_release(spool.path());
    let next = Receiver::start().unwrap();
    assert_eq!(deliver(&next, spool.path()).recovered, 100);
    assert_eq!((next.span_count(), arrived(&[&receiver, &next]).len()), (100, 100));
}

/// Large records leave chunks half empty, or take the space of several chunks.
#[test]
fn large_records_of_a_full_queue_survive_as_well() {
    const NAME: &str = "large_records_of_a_full_queue_survive_as_well";
    let Some(task) = process::task() else {
        let eight = ["300,9000,20000,40000", "11500", "17000", "70000"].map(|sizes| (8, sizes));
        let one = ["1000,32000", "17000"].map(|sizes| (1, sizes));
        for (threads, sizes) in eight.into_iter().chain(one).take(share_of(6) as usize) {
            let spool = private();
            let mut child = Child::start(NAME, &format!("{} {threads} {sizes}", spool.path().display()));
            let accepted = child.next_report();
            child.kill();
            let (receiver, arrived) = noting_receiver();
            deliver(&receiver, spool.path());
            let arrived = arrived.lock().unwrap();
            let is_once = arrived.values().all(|times| *times == 1);
            assert!(arrived.len().to_string() == accepted && is_once, "{threads} threads, {sizes} bytes");
        }
        return;
    };
    let [spool, threads, sizes] = task.split(' ').collect::<Vec<_>>()[..] else { panic!("{task}") };
    let values: Vec<_> = sizes.split(',').map(|size| "x".repeat(size.parse().unwrap())).collect();
    let exporter = exporter(NOWHERE, Path::new(spool))
        .signals([Signal::Traces])
        .queue_bytes(4 << 20)
        .queue_records(100_000)
        .spool_bytes(1 << 20)
        .when_full(WhenFull::DropNewest);
    let telemetry = start(exporter);
    let tracer = telemetry.tracer("shop");
    std::thread::scope(|scope| {
        let threads = threads.parse().unwrap();
        for first in 0..threads {
            let (tracer, values) = (tracer.clone(), &values);
            scope.spawn(move || {
                let values = values.iter().cycle().skip(first).take(1000 / threads);
                for (number, value) in values.enumerate() {
                    let span =
                        tracer.span_builder("work").set("run", first as i64).set("number", number as i64);
                    span.set("large", value.as_str()).start().end();
                }
            });
        }
    });
    let counts = telemetry.ledger().total();
    assert!(counts.not_enqueued.queue_full > 0, "{counts}");
    process::report(counts.accepted);
    std::thread::park_timeout(PATIENCE);
}

#[test]
fn the_ledger_knows_which_records_the_flight_recorder_had_no_room_for() {
    const NAME: &str = "the_ledger_knows_which_records_the_flight_recorder_had_no_room_for";
    let Some(task) = process::task() else {
        let spool = private();
        let reports = process::run(NAME, &spool.path().display().to_string());
        let receiver = Receiver::start().unwrap();
        return assert_eq!(deliver(&receiver, spool.path()).recovered.to_string(), reports[0]);
    };
    let (sender, problems) = std::sync::mpsc::channel();
    let hook = move |problem: &Problem| drop(sender.send(problem.to_string()));
    let exporter = exporter(NOWHERE, Path::new(&task))
        .signals([Signal::Traces])
        .queue_bytes(4 << 20)
        .queue_records(100_000)
        .spool_bytes(1 << 20)
        .when_full(WhenFull::DropNewest);
    let config = Config::new().service_name("shop").exporter(exporter).on_problem(hook);
    let telemetry = Telemetry::start(config).unwrap();
    // Fewer records have longer names, because the spool must not have room for all of them.
    let records = size_within(10_000..=40_000) as usize;
    let name = "work".repeat(if records < 40_000 { 31 } else { 1 });
    // The scopes alternate, so each record is stored with the name of its scope, which takes more space than the
    // record. The queue does not count the name.
    let tracers = ["a", "b"].map(|name| telemetry.tracer(&name.repeat(2000)));
    (0..records).for_each(|number| tracers[number % 2].span_builder(&name).start().end());
    let problem = problems.iter().find(|problem| problem.contains("in memory only")).unwrap();
    assert!(problem.contains("queue-bytes"), "{problem}");
    let counts = telemetry.shutdown(PATIENCE).total();
    assert_eq!(counts.accepted, counts.spooled + counts.dropped.shutdown, "{counts}");
    assert!(counts.dropped.shutdown > 0 && counts.spooled > 500, "{counts}");
    process::report(counts.spooled);
}

#[test]
fn a_directory_that_others_can_use_is_refused_with_words() {
    let scratch = private();
    let refusal = |path: &Path| {
        let config = Config::new().service_name("shop").exporter(exporter(NOWHERE, path));
        Telemetry::start(config).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let open = scratch.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(
        refusal(&open).ends_with("open\": others can use it (mode 755); run chmod 700"),
        "{}",
        refusal(&open)
    );
    let link = scratch.path().join("link");
    symlink(scratch.path(), &link).unwrap();
    assert!(refusal(&link).contains("it is a symbolic link"), "{}", refusal(&link));
    let file = scratch.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(refusal(&file).contains("file\""), "{}", refusal(&file));
    assert!(
        refusal(Path::new("/proc/standpipe")).contains("/proc/standpipe"),
        "{}",
        refusal(Path::new("/proc/standpipe"))
    );
    let made = scratch.path().join("made/for/it");
    assert_eq!(refusal(&made), "");
    assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_forked_child_has_a_file_of_its_own_and_its_records_survive_it() {
    const NAME: &str = "a_forked_child_has_a_file_of_its_own_and_its_records_survive_it";
    let Some(task) = process::task() else {
        let spool = private();
        process::run(NAME, &spool.path().display().to_string());
        let receiver = Receiver::start().unwrap();
        let counts = deliver(&receiver, spool.path());
        assert_eq!(counts.recovered, 30, "{counts}");
        return assert!(arrived(&[&receiver]).values().all(|times| *times == 1));
    };
    let spool = Path::new(&task);
    let telemetry = start(exporter(NOWHERE, spool));
    let tracer = telemetry.tracer("shop");
    emit(&tracer, 0, 0..10);
    // Both the child and this process end without a shutdown.
    assert!(process::in_a_fork(|| {
        emit(&tracer, 1, 0..10);
        files(spool).iter().filter(|path| path.extension().is_some_and(|end| end == "recorder")).count() == 2
    }));
    emit(&tracer, 0, 10..20);
    std::process::exit(0);
}

#[test]
fn a_forked_child_does_not_keep_what_others_have_left_from_the_next_process() {
    const NAME: &str = "a_forked_child_does_not_keep_what_others_have_left_from_the_next_process";
    if process::is_alone(NAME) {
        let spool = private();
        let left = start(exporter(NOWHERE, spool.path()));
        emit(&left.tracer("shop"), 0, 0..10);
        assert_eq!(left.shutdown(PATIENCE).total().spooled, 10);
        let holder = start(exporter(NOWHERE, spool.path()));
        let receiver = Receiver::start().unwrap();
        // The child continues to live while its parent's telemetry ends and another one starts.
        assert!(in_a_fork_meanwhile(|| {
            drop(holder.shutdown(PATIENCE));
            let counts = start(exporter(&receiver.endpoint(), spool.path())).shutdown(PATIENCE).total();
            assert_eq!((counts.recovered, counts.delivered), (10, 10), "{counts}");
        }));
    }
}

#[test]
fn a_hook_may_fork_when_a_child_reports_that_it_cannot_open_the_spool() {
    const NAME: &str = "a_hook_may_fork_when_a_child_reports_that_it_cannot_open_the_spool";
    if process::is_alone(NAME) {
        let spool = private();
        let (reports, reported) = mpsc::channel();
        let hook = move |problem: &Problem| {
            if problem.kind == ProblemKind::Spool {
                // Forks on another thread: if this thread held the fork lock, the other thread would wait for it
                // forever.
                let has_forked = thread::spawn(|| process::in_a_fork(|| true)).join();
                let _ = reports.send(has_forked.unwrap_or(false));
            }
        };
        let config = Config::new().exporter(exporter(NOWHERE, spool.path())).on_problem(hook);
        let telemetry = Telemetry::start(config).unwrap();
        // A directory that others can use is refused.
        fs::set_permissions(spool.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(process::in_a_fork(|| {
            emit(&telemetry.tracer("shop"), 1, 0..1);
            reported.recv_timeout(PATIENCE).unwrap_or(false)
        }));
    }
}

/// Runs `work` while a forked child lives. Returns whether `work` succeeded and the child outlived it.
#[allow(unsafe_code)]
fn in_a_fork_meanwhile(work: impl FnOnce()) -> bool {
    let mut status = 0;
    // SAFETY: the child only waits for a signal, and its alarm bounds that
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(60);
            libc::pause();
            libc::_exit(1);
        }
        assert!(child > 0, "{}", std::io::Error::last_os_error());
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        libc::kill(child, libc::SIGKILL);
        let reaped = libc::waitpid(child, &mut status, 0);
        done.is_ok() && reaped == child && libc::WIFSIGNALED(status)
    }
}

/// Limits the size of files that this process may write.
#[allow(unsafe_code)]
fn limit_files_to(bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure outlives the call; the default action is restored, because the parent may ignore the signal
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
    }
}

#[test]
fn a_limit_of_file_sizes_is_met_with_words_and_ends_no_process() {
    const NAME: &str = "a_limit_of_file_sizes_is_met_with_words_and_ends_no_process";
    if process::is_alone(NAME) {
        let spool = private();
        limit_files_to(100_000);
        let config = Config::new().service_name("shop").exporter(exporter(NOWHERE, spool.path()));
        let refusal = Telemetry::start(config).unwrap_err().to_string();
        assert!(refusal.contains("over this process's limit of 100000 (ulimit -f)"), "{refusal}");
        assert_eq!(files(spool.path()), Vec::<PathBuf>::new());
        // Here a thread of the program writes segments, none of which may exceed the limit, because the signal SIGXFSZ
        // would end the process. Threads of the library block the signal.
        limit_files_to(libc::RLIM_INFINITY);
        let exporter = exporter(NOWHERE, spool.path()).batch_records(100);
        let telemetry = Telemetry::start_manual(Config::new().exporter(exporter)).unwrap();
        limit_files_to(100_000);
        emit(&telemetry.tracer("shop"), 0, 0..5000);
        let ledger = telemetry.shutdown(PATIENCE);
        assert_eq!(ledger.total().spooled + ledger.lost(), 5000, "{ledger}");
        let lens = files(spool.path()).into_iter().filter(|path| path.extension().unwrap() == "segment");
        let lens: Vec<_> = lens.map(|path| fs::metadata(path).unwrap().len()).collect();
        assert!(lens.len() > 1 && lens.iter().all(|len| *len <= 100_000), "{lens:?}");
    }
}

#[test]
fn a_start_without_room_delivers_what_others_have_left() {
    const NAME: &str = "a_start_without_room_delivers_what_others_have_left";
    if process::is_alone(NAME) {
        for room in [100_000, 100] {
            let spool = private();
            let telemetry = start(exporter(NOWHERE, spool.path()));
            emit(&telemetry.tracer("shop"), 0, 0..10);
            assert_eq!(telemetry.shutdown(PATIENCE).total().spooled, 10);
            let receiver = Receiver::start().unwrap();
            limit_files_to(room);
            let (sender, problems) = std::sync::mpsc::channel();
            let hook = move |problem: &Problem| drop(sender.send(problem.clone()));
            let exporter = exporter(&receiver.endpoint(), spool.path());
            let config = Config::new().service_name("shop").exporter(exporter).on_problem(hook);
            let telemetry = Telemetry::start(config).unwrap();
            let problem = problems.iter().find(|problem| problem.kind == ProblemKind::Spool).unwrap();
            assert_eq!(problem.signal, None, "a file may hold several signals: {problem}");
            assert!(
                problem.to_string().contains("queued records are lost if this process dies: a file of"),
                "{problem}"
            );
            emit(&telemetry.tracer("shop"), 1, 0..10);
            let ledger = telemetry.shutdown(PATIENCE);
            assert_eq!((ledger.total().recovered, ledger.total().delivered), (10, 20), "{ledger}");
            assert_eq!(files(spool.path()), Vec::<PathBuf>::new());
            limit_files_to(libc::RLIM_INFINITY);
        }
    }
}
