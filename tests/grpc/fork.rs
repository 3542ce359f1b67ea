//! A forked child has a connection of its own: what it says on it is not mixed with what its parent says.

use standpipe::receiver::Receiver;
use standpipe::{Exporter, Flushed, Proxy, Telemetry};

use super::scene::{LONG, emit, start};
use super::support::process;

/// After so many seconds a child that hangs is ended by the system.
const LONGEST_LIFE: u32 = 20;

/// Runs `work` in a forked child and says whether all was good there.
#[allow(unsafe_code)]
fn in_a_fork(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: this process has no threads but the library's own, whose conduct in a child is the very question.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: only sets a timer whose signal ends this process.
        unsafe { libc::alarm(LONGEST_LIFE) };
        let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(false);
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(if good { 0 } else { 1 }) }
    }
    assert!(child > 0, "cannot fork: {}", std::io::Error::last_os_error());
    let mut status = 0;
    // SAFETY: the child is ours and has not been waited for; `status` outlives the call. The child's alarm bounds it.
    let reaped = unsafe { libc::waitpid(child, &mut status, 0) };
    reaped == child && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

fn delivers(telemetry: &Telemetry, spans: u64) -> bool {
    emit(&telemetry.tracer("shop"), spans);
    telemetry.flush(LONG) == Flushed::Complete
}

#[test]
fn a_child_opens_a_connection_of_its_own_and_the_parent_keeps_its() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let name = "fork::a_child_opens_a_connection_of_its_own_and_the_parent_keeps_its";
        assert_eq!(process::run(name, &receiver.grpc_endpoint()), ["true true true"]);
        assert_eq!(receiver.span_count(), 1 + 20 + 2);
        let connections: Vec<_> = receiver.requests().iter().map(|request| request.connection).collect();
        assert_eq!((connections.first(), connections.last()), (Some(&1), Some(&1)), "{connections:?}");
        assert_eq!(receiver.connection_count(), 2, "{connections:?}");
        return;
    };
    let telemetry = start(Exporter::grpc(endpoint).proxy(Proxy::Off));
    let before = delivers(&telemetry, 1);
    let child = in_a_fork(|| delivers(&telemetry, 20) && telemetry.shutdown(LONG).total().delivered == 20);
    let after = delivers(&telemetry, 2);
    process::report(format!("{before} {child} {after}"));
}
