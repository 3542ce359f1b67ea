//! Runs a child process: forwards signals, reads its output, and returns its exit status and resource usage.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

pub(super) use platform::{Pipe, Stream, await_readable, end_by, is_readable, signal_of, stream};

/// Resources that a child and the processes that it waited for have used.
#[cfg_attr(not(unix), allow(dead_code, reason = "other systems are not asked"))]
pub(super) struct Usage {
    pub(super) user: Duration,
    pub(super) system: Duration,
    /// In bytes; `None` where the system only knows that it was no more than this process's own, which a child has until it
    /// executes its program.
    pub(super) max_rss: Option<u64>,
}

/// Starts the command, calls `started`, and waits for the end. Signals that this process is sent meanwhile are the child's;
/// afterwards they end this process as they do without a child.
pub(super) fn run(command: &mut Command, started: impl FnOnce(&mut Child)) -> io::Result<Ended> {
    platform::take_signals(command);
    let ended = command.spawn().and_then(|mut child| {
        platform::forward_to(&child);
        started(&mut child);
        platform::wait(&mut child)
    });
    platform::leave_signals();
    ended
}

/// Exit status of a child, and its usage where the system tells it.
pub(super) type Ended = (ExitStatus, Option<Usage>);

/// Returns the name of a signal from std's description of a status, as `signal: 15 (SIGTERM)`, or else its number.
pub(super) fn signal_name(status: ExitStatus, number: i32) -> String {
    let description = status.to_string();
    let name = description.split(['(', ')']).find(|part| part.starts_with("SIG"));
    name.map_or_else(|| format!("signal {number}"), str::to_owned)
}

