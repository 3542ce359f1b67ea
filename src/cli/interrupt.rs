//! Handles Ctrl-C and SIGTERM, and on Windows Ctrl-Break.

#[cfg(windows)]
pub(crate) use platform::ignore_console_events;
#[cfg(unix)]
pub(crate) use platform::keep_errno;
pub(crate) use platform::on_interrupt;

#[cfg(unix)]
#[allow(unsafe_code)]
mod platform {
    use std::ffi::c_int;
    use std::io::{self, Read};
    use std::os::fd::IntoRawFd;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicI32, Ordering};
    use std::thread;

    #[cfg(any(target_os = "android", target_os = "netbsd", target_os = "openbsd"))]
    use libc::__errno as errno_location;
    #[cfg(not(any(
        target_os = "android",
        target_os = "netbsd",
        target_os = "openbsd",
        target_os = "freebsd",
        target_vendor = "apple"
    )))]
    use libc::__errno_location as errno_location;
    #[cfg(any(target_os = "freebsd", target_vendor = "apple"))]
    use libc::__error as errno_location;

    /// Self-pipe: the signal handler writes one byte here, and a thread reads it. POSIX allows little else in a
    /// handler.
    static WAKE: AtomicI32 = AtomicI32::new(-1);

    /// Calls `on_first` on another thread at the first SIGINT or SIGTERM. If the same signal arrives a second time, it
    /// ends the process at once.
    pub(crate) fn on_interrupt(on_first: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let (mut asleep, wake) = UnixStream::pair()?;
        // Never closed, because a signal may arrive at any time.
        WAKE.store(wake.into_raw_fd(), Ordering::SeqCst);
        thread::Builder::new().name("standpipe-stop".to_owned()).spawn(move || {
            if asleep.read_exact(&mut [0]).is_ok() {
                on_first();
            }
        })?;
        for number in [libc::SIGINT, libc::SIGTERM] {
            // A signal that was ignored stays ignored: shells start background jobs with SIGINT ignored, so that Ctrl-C
            // does not end them.
            // SAFETY: the handler lives as long as the process, and calls only async-signal-safe functions.
            unsafe {
                if libc::signal(number, handle as extern "C" fn(c_int) as usize) == libc::SIG_IGN {
                    libc::signal(number, libc::SIG_IGN);
                }
            }
        }
        Ok(())
    }

    pub(super) extern "C" fn handle(number: c_int) {
        // SAFETY: both functions are async-signal-safe (POSIX), the descriptor is open, and the buffer holds one byte.
        keep_errno(|| unsafe {
            // The next signal of this number ends the process.
            libc::signal(number, libc::SIG_DFL);
            libc::write(WAKE.load(Ordering::SeqCst), [0_u8].as_ptr().cast(), 1);
        });
    }

    /// Runs the work of a signal handler and restores `errno`: the interrupted code may be about to read it.
    pub(crate) fn keep_errno(work: impl FnOnce()) {
        // SAFETY: the address of this thread's `errno` is valid for the life of the thread.
        unsafe {
            let errno = errno_location();
            let before = *errno;
            work();
            *errno = before;
        }
    }
}

#[cfg(windows)]
#[allow(unsafe_code, reason = "std does not handle console events")]
mod platform {
    use std::io;
    use std::sync::{Mutex, PoisonError};

    const CTRL_BREAK_EVENT: u32 = 1;

    /// Function that the handler takes and calls at the first event.
    static ON_FIRST: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn SetConsoleCtrlHandler(handler: extern "system" fn(u32) -> i32, add: i32) -> i32;
    }

    /// Calls `on_first` at the first Ctrl-C or Ctrl-Break. The second one ends the process at once.
    pub(crate) fn on_interrupt(on_first: impl FnOnce() + Send + 'static) -> io::Result<()> {
        *ON_FIRST.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(on_first));
        // SAFETY: the handler lives as long as the process. Windows calls it on a new thread, so there are no
        // restrictions on what it may do.
        match unsafe { SetConsoleCtrlHandler(handle, 1) } {
            0 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Sets whether this process ignores Ctrl-C and Ctrl-Break.
    pub(crate) fn ignore_console_events(is_ignored: bool) {
        extern "system" fn ignore(event: u32) -> i32 {
            i32::from(event <= CTRL_BREAK_EVENT)
        }
        // SAFETY: the handler lives as long as the process, and only returns a value.
        unsafe { SetConsoleCtrlHandler(ignore, i32::from(is_ignored)) };
    }

    /// Handles a console event. A result of zero makes Windows call the default handler, which ends the process.
    extern "system" fn handle(event: u32) -> i32 {
        // Ctrl-C is 0 and Ctrl-Break is 1. Larger numbers mean that the console is closed, the user logs off, or the
        // system shuts down.
        if event > CTRL_BREAK_EVENT {
            return 0;
        }
        let on_first = ON_FIRST.lock().unwrap_or_else(PoisonError::into_inner).take();
        i32::from(on_first.map(|on_first| on_first()).is_some())
    }
}

#[cfg(test)]
#[cfg(unix)]
#[allow(unsafe_code, reason = "errno is set by system calls that fail")]
mod tests {
    #[test]
    fn handler_restores_errno() {
        // SAFETY: no process has this id, so the call only sets `errno`.
        let failed = unsafe { libc::kill(i32::MAX, 0) };
        // No test calls `on_interrupt`, so the write fails. `handle` also sets SIGURG to its default, which ignores it.
        super::platform::handle(libc::SIGURG);
        let errno = std::io::Error::last_os_error().raw_os_error();
        assert_eq!((failed, errno), (-1, Some(libc::ESRCH)));
    }
}
