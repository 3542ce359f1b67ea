//! Runs a child process: forwards signals, polls its output pipes, and returns its exit status and resource usage.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

pub(super) use platform::{Pipe, Stream, await_readable, end_by, is_readable, signal_of, stream};

/// Resources used by a child and by the processes that it waited for.
#[cfg_attr(not(unix), allow(dead_code, reason = "measured on Unix only"))]
pub(super) struct Usage {
    pub(super) user: Duration,
    pub(super) system: Duration,
    /// Peak memory in bytes. `None` if the peak is not higher than the peak of this process: a child is a copy of this
    /// process until it executes its program, so a smaller peak cannot be measured.
    pub(super) max_rss: Option<u64>,
}

/// Starts the command, calls `started`, and waits for the end of the command.
///
/// Signals are forwarded to the child while it runs. Afterwards, SIGTERM, SIGINT, SIGHUP and SIGQUIT end this process,
/// as they do by default, and the other forwarded signals have no effect. A child that runs longer than `timeout` is
/// ended.
pub(super) fn run(
    command: &mut Command,
    timeout: Option<Duration>,
    started: impl FnOnce(&mut Child),
) -> io::Result<Ended> {
    platform::take_signals(command);
    let ended = command.spawn().and_then(|mut child| {
        platform::forward_to(&child);
        started(&mut child);
        platform::wait(&mut child, timeout)
    });
    platform::leave_signals();
    ended
}

/// How a child ended.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// `None` if the system does not report the usage.
    pub(super) usage: Option<Usage>,
    /// Whether the child was ended because of its timeout.
    pub(super) has_timed_out: bool,
}

/// Returns the name of a signal, taken from std's description of a status (`signal: 15 (SIGTERM)`), or else its number.
pub(super) fn signal_name(status: ExitStatus, number: i32) -> String {
    let description = status.to_string();
    let name = description.split(['(', ')']).find(|part| part.starts_with("SIG"));
    name.map_or_else(|| format!("signal {number}"), str::to_owned)
}