#[cfg(unix)]
#[allow(unsafe_code, reason = "std neither forwards signals nor polls, nor knows what a child used")]
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
    use std::sync::{Arc, Weak};
    use std::time::Duration;

    use libc::{SIGALRM, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

    use super::{Ended, Usage};
    use crate::cli::interrupt::keep_errno;

    const FORWARDED: [c_int; 7] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH];
    /// The forwarded signals that end this process once there is no child left.
    const ENDING: [c_int; 4] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT];
    /// Signals that end a process without a core dump.
    const WITHOUT_CORE: [c_int; 8] = [SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2, SIGKILL];

    /// Values of [`CHILD`] that are no process.
    const NOT_STARTED: i32 = 0;
    const ENDED: i32 = -1;

    /// Whom signals are forwarded to.
    pub(super) static CHILD: AtomicI32 = AtomicI32::new(NOT_STARTED);
    /// Signals that processes sent and that were not forwarded yet, a bit for each number: all of them are below 32.
    pub(super) static SENT: AtomicU32 = AtomicU32::new(0);
    /// The same for those of the system. Whether the child has them as well shows only once there is one.
    pub(super) static FROM_SYSTEM: AtomicU32 = AtomicU32::new(0);

    /// Whether this process was started with SIGPIPE ignored. Rust's runtime ignores the signal before `main` begins, and
    /// `Command` resets it to the default in a child, so the disposition is read earlier, by an initializer.
    static IGNORES_SIGPIPE: AtomicBool = AtomicBool::new(false);

    #[used]
    #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
    #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
    static READ_SIGPIPE: extern "C" fn() = read_sigpipe;

    extern "C" fn read_sigpipe() {
        // SAFETY: all zero is a valid `sigaction`, which outlives the call.
        let is_ignored = unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            libc::sigaction(SIGPIPE, ptr::null(), &raw mut action) == 0
                && action.sa_sigaction == libc::SIG_IGN
        };
        IGNORES_SIGPIPE.store(is_ignored, Ordering::SeqCst);
    }

    /// Handles the signals that are forwarded, except those that are ignored: the child ignores them as well then, as
    /// after `nohup`. A SIGCHLD that is ignored has to be the default here, since the system keeps no end of a child for
    /// those who ignore it; the command ignores it as its caller does.
    pub(super) fn take_signals(command: &mut Command) {
        let handler = handle as extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void);
        set_handlers(&FORWARDED, handler as usize);
        // SAFETY: the disposition is the system's own.
        let ignores_ends = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) } == libc::SIG_IGN;
        let ignores_broken_pipes = IGNORES_SIGPIPE.load(Ordering::SeqCst);
        let begin = move || {
            // What came before the fork is in this copy of the memory, and what came since was handled here.
            set_handlers(&FORWARDED, libc::SIG_DFL);
            raise(&FORWARDED, SENT.load(Ordering::SeqCst) | FROM_SYSTEM.load(Ordering::SeqCst));
            for (number, is_ignored) in [(libc::SIGCHLD, ignores_ends), (SIGPIPE, ignores_broken_pipes)] {
                if is_ignored {
                    // SAFETY: may be called between fork and exec.
                    unsafe { libc::signal(number, libc::SIG_IGN) };
                }
            }
            Ok(())
        };
        // SAFETY: the closure only calls what may be called between fork and exec.
        unsafe { command.pre_exec(begin) };
    }

    /// Has signals end this process, also those that came since there was no child to forward them to.
    pub(super) fn leave_signals() {
        set_handlers(&ENDING, libc::SIG_DFL);
        raise(&ENDING, SENT.load(Ordering::SeqCst) | FROM_SYSTEM.load(Ordering::SeqCst));
    }

    /// Raises those of the signals whose bits are set.
    fn raise(numbers: &[c_int], bits: u32) {
        for &number in numbers.iter().filter(|&&number| bits & (1 << number) != 0) {
            // SAFETY: has no condition, and may be called between fork and exec.
            unsafe { libc::raise(number) };
        }
    }

    fn set_handlers(numbers: &[c_int], handler: libc::sighandler_t) {
        for &number in numbers {
            // SAFETY: all zero is a valid `sigaction`, and both calls get one that outlives them. The handler is the
            // default, or has the signature that SA_SIGINFO asks for and does only what a handler may.
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

    /// Forwards from now on, and first what came before there was a child.
    pub(super) fn forward_to(child: &Child) {
        CHILD.store(i32::try_from(child.id()).unwrap_or(ENDED), Ordering::SeqCst);
        forward();
    }

    /// Waits until the child has ended. As process 1 of a container, this process is given all orphans, and reaps those that
    /// end before the child.
    pub(super) fn wait(child: &mut Child) -> io::Result<Ended> {
        let pid = child.id() as libc::pid_t;
        // SAFETY: has no condition.
        let is_first = unsafe { libc::getpid() } == 1;
        let (kind, id) = if is_first { (libc::P_ALL, 0) } else { (libc::P_PID, child.id() as libc::id_t) };
        loop {
            let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
            // WNOWAIT: no other process gets the child's number before `CHILD` is changed, so that no signal goes astray.
            // SAFETY: `info` is written to, and outlives the call.
            let wait = || unsafe { libc::waitid(kind, id, info.as_mut_ptr(), libc::WEXITED | libc::WNOWAIT) };
            if retry(wait).is_err() {
                break;
            }
            // SAFETY: all zero is a valid `siginfo_t`, and the one of a child that ended has its number.
            match unsafe { info.assume_init().si_pid() } {
                ended if ended == pid => break,
                orphan => drop(reap(orphan)),
            }
        }
        CHILD.store(ENDED, Ordering::SeqCst);
        reap(pid)
    }

    /// Removes a child that has ended from the system's table.
    fn reap(pid: libc::pid_t) -> io::Result<Ended> {
        let (mut status, mut used) = (0, MaybeUninit::<libc::rusage>::zeroed());
        // SAFETY: both are written to, and outlive the call.
        retry(|| unsafe { libc::wait4(pid, &raw mut status, 0, used.as_mut_ptr()) })?;
        // SAFETY: all zero, it is valid as well.
        Ok((ExitStatus::from_raw(status), usage(&unsafe { used.assume_init() })))
    }

    /// Repeats a system call that signals interrupt.
    fn retry(mut call: impl FnMut() -> c_int) -> io::Result<()> {
        while call() < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Ends this process by the signal that ended the child: a shell stops its loop at Ctrl-C only then. It returns where
    /// that would dump a core of the wrong process, or where the signal has no effect, as on the first process of a
    /// container.
    pub(crate) fn end_by(signal: i32) {
        if WITHOUT_CORE.contains(&signal) {
            // SAFETY: neither call has any other condition.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
    }

    pub(super) extern "C" fn handle(number: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: with SA_SIGINFO the handler is given a valid `siginfo_t`.
        let came = if is_from_system(unsafe { &*info }) { &FROM_SYSTEM } else { &SENT };
        came.fetch_or(1 << number, Ordering::SeqCst);
        keep_errno(forward);
    }

    /// Whether the terminal has sent this signal to the child as well, so that forwarding it would deliver it twice: Ctrl-C,
    /// Ctrl-\ and a change of size go to each process of the foreground group; a hang-up goes to the leader of the session
    /// alone, if that is there.
    fn reaches(child: i32, number: c_int) -> bool {
        // SAFETY: system calls without any condition, which a handler may make.
        let (is_of_our_group, leads_session) =
            unsafe { (libc::getpgid(child) == libc::getpgrp(), libc::getsid(0) == libc::getpid()) };
        is_of_our_group && !(number == SIGHUP && leads_session)
    }

    /// Codes of signals that a process sends are not positive on Linux. A number of the sender would not do: it is 0 as
    /// well if that is outside of our namespace, as `docker stop` is.
    fn is_from_system(info: &libc::siginfo_t) -> bool {
        // SAFETY: the signals that are handled have a sender in their `siginfo_t`.
        let sender = || unsafe { info.si_pid() };
        if cfg!(any(target_os = "linux", target_os = "android")) { info.si_code > 0 } else { sender() == 0 }
    }

    /// Each signal once: by the handler, or by [`forward_to`] if it came before the child.
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
                // SAFETY: sends a signal to a child that has not been waited for; a handler may call it.
                unsafe { libc::kill(child, number) };
            }
        }
    }

    /// What the child prints, for the one who reads it and closes it.
    pub(crate) type Stream = Arc<File>;
    /// The same for others: it keeps nothing open.
    pub(crate) type Pipe = Weak<File>;

    pub(crate) fn stream(end: impl Into<OwnedFd>) -> (Stream, Pipe) {
        let stream = Arc::new(File::from(end.into()));
        let pipe = Arc::downgrade(&stream);
        (stream, pipe)
    }

    /// Whether there is something to read, or the end.
    pub(crate) fn is_readable(pipe: &Pipe) -> bool {
        pipe.upgrade().is_some_and(|pipe| poll(&pipe, 0) > 0)
    }

    /// Waits until there is, and takes nothing.
    pub(crate) fn await_readable(stream: &mut Stream) {
        // A failure shows when it is read.
        let _ = retry(|| poll(stream, -1));
    }

    fn poll(stream: &Stream, milliseconds: c_int) -> c_int {
        let mut question = libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: there is one structure, which outlives the call.
        unsafe { libc::poll(&raw mut question, 1, milliseconds) }
    }

    pub(crate) fn signal_of(status: ExitStatus) -> Option<i32> {
        status.signal()
    }

    fn usage(child: &libc::rusage) -> Option<Usage> {
        let mut own = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the structure is written to, and outlives the call; all zero, it is valid as well.
        let own = unsafe {
            (libc::getrusage(libc::RUSAGE_SELF, own.as_mut_ptr()) == 0).then(|| own.assume_init())?
        };
        // in kibibytes, except by Apple
        let unit = if cfg!(target_vendor = "apple") { 1 } else { 1024 };
        let max_rss = u64::try_from(child.ru_maxrss).ok().filter(|_| child.ru_maxrss > own.ru_maxrss);
        let [user, system] = [child.ru_utime, child.ru_stime].map(|time| {
            let [seconds, micros] = [time.tv_sec as u64, time.tv_usec as u64];
            Duration::from_secs(seconds) + Duration::from_micros(micros)
        });
        Some(Usage { user, system, max_rss: max_rss.map(|kibibytes| kibibytes * unit) })
    }
}

