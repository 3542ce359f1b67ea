//! What the terminal behind standard output can do, and how wide it is.

pub(crate) use platform::take_escapes;

/// Columns of the terminal, if standard output is one that knows its size.
pub(crate) fn columns() -> Option<usize> {
    // a terminal that does not know its size answers 0
    let (terminal_size::Width(columns), _) = terminal_size::terminal_size_of(std::io::stdout())?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

#[cfg(not(windows))]
mod platform {
    pub(crate) fn take_escapes() -> bool {
        true
    }
}

#[cfg(windows)]
#[allow(unsafe_code, reason = "std does not ask a console")]
mod platform {
    use std::io::stdout;
    use std::os::windows::io::{AsRawHandle, RawHandle};

    const ENABLE_VIRTUAL_TERMINAL_PROCESSING: u32 = 4;

    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetConsoleMode(console: RawHandle, mode: *mut u32) -> i32;
        fn SetConsoleMode(console: RawHandle, mode: u32) -> i32;
    }

    /// A console takes them once it is asked to. A terminal that is no console is one of MSYS or Cygwin, which always do.
    pub(crate) fn take_escapes() -> bool {
        let console = stdout().as_raw_handle();
        let mut mode = 0;
        // SAFETY: a handle that is no console is refused; `mode` outlives both calls.
        unsafe {
            GetConsoleMode(console, &raw mut mode) == 0
                || SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING) != 0
        }
    }
}