#[cfg(unix)]
#[allow(unsafe_code, reason = "std cannot forward signals, poll, or read the resource usage of a child")]
mod platform {
    use std::ffi::c_int;
    use std::fs::File;
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command, ExitStatus};
    use std::ptr;
    use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
    use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
    use std::thread;
    use std::time::Duration;

    use libc::{SIGALRM, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

    use super::{Ended, Usage};
    use crate::cli::interrupt::keep_errno;

    const FORWARDED: [c_int; 7] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH];
    /// The forwarded signals that end this process once there is no child left.
    const ENDING: [c_int; 4] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT];
    /// Signals that end a process without a core dump.
    const WITHOUT_CORE: [c_int; 8] = [SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2, SIGKILL];

    /// Values of [`CHILD`] while no child is running.
    const NOT_STARTED: i32 = 0;
    const ENDED: i32 = -1;

    /// Time between the signals SIGTERM and SIGKILL for a child that runs longer than its timeout.
    const TERMINATION_GRACE: Duration = Duration::from_secs(5);
    /// Locked while a thread sends a signal to the child: meanwhile the child is not reaped, so its id is not reused.
    static KILL: Mutex<()> = Mutex::new(());
    /// Process id of the child that signals are forwarded to.
    pub(super) static CHILD: AtomicI32 = AtomicI32::new(NOT_STARTED);
    /// Signals that other processes sent and that were not forwarded yet: a bit for each number. All numbers are below
    /// 32.
    pub(super) static SENT: AtomicU32 = AtomicU32::new(0);
    /// Signals that the terminal or the kernel sent and that were not forwarded yet. The terminal may have sent them to
    /// the child as well, which [`reaches`] checks once the child exists.
    pub(super) static FROM_SYSTEM: AtomicU32 = AtomicU32::new(0);

    /// Whether this process was started with SIGPIPE ignored. Rust's runtime ignores the signal before `main` begins,
    /// and `Command` resets it to the default in a child, so the disposition is read earlier, by an initializer.
    static IGNORES_SIGPIPE: AtomicBool = AtomicBool::new(false);

    #[used]
    #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
    #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
    static READ_SIGPIPE: extern "C" fn() = read_sigpipe;

    extern "C" fn read_sigpipe() {
        // SAFETY: all zeros are a valid `sigaction`, which outlives the call.
        let is_ignored = unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            libc::sigaction(SIGPIPE, ptr::null(), &raw mut action) == 0
                && action.sa_sigaction == libc::SIG_IGN
        };
        IGNORES_SIGPIPE.store(is_ignored, Ordering::SeqCst);
    }

    /// Installs the handlers that forward signals, and restores the inherited dispositions in the child.
    ///
    /// Ignored signals stay ignored, here and in the child, as after `nohup`. An ignored SIGCHLD is an exception: this
    /// process sets it to the default, because the kernel discards the exit status of a child if SIGCHLD is ignored.
    /// The child ignores it again.
    pub(super) fn take_signals(command: &mut Command) {
        let handler = handle as extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void);
        set_handlers(&FORWARDED, handler as usize);
        // SAFETY: SIG_DFL is a valid disposition.
        let ignores_ends = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) } == libc::SIG_IGN;
        let ignores_broken_pipes = IGNORES_SIGPIPE.load(Ordering::SeqCst);
        let begin = move || {
            // Runs in the child, which has a copy of the signal bits. After the fork, the inherited handler sets bits
            // in this copy. With the default handling restored, the child raises the signals whose bits are set.
            set_handlers(&FORWARDED, libc::SIG_DFL);
            raise(&FORWARDED, SENT.load(Ordering::SeqCst) | FROM_SYSTEM.load(Ordering::SeqCst));
            for (number, is_ignored) in [(libc::SIGCHLD, ignores_ends), (SIGPIPE, ignores_broken_pipes)] {
                if is_ignored {
                    // SAFETY: `signal` is async-signal-safe, and SIG_IGN is a valid disposition.
                    unsafe { libc::signal(number, libc::SIG_IGN) };
                }
            }
            Ok(())
        };
        // SAFETY: the closure calls only async-signal-safe functions.
        unsafe { command.pre_exec(begin) };
    }

    /// Restores the default handling of the signals in [`ENDING`], which end this process. Raises the signals of this
    /// list that have arrived but were not forwarded to a child.
    pub(super) fn leave_signals() {
        set_handlers(&ENDING, libc::SIG_DFL);
        raise(&ENDING, SENT.load(Ordering::SeqCst) | FROM_SYSTEM.load(Ordering::SeqCst));
    }

    /// Raises the signals whose bits are set.
    fn raise(numbers: &[c_int], bits: u32) {
        for &number in numbers.iter().filter(|&&number| bits & (1 << number) != 0) {
            // SAFETY: `raise` has no preconditions and is async-signal-safe.
            unsafe { libc::raise(number) };
        }
    }

    fn set_handlers(numbers: &[c_int], handler: libc::sighandler_t) {
        for &number in numbers {
            // SAFETY: all zeros are a valid `sigaction`, which outlives both calls. The handler is SIG_DFL, or has the
            // signature for SA_SIGINFO and calls only async-signal-safe functions.
            unsafe {
                let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
                if libc::sigaction(number, ptr::null(), &raw mut action) != 0
                    || action.sa_sigaction == libc::SIG_IGN
                {
                    continue;
                }
                action.sa_sigaction = handler;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                libc::sigaction(number, &raw const action, ptr::null_mut());
            }
        }
    }

    /// Sets the child that signals are forwarded to, and forwards the signals that arrived before this call.
    pub(super) fn forward_to(child: &Child) {
        CHILD.store(i32::try_from(child.id()).unwrap_or(ENDED), Ordering::SeqCst);
        forward();
    }

    /// Waits until the child has ended. As process 1 of a container, this process is the parent of all orphans, and
    /// reaps those that end before the child.
    pub(super) fn wait(child: &mut Child, timeout: Option<Duration>) -> io::Result<Ended> {
        let Some(timeout) = timeout else { return wait_without_limit(child) };
        let has_timed_out = AtomicBool::new(false);
        let ended = thread::scope(|scope| {
            // No message is sent: when this closure returns, `_running` is dropped, which wakes the other thread.
            let (_running, end) = mpsc::channel::<()>();
            let has_timed_out = &has_timed_out;
            let limit = move || {
                let is_running = |time| end.recv_timeout(time) == Err(mpsc::RecvTimeoutError::Timeout);
                if is_running(timeout) {
                    has_timed_out.store(true, Ordering::SeqCst);
                    kill(SIGTERM);
                    if is_running(TERMINATION_GRACE) {
                        kill(SIGKILL);
                    }
                }
            };
            let thread = thread::Builder::new().name("standpipe-limit".to_owned());
            // Without the thread, nothing would end the child after the timeout, so the child is ended now.
            thread.spawn_scoped(scope, limit).inspect_err(|_| kill(SIGKILL))?;
            wait_without_limit(child)
        });
        Ok(Ended { has_timed_out: has_timed_out.into_inner(), ..ended? })
    }

    /// Sends a signal to the child, unless it has ended.
    fn kill(number: c_int) {
        let _until_sent = KILL.lock().unwrap_or_else(PoisonError::into_inner);
        let child = CHILD.load(Ordering::SeqCst);
        if child > 0 {
            // SAFETY: `kill` has no preconditions. While `KILL` is locked, the child is not reaped.
            unsafe { libc::kill(child, number) };
        }
    }

    fn wait_without_limit(child: &mut Child) -> io::Result<Ended> {
        let pid = child.id() as libc::pid_t;
        // SAFETY: `getpid` has no preconditions.
        let is_first = unsafe { libc::getpid() } == 1;
        let (kind, id) = if is_first { (libc::P_ALL, 0) } else { (libc::P_PID, child.id() as libc::id_t) };
        loop {
            let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
            // WNOWAIT keeps the child's process id in use until `CHILD` is changed. Otherwise a signal could be
            // forwarded to a new process with the same id.
            // SAFETY: `info` is writable and outlives the call.
            let wait = || unsafe { libc::waitid(kind, id, info.as_mut_ptr(), libc::WEXITED | libc::WNOWAIT) };
            if retry(wait).is_err() {
                break;
            }
            // SAFETY: all zeros are a valid `siginfo_t`, and `waitid` sets the process id.
            match unsafe { info.assume_init().si_pid() } {
                ended if ended == pid => break,
                orphan => drop(reap(orphan)),
            }
        }
        let until_reaped = KILL.lock().unwrap_or_else(PoisonError::into_inner);
        CHILD.store(ENDED, Ordering::SeqCst);
        drop(until_reaped);
        reap(pid)
    }

    /// Removes an ended child from the process table. Returns its status and resource usage.
    fn reap(pid: libc::pid_t) -> io::Result<Ended> {
        let (mut status, mut used) = (0, MaybeUninit::<libc::rusage>::zeroed());
        // SAFETY: both pointers refer to writable variables, which outlive the call.
        retry(|| unsafe { libc::wait4(pid, &raw mut status, 0, used.as_mut_ptr()) })?;
        // SAFETY: all zeros are a valid `rusage`.
        let usage = usage(&unsafe { used.assume_init() });
        Ok(Ended { status: ExitStatus::from_raw(status), usage, has_timed_out: false })
    }

    /// Repeats a system call as long as signals interrupt it.
    fn retry(mut call: impl FnMut() -> c_int) -> io::Result<()> {
        while call() < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Ends this process by the signal that ended the child, because a shell ends a loop at Ctrl-C only if the command
    /// in the loop died by SIGINT.
    ///
    /// Does not raise a signal that would dump core, because the dump would be of the wrong process. Also returns if
    /// the raised signal has no effect, as in process 1 of a container.
    pub(crate) fn end_by(signal: i32) {
        if WITHOUT_CORE.contains(&signal) {
            // SAFETY: SIG_DFL is a valid disposition, and `raise` has no preconditions.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
    }

    pub(super) extern "C" fn handle(number: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: with SA_SIGINFO, the kernel passes a valid `siginfo_t`.
        let came = if is_from_system(unsafe { &*info }) { &FROM_SYSTEM } else { &SENT };
        came.fetch_or(1 << number, Ordering::SeqCst);
        keep_errno(forward);
    }

    /// Returns whether the terminal has sent this signal to the child as well. Such a signal must not be forwarded.
    ///
    /// Ctrl-C, Ctrl-\ and a change of size go to each process of the foreground group. A hang-up goes to the session
    /// leader alone, or to the group if the leader has ended.
    fn reaches(child: i32, number: c_int) -> bool {
        // SAFETY: these calls have no preconditions and are async-signal-safe.
        let (is_of_our_group, leads_session) =
            unsafe { (libc::getpgid(child) == libc::getpgrp(), libc::getsid(0) == libc::getpid()) };
        is_of_our_group && !(number == SIGHUP && leads_session)
    }

    /// Returns whether the kernel sent the signal, and not a process.
    ///
    /// On Linux, `si_code` is not positive if a process sent the signal. The sender's process id is not sufficient: it
    /// is 0 for the kernel, but also for a sender outside of the process namespace, for example with `docker stop`.
    fn is_from_system(info: &libc::siginfo_t) -> bool {
        // SAFETY: the `siginfo_t` of the handled signals contains the sender.
        let sender = || unsafe { info.si_pid() };
        if cfg!(any(target_os = "linux", target_os = "android")) { info.si_code > 0 } else { sender() == 0 }
    }

    /// Forwards the signals whose bits are set, except those that the terminal also sent to the child. `swap` clears
    /// the bits, so the handler and [`forward_to`] together forward each signal once.
    fn forward() {
        let child = CHILD.load(Ordering::SeqCst);
        if child <= 0 {
            return;
        }
        let sent = SENT.swap(0, Ordering::SeqCst);
        let from_system = FROM_SYSTEM.swap(0, Ordering::SeqCst);
        for number in FORWARDED {
            let bit = 1 << number;
            if sent & bit != 0 || (from_system & bit != 0 && !reaches(child, number)) {
                // SAFETY: `kill` is async-signal-safe, and the child has not been reaped, so the id is not reused.
                unsafe { libc::kill(child, number) };
            }
        }
    }

    /// Output pipe of the child, owned by the thread that reads it.
    pub(crate) type Stream = Arc<File>;
    /// Weak handle to the pipe, which does not keep it open.
    pub(crate) type Pipe = Weak<File>;

    pub(crate) fn stream(end: impl Into<OwnedFd>) -> (Stream, Pipe) {
        let stream = Arc::new(File::from(end.into()));
        let pipe = Arc::downgrade(&stream);
        (stream, pipe)
    }

    /// Returns whether a read would not block: there are bytes, or no writer is left. `false` if the reader has ended.
    pub(crate) fn is_readable(pipe: &Pipe) -> bool {
        pipe.upgrade().is_some_and(|pipe| poll(&pipe, 0) > 0)
    }

    /// Waits until a read would not block. Reads nothing.
    pub(crate) fn await_readable(stream: &mut Stream) {
        // If `poll` fails, the read that follows reports the error.
        let _ = retry(|| poll(stream, -1));
    }

    fn poll(stream: &Stream, milliseconds: c_int) -> c_int {
        let mut question = libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the pointer refers to one structure, which outlives the call.
        unsafe { libc::poll(&raw mut question, 1, milliseconds) }
    }

    pub(crate) fn signal_of(status: ExitStatus) -> Option<i32> {
        status.signal()
    }

    fn usage(child: &libc::rusage) -> Option<Usage> {
        let mut own = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the structure is writable and outlives the call. All zeros are a valid `rusage`.
        let own = unsafe {
            (libc::getrusage(libc::RUSAGE_SELF, own.as_mut_ptr()) == 0).then(|| own.assume_init())?
        };
        // The unit of `ru_maxrss` is KiB, except on Apple's systems, where it is bytes.
        let unit = if cfg!(target_vendor = "apple") { 1 } else { 1024 };
        let max_rss = u64::try_from(child.ru_maxrss).ok().filter(|_| child.ru_maxrss > own.ru_maxrss);
        let [user, system] = [child.ru_utime, child.ru_stime].map(|time| {
            let [seconds, micros] = [time.tv_sec as u64, time.tv_usec as u64];
            Duration::from_secs(seconds) + Duration::from_micros(micros)
        });
        Some(Usage { user, system, max_rss: max_rss.map(|kibibytes| kibibytes * unit) })
    }
}

#[cfg(windows)]
mod platform {
    use std::io::{self, BufRead, BufReader, Read};
    use std::process::{Child, Command, ExitStatus};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::Ended;
    use crate::cli::interrupt;

    /// Interval at which a child with a timeout is examined.
    const POLL_INTERVAL: Duration = Duration::from_millis(20);

    /// Ignores Ctrl-C and Ctrl-Break. Windows sends them to all processes of a console, including the child, which
    /// decides what to do. This process waits for the end of the child.
    pub(super) fn take_signals(_: &mut Command) {
        interrupt::ignore_console_events(true);
    }

    pub(super) fn leave_signals() {
        interrupt::ignore_console_events(false);
    }

    pub(super) fn forward_to(_: &Child) {}

    pub(super) fn wait(child: &mut Child, timeout: Option<Duration>) -> io::Result<Ended> {
        let by = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut has_timed_out = false;
        while by.is_some() && !has_timed_out && child.try_wait()?.is_none() {
            thread::sleep(POLL_INTERVAL);
            if by.is_some_and(|by| by <= Instant::now()) {
                has_timed_out = child.kill().is_ok();
            }
        }
        Ok(Ended { status: child.wait()?, usage: None, has_timed_out })
    }

    pub(crate) fn end_by(_: i32) {}

    pub(crate) type Stream = BufReader<Box<dyn Read + Send>>;
    pub(crate) struct Pipe;

    pub(crate) fn stream(end: impl Read + Send + 'static) -> (Stream, Pipe) {
        (BufReader::new(Box::new(end)), Pipe)
    }

    /// Waits until there are bytes or the pipe has ended. If this fails, the read that follows reports the error.
    pub(crate) fn await_readable(stream: &mut Stream) {
        let _ = stream.fill_buf();
    }

    pub(crate) fn is_readable(_: &Pipe) -> bool {
        false
    }

    pub(crate) fn signal_of(_: ExitStatus) -> Option<i32> {
        None
    }
}

#[cfg(test)]
#[cfg(unix)]
#[allow(unsafe_code, reason = "signals of a terminal are made here")]
mod tests {
    use std::mem::MaybeUninit;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Stdio;
    use std::sync::atomic::Ordering;
    use std::sync::{Mutex, PoisonError};

    use super::platform::{CHILD, FROM_SYSTEM, SENT, forward_to, handle, leave_signals, wait};
    use super::*;

    /// Serializes the tests: the handlers use process-wide variables.
    static ONE_CHILD: Mutex<()> = Mutex::new(());

    /// Sets the child that signals are forwarded to, and clears the pending signals.
    fn set_child(pid: i32) {
        CHILD.store(pid, Ordering::SeqCst);
        SENT.store(0, Ordering::SeqCst);
        FROM_SYSTEM.store(0, Ordering::SeqCst);
    }

    fn forget_child() {
        set_child(0);
    }

    /// Calls the handler as a terminal's Ctrl-C does.
    fn press_ctrl_c() {
        // SAFETY: all zeros are a valid `siginfo_t`.
        let mut info: libc::siginfo_t = unsafe { MaybeUninit::zeroed().assume_init() };
        // SI_KERNEL on Linux. On other systems, a sender process id of 0 means that the kernel sent the signal.
        info.si_code = 0x80;
        handle(libc::SIGINT, &raw mut info, std::ptr::null_mut());
    }

    #[test]
    fn ctrl_c_before_the_child_is_known_reaches_it_once() {
        let _only = ONE_CHILD.lock().unwrap_or_else(PoisonError::into_inner);
        // A shell that runs the tests in the background may ignore SIGINT.
        // SAFETY: SIG_DFL is a valid disposition.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        // Before the child exists: the child gets the signal at its start.
        press_ctrl_c();
        let ended = run(Command::new("sleep").arg("30"), None, |_| {}).unwrap();
        assert_eq!(ended.status.signal(), Some(libc::SIGINT));
        forget_child();

        // After the fork: the terminal sends the signal to the child as well, if the child is in this process's group.
        for (is_of_our_group, signal) in [(true, None), (false, Some(libc::SIGINT))] {
            let mut command = Command::new("cat");
            command.stdin(Stdio::piped());
            if !is_of_our_group {
                command.process_group(0);
            }
            let mut child = command.spawn().unwrap();
            press_ctrl_c();
            forward_to(&child);
            if is_of_our_group {
                drop(child.stdin.take());
            }
            assert_eq!(wait(&mut child, None).unwrap().status.signal(), signal);
            forget_child();
        }
    }

    #[test]
    fn handler_restores_errno_though_forwarding_fails() {
        let _only = ONE_CHILD.lock().unwrap_or_else(PoisonError::into_inner);
        // No process has this id.
        set_child(i32::MAX);
        // SAFETY: no file has this number, so the call only sets `errno`.
        let failed = unsafe { libc::close(-1) };
        press_ctrl_c();
        let errno = std::io::Error::last_os_error().raw_os_error();
        forget_child();
        assert_eq!((failed, errno), (-1, Some(libc::EBADF)));
    }

    #[test]
    fn ctrl_c_after_the_end_of_the_child_ends_this_process() {
        let _only = ONE_CHILD.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ended = Command::new("true").spawn().unwrap();
        forward_to(&ended);
        wait(&mut ended, None).unwrap();
        // The signal ends the process that raises it, so this runs in a forked copy of the test process.
        let mut copy = Command::new("true");
        let leave = || {
            // SAFETY: SIG_DFL is a valid disposition, and `signal` is async-signal-safe.
            unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
            press_ctrl_c();
            leave_signals();
            Ok(())
        };
        // SAFETY: the closure calls only async-signal-safe functions.
        unsafe { copy.pre_exec(leave) };
        assert_eq!(copy.status().unwrap().signal(), Some(libc::SIGINT));
        forget_child();
    }
}