#[cfg(not(unix))]
mod platform {
    use std::io::{self, BufRead, BufReader, Read};
    use std::process::{Child, Command, ExitStatus};

    use super::Ended;
    #[cfg(windows)]
    use crate::cli::interrupt;

    /// A console's Ctrl-C and Ctrl-Break go to all its processes, the child included. This one stays until the child has
    /// ended, whatever that makes of it.
    pub(super) fn take_signals(_: &mut Command) {
        #[cfg(windows)]
        interrupt::ignore_console_events(true);
    }

    pub(super) fn leave_signals() {
        #[cfg(windows)]
        interrupt::ignore_console_events(false);
    }

    pub(super) fn forward_to(_: &Child) {}

    pub(super) fn wait(child: &mut Child) -> io::Result<Ended> {
        Ok((child.wait()?, None))
    }

    pub(crate) fn end_by(_: i32) {}

    pub(crate) type Stream = BufReader<Box<dyn Read + Send>>;
    pub(crate) struct Pipe;

    pub(crate) fn stream(end: impl Read + Send + 'static) -> (Stream, Pipe) {
        (BufReader::new(Box::new(end)), Pipe)
    }

    /// A failure shows when it is read.
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

    /// There is one child of a process.
    static ONE_CHILD: Mutex<()> = Mutex::new(());

