//! A disk that is full, or becomes full: a tmpfs that only the child of a test sees.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{self, TryRecvError};
use std::time::{Duration, Instant};
use std::{fs, io, ptr, thread};

use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, Exporter, Ledger, Problem, ProblemKind, Telemetry, WhenFull};

use super::{MIB, PATIENCE};
use crate::spool::{NOWHERE, arrived, emit, exporter, files, private};
use crate::support::process::{self, Child, command};
use crate::support::{figures, size_within, skip};

/// Mounts an empty file system on a directory, visible only to the process of a command. It disappears with the
/// process.
#[allow(unsafe_code)]
fn mount_tmpfs(command: &mut Command, directory: &Path, bytes: u64) {
    let target = CString::new(directory.as_os_str().as_bytes()).unwrap();
    let options = CString::new(format!("size={bytes},mode=700")).unwrap();
    // SAFETY: both calls only return numbers
    let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
    let (user, group) = (format!("0 {user} 1"), format!("0 {group} 1"));
    let mount = move || {
        let checked = |result| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
        // SAFETY: the calls affect only this process, which has one thread; all strings outlive them
        unsafe {
            if libc::unshare(libc::CLONE_NEWNS) != 0 {
                // A user without the right to mount gets this right as root of a new user namespace.
                checked(libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS))?;
                fs::write("/proc/self/setgroups", "deny")?;
                fs::write("/proc/self/gid_map", &group)?;
                fs::write("/proc/self/uid_map", &user)?;
            }
            let (none, private) = (ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
            checked(libc::mount(none, c"/".as_ptr(), none, private, none.cast()))?;
            let tmpfs = c"tmpfs".as_ptr();
            checked(libc::mount(tmpfs, target.as_ptr(), tmpfs, 0, options.as_ptr().cast()))
        }
    };
    // SAFETY: between fork and exec, `mount` only makes system calls, and allocates memory only for an error
    unsafe { command.pre_exec(mount) };
}

/// MiB of the disk that a test fills.
fn mib_to_fill() -> u64 {
    size_within(5..=8).into()
}

/// Runs a test again on a disk of this size and shows its figures, or prints that this system does not allow it.
fn run_on_a_disk_of(mut command: Command, bytes: u64) {
    let directory = private();
    mount_tmpfs(command.env("DISK_OF_TEST", directory.path()), directory.path(), bytes);
    match Child::start_command(&mut command) {
        Ok(child) => child.finish().iter().for_each(figures::show),
        Err(error) => skip(format_args!("no file system can be mounted here: {error}")),
    }
}

fn disk() -> String {
    std::env::var("DISK_OF_TEST").unwrap()
}

#[test]
fn a_start_on_a_disk_without_room_is_refused_with_words_and_leaves_nothing() {
    const NAME: &str = "a_start_on_a_disk_without_room_is_refused_with_words_and_leaves_nothing";
    if process::task().is_none() {
        return run_on_a_disk_of(command(NAME, "start"), MIB);
    }
    let spool = Path::new(&disk()).join("spool");
    let config = Config::new().service_name("shop").exporter(exporter(NOWHERE, &spool));
    let refusal = Telemetry::start(config).map(drop).unwrap_err().to_string();
    assert!(refusal.contains("spool\"") && refusal.contains("No space left on device"), "{refusal}");
    assert_eq!(files(&spool).len(), 0);
    process::report(format!("1 MiB: \"{}\"", refusal.replace(&disk(), "…")));
}

#[test]
fn callers_wait_while_the_disk_is_full_and_nothing_is_lost() {
    const NAME: &str = "callers_wait_while_the_disk_is_full_and_nothing_is_lost";
    if process::task().is_none() {
        return run_on_a_disk_of(command(NAME, "fill"), mib_to_fill() * MIB);
    }
    fill_and_make_room("callers wait", WhenFull::Block);
}

#[test]
fn records_are_dropped_and_counted_while_the_disk_is_full_and_the_queue_lossy() {
    const NAME: &str = "records_are_dropped_and_counted_while_the_disk_is_full_and_the_queue_lossy";
    if process::task().is_none() {
        return run_on_a_disk_of(command(NAME, "fill"), mib_to_fill() * MIB);
    }
    fill_and_make_room("lossy", WhenFull::DropNewest);
}

/// Emits until the disk is full, frees space, then lets the collector recover.
fn fill_and_make_room(policy: &str, when_full: WhenFull) {
    let disk = disk();
    let (spool, ballast) = (Path::new(&disk).join("spool"), Path::new(&disk).join("ballast"));
    let mib = mib_to_fill();
    fs::write(&ballast, vec![1; (mib * MIB / 4) as usize]).unwrap();
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::status(503));
    let (reported, problems) = mpsc::channel();
    let exporter = Exporter::http(receiver.endpoint())
        .queue_bytes(64 << 10)
        .throttle(Duration::ZERO)
        .block_timeout(None)
        .retry_delays(Duration::from_millis(1), Duration::from_millis(20))
        .when_full(when_full)
        .spool(&spool);
    let hook = move |problem: &Problem| drop(reported.send((problem.kind, problem.to_string())));
    let telemetry = Telemetry::start(Config::new().exporter(exporter).on_problem(hook)).unwrap();
    let tracer = telemetry.tracer("shop");
    let (is_over, over) = mpsc::channel::<()>();
    let emitter = thread::spawn(move || {
        let goes_on = |_: &u64| over.try_recv() == Err(TryRecvError::Empty);
        (0..).take_while(goes_on).inspect(|number| emit(&tracer, 0, *number..number + 1)).count() as u64
    });
    let full = |_: &Ledger| {
        problems.try_iter().any(|(kind, text)| {
            kind == ProblemKind::Spool && text.contains("stays in memory: No space left on device")
        })
    };
    wait_until(&telemetry, full);
    if when_full == WhenFull::DropNewest {
        wait_until(&telemetry, |ledger| ledger.total().not_enqueued.queue_full > 0);
    }
    let when_full_at = telemetry.ledger().total();
    fs::remove_file(&ballast).unwrap();
    // The freed space has room for more than a third of the previously spooled records.
    wait_until(&telemetry, |ledger| ledger.total().spooled > when_full_at.spooled * 4 / 3);
    receiver.behave();
    drop(is_over);
    let records = emitter.join().unwrap();
    let ledger = telemetry.shutdown(PATIENCE);
    let total = ledger.total();
    assert_eq!((total.accepted, total.spooled), (total.delivered, 0), "{ledger}");
    assert_eq!(total.accepted + total.not_enqueued.queue_full, records, "{ledger}");
    assert_eq!(ledger.lost(), total.not_enqueued.queue_full, "{ledger}");
    match when_full {
        WhenFull::Block => assert_eq!(ledger.lost(), 0, "{ledger}"),
        _ => assert!(ledger.lost() > 0, "{ledger}"),
    }
    assert_eq!(files(&spool).len(), 0);
    let arrived = arrived(&[&receiver]);
    assert!(arrived.len() as u64 == total.delivered && arrived.values().all(|times| *times == 1));
    process::report(format!(
        "{mib} MiB, {policy}: full at {}, {} of {records} delivered, {} dropped and counted",
        when_full_at.spooled,
        total.delivered,
        ledger.lost()
    ));
}

pub(super) fn wait_until(telemetry: &Telemetry, is_so: impl Fn(&Ledger) -> bool) {
    let by = Instant::now() + PATIENCE;
    while !is_so(&telemetry.ledger()) {
        assert!(Instant::now() < by, "{}", telemetry.ledger());
        thread::park_timeout(Duration::from_millis(1));
    }
}
