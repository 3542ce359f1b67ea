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

    /// Where the handler writes a byte (a self-pipe): a handler may do hardly anything else.
    static WAKE: AtomicI32 = AtomicI32::new(-1);

    /// Calls `on_first` on another thread at the first SIGINT or SIGTERM. The second one ends the process at once.
    pub(crate) fn on_interrupt(on_first: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let (mut asleep, wake) = UnixStream::pair()?;
        // it stays open as long as the process, since a signal may come any time
        WAKE.store(wake.into_raw_fd(), Ordering::SeqCst);
        thread::Builder::new().name("standpipe-stop".to_owned()).spawn(move || {
            if asleep.read_exact(&mut [0]).is_ok() {
                on_first();
            }
        })?;
        for number in [libc::SIGINT, libc::SIGTERM] {
            // SAFETY: the handler is a function for the life of the process, which does only what a handler may. What was
            // ignored stays so: a shell starts background jobs that way, which Ctrl-C is not meant for.
            unsafe {
                if libc::signal(number, handle as extern "C" fn(c_int) as usize) == libc::SIG_IGN {
                    libc::signal(number, libc::SIG_IGN);
                }
            }
        }
        Ok(())
    }

    pub(super) extern "C" fn handle(number: c_int) {
        // SAFETY: both functions may be called in a handler (POSIX lists them); the file is open and the byte is there.
        keep_errno(|| unsafe {
            libc::signal(number, libc::SIG_DFL);
            libc::write(WAKE.load(Ordering::SeqCst), [0_u8].as_ptr().cast(), 1);
        });
    }

    /// Runs the work of a signal handler and restores `errno`, which the interrupted code may not have read yet.
    pub(crate) fn keep_errno(work: impl FnOnce()) {
        // SAFETY: the address of this thread's `errno` is valid as long as the thread is.
        unsafe {
            let errno = errno_location();
            let before = *errno;
            work();
            *errno = before;
        }
    }
}

#[cfg(windows)]
#[allow(unsafe_code, reason = "std does not ask for the events of a console")]
mod platform {
    use std::io;
    use std::sync::{Mutex, PoisonError};

    const CTRL_BREAK_EVENT: u32 = 1;

    /// What the first event calls; then it is gone.
    static ON_FIRST: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn SetConsoleCtrlHandler(handler: extern "system" fn(u32) -> i32, add: i32) -> i32;
    }

    /// Calls `on_first` at the first Ctrl-C or Ctrl-Break. The second one ends the process at once.
    pub(crate) fn on_interrupt(on_first: impl FnOnce() + Send + 'static) -> io::Result<()> {
        *ON_FIRST.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(on_first));
        // SAFETY: the handler is a function for the life of the process. The system calls it on a thread of its own, so it
        // may do whatever a thread may.
        match unsafe { SetConsoleCtrlHandler(handle, 1) } {
            0 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Keeps Ctrl-C and Ctrl-Break from ending this process while `is_ignored`.
    pub(crate) fn ignore_console_events(is_ignored: bool) {
        extern "system" fn ignore(event: u32) -> i32 {
            i32::from(event <= CTRL_BREAK_EVENT)
        }
        // SAFETY: the handler is a function for the life of the process, and does nothing but return.
        unsafe { SetConsoleCtrlHandler(ignore, i32::from(is_ignored)) };
    }

    /// Zero leaves the event to the default handler, which ends the process.
    extern "system" fn handle(event: u32) -> i32 {
        // Ctrl-C is 0; the events above are the end of the console, the session or the system
        if event > CTRL_BREAK_EVENT {
            return 0;
        }
        let on_first = ON_FIRST.lock().unwrap_or_else(PoisonError::into_inner).take();
        i32::from(on_first.map(|on_first| on_first()).is_some())
    }
}

#[cfg(not(any(unix, windows)))]
mod platform {
    pub(crate) fn on_interrupt(_: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[cfg(unix)]
#[allow(unsafe_code, reason = "errno is set by system calls that fail")]
mod tests {
    #[test]
    fn handler_restores_errno() {
        // SAFETY: there is no such process, so that the call only sets `errno`.
        let failed = unsafe { libc::kill(i32::MAX, 0) };
        // The handler has no open file to write to, because no test calls `on_interrupt`. SIGURG is ignored by default.
        super::platform::handle(libc::SIGURG);
        let errno = std::io::Error::last_os_error().raw_os_error();
        assert_eq!((failed, errno), (-1, Some(libc::ESRCH)));
    }
}