    /// Sets the receiver of forwarded signals, and forgets those that were not forwarded yet.
    fn set_child(pid: i32) {
        CHILD.store(pid, Ordering::SeqCst);
        SENT.store(0, Ordering::SeqCst);
        FROM_SYSTEM.store(0, Ordering::SeqCst);
    }

    fn forget_child() {
        set_child(0);
    }

    /// As Ctrl-C of a terminal reaches this process.
    fn press_ctrl_c() {
        // SAFETY: all zero is a valid `siginfo_t`.
        let mut info: libc::siginfo_t = unsafe { MaybeUninit::zeroed().assume_init() };
        // on Linux the code of the system; elsewhere that has the sender 0
        info.si_code = 0x80;
        handle(libc::SIGINT, &raw mut info, std::ptr::null_mut());
    }

    #[test]
    fn ctrl_c_before_the_child_is_known_reaches_it_once() {
        let _only = ONE_CHILD.lock().unwrap_or_else(PoisonError::into_inner);
        // what started the tests may ignore it, as a shell does for what it runs in the background
        // SAFETY: the disposition is the system's own.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        // before there was one: it is the child's when it starts
        press_ctrl_c();
        let (status, _) = run(Command::new("sleep").arg("30"), |_| {}).unwrap();
        assert_eq!(status.signal(), Some(libc::SIGINT));
        forget_child();

        // after the fork, the terminal sends it to the child as well if that is of the same group
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
            assert_eq!(wait(&mut child).unwrap().0.signal(), signal);
            forget_child();
        }
    }

    #[test]
    fn handler_restores_errno_though_forwarding_fails() {
        let _only = ONE_CHILD.lock().unwrap_or_else(PoisonError::into_inner);
        // no process has this number
        set_child(i32::MAX);
        // SAFETY: no file has this number, so that the call only sets `errno`.
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
        wait(&mut ended).unwrap();
        // in a copy of this process, that it may end
        let mut copy = Command::new("true");
        let leave = || {
            // SAFETY: the disposition is the system's own; may be called between fork and exec.
            unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
            press_ctrl_c();
            leave_signals();
            Ok(())
        };
        // SAFETY: the closure only calls what may be called between fork and exec.
        unsafe { copy.pre_exec(leave) };
        assert_eq!(copy.status().unwrap().signal(), Some(libc::SIGINT));
        forget_child();
    }
}
