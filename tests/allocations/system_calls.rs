//! In the steady state, emitting makes no system call on the calling thread. A seccomp filter kills the process at the
//! first system call.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::fs;
use std::time::Duration;

use standpipe::config::Proxy;
use standpipe::receiver::Receiver;
use standpipe::{Config, Exporter, FlushOutcome, Telemetry};

use crate::support::{process, skip};

const LONG: Duration = Duration::from_secs(30);
/// Number of records of each kind, which fill several chunks of the queue.
const RECORDS: usize = 1000;

/// Forbids all system calls of this thread except the end of the process.
#[allow(unsafe_code, reason = "std knows no filter of system calls")]
fn forbid_system_calls() {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let jump = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let done = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jf| libc::sock_filter { code, jt: 0, jf, k };
    // The first word of the filter's input is the number of the system call.
    let mut steps = [
        step(load, 0, 0),
        step(jump, libc::SYS_exit_group as u32, 1),
        step(done, libc::SECCOMP_RET_ALLOW, 0),
        step(done, libc::SECCOMP_RET_KILL_PROCESS, 0),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the arguments are those of the manual; the kernel copies the program, which outlives the call.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            | libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    assert_eq!(refused, 0, "{}", std::io::Error::last_os_error());
}

/// Returns whether a program reads the clocks of the system without a system call.
fn has_fast_clocks() -> bool {
    let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    source.is_ok_and(|name| matches!(name.trim_end(), "tsc" | "kvm-clock" | "arch_sys_counter"))
}

#[test]
#[allow(unsafe_code, reason = "std ends a process with further system calls")]
fn emitting_makes_no_system_call() {
    let Some(endpoint) = process::task() else {
        if !has_fast_clocks() {
            return skip("the clocks of this machine need system calls");
        }
        let receiver = Receiver::start().unwrap();
        // If the worker takes a chunk at the same moment, a caller may wait for the lock with a system call. So one
        // quiet run of five is enough.
        let mut runs =
            (0..5).map(|_| process::command("emitting_makes_no_system_call", &receiver.endpoint()));
        let is_quiet = runs.any(|mut child| child.status().unwrap().success());
        return assert!(is_quiet, "the signal SIGSYS (31) means that there was a system call");
    };
    // The worker sends only at a flush.
    let exporter = Exporter::http(endpoint).proxy(Proxy::Off).throttle(Duration::from_secs(3600));
    let exporter = exporter.linger(Duration::from_secs(3600)).queue_records(1 << 20).queue_bytes(1 << 30);
    let telemetry = Telemetry::start(Config::new().exporter(exporter.batch_records(1 << 20))).unwrap();
    let (tracer, logger) = (telemetry.tracer("shop"), telemetry.logger("shop"));
    let orders = telemetry.meter("shop").counter("orders");
    let emit = |count| {
        (0..count).for_each(|_| {
            let mut span = tracer.span("checkout");
            span.set("order.id", 4711).set("currency", "SEK");
            logger.info("paid").set("amount", 12.5).emit();
            orders.add(1, &[("shop.country", "SE"), ("shop.kind", "web")]);
            orders.add(1, &[]);
        });
    };
    emit(RECORDS);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    // The first record of an empty queue wakes the worker, which then rests until the linger is over.
    emit(1);
    forbid_system_calls();
    emit(RECORDS);
    // SAFETY: ends this process at once.
    unsafe { libc::_exit(0) }
}
