//! What can the terminal do that standard output is, and how wide is it? The system's own answers.

pub(crate) use platform::{columns, take_escapes};

#[cfg(not(windows))]
mod platform {
    use std::fs::File;
    use std::process::{Command, Stdio};

    /// Since few shells export `COLUMNS`; `None` where there is no `stty`.
    pub(crate) fn columns() -> Option<String> {
        let terminal = File::open("/dev/tty").ok()?;
        let stty = Command::new("stty").arg("size").stdin(terminal).stderr(Stdio::null()).output().ok()?;
        let rows_and_columns = String::from_utf8(stty.stdout).ok()?;
        // A terminal that does not know its size answers 0.
        rows_and_columns.split_whitespace().nth(1).filter(|columns| *columns != "0").map(str::to_owned)
    }

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

    /// `CONSOLE_SCREEN_BUFFER_INFO`.
    #[repr(C)]
    #[derive(Default)]
    struct ScreenBuffer {
        size: [i16; 2],
        cursor: [i16; 2],
        attributes: u16,
        left: i16,
        top: i16,
        right: i16,
        bottom: i16,
        largest: [i16; 2],
    }

    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetConsoleMode(console: RawHandle, mode: *mut u32) -> i32;
        fn SetConsoleMode(console: RawHandle, mode: u32) -> i32;
        fn GetConsoleScreenBufferInfo(console: RawHandle, buffer: *mut ScreenBuffer) -> i32;
    }

    /// Those of the window: the buffer behind it may be wider.
    pub(crate) fn columns() -> Option<String> {
        let mut buffer = ScreenBuffer::default();
        // SAFETY: a handle that is no console is refused; the buffer has the layout that the system fills.
        let is_console =
            unsafe { GetConsoleScreenBufferInfo(stdout().as_raw_handle(), &raw mut buffer) } != 0;
        is_console.then(|| (i32::from(buffer.right) - i32::from(buffer.left) + 1).to_string())
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
