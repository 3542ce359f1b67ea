//! Start, flush and shutdown of telemetry from C, and the callback for problems.
//!
//! [`Gate`] ensures that only one thread at a time runs the callback, and that none runs it after `standpipe_free`.

use std::cell::Cell;
use std::ffi::{CString, c_char, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::input::{CArray, CText};
use super::ledger::{Ledger, is_complete};
use super::{Code, Out, OwnedText, SizeFirst, Versioned, keep_panics_silent};
use crate::config::{Config, ConfigError, Exporter, WhenFull};
use crate::pipeline::exporter_set::FlushOutcome;
use crate::problem::Problem;
use crate::process::{PerProcess, lock};
use crate::record::ScopeBuilder;
use crate::telemetry::Telemetry;

/// `standpipe`.
pub(super) struct Handle {
    pub(super) telemetry: Telemetry,
    gate: Arc<Gate>,
}

/// A handle, which is a reference-counted pointer. Each function holds its own reference while it runs, because the
/// callback may free the handle meanwhile, even on the same thread.
#[repr(transparent)]
pub(super) struct Pointer<'a> {
    handle: *const Handle,
    lifetime: PhantomData<&'a Handle>,
}

impl Pointer<'_> {
    const NULL: Self = Self { handle: ptr::null(), lifetime: PhantomData };

    fn new(handle: Handle) -> Self {
        Self { handle: Arc::into_raw(Arc::new(handle)), lifetime: PhantomData }
    }

    pub(super) fn get(&self) -> Option<Arc<Handle>> {
        if self.handle.is_null() {
            return None;
        }
        // SAFETY: the pointer is from `Arc::into_raw`, and the caller guarantees that it has not been freed.
        unsafe {
            Arc::increment_strong_count(self.handle);
            Some(Arc::from_raw(self.handle))
        }
    }

    /// Takes the handle from the caller.
    fn take(self) -> Option<Arc<Handle>> {
        // SAFETY: the pointer is from `Arc::into_raw`, and the caller passes it to `standpipe_free` only once.
        (!self.handle.is_null()).then(|| unsafe { Arc::from_raw(self.handle) })
    }
}

/// `standpipe_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Options<'a> {
    pub(super) size: usize,
    pub(super) endpoint: CText<'a>,
    pub(super) service: CText<'a>,
    pub(super) flags: u32,
    pub(super) reserved: u32,
    pub(super) problem: Option<Callback>,
    pub(super) user: *mut c_void,
}

// SAFETY: the struct is `repr(C)` and begins with its size. All other fields are numbers and pointers, for which zero
// means unset.
unsafe impl SizeFirst for Options<'_> {}

/// The flags of options, with their values in the C header.
mod flag {
    pub(super) const BLOCK_WHEN_FULL: u32 = 1;
    pub(super) const GRPC: u32 = 2;
    pub(super) const ENVIRONMENT: u32 = 4;
    pub(super) const MANUAL: u32 = 8;
    pub(super) const ALL: u32 = BLOCK_WHEN_FULL | GRPC | ENVIRONMENT | MANUAL;
}

/// The error of a start: the result code, and the message.
struct Refusal(Code, String);

impl From<ConfigError> for Refusal {
    fn from(error: ConfigError) -> Self {
        Self(Code::CONFIGURATION, error.to_string())
    }
}

fn invalid(what: &str) -> Refusal {
    Refusal(Code::INVALID_ARGUMENT, what.to_owned())
}

impl Options<'_> {
    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Returns the exporter for the endpoint, if one is set.
    fn exporter(&self) -> Result<Option<Exporter>, Refusal> {
        let endpoint = self.endpoint.option();
        if !self.has(flag::GRPC) {
            return Ok(endpoint.map(|endpoint| Exporter::http(&*endpoint)));
        }
        if endpoint.is_none() {
            return Err(invalid("STANDPIPE_GRPC: the endpoint is NULL; set the URL of the collector"));
        }
        #[cfg(feature = "grpc")]
        return Ok(endpoint.map(|endpoint| Exporter::grpc(&*endpoint)));
        #[cfg(not(feature = "grpc"))]
        Err(invalid(
            "STANDPIPE_GRPC: this build cannot send over gRPC; build standpipe with its feature \"grpc\"",
        ))
    }

    /// Adds the exporter for the endpoint, and fills unset settings from the environment if `ENVIRONMENT` is set.
    fn complete(&self, mut config: Config) -> Result<Config, Refusal> {
        if let Some(exporter) = self.exporter()? {
            config = config.exporter(exporter);
        }
        Ok(if self.has(flag::ENVIRONMENT) { config.with_environment()? } else { config })
    }

    fn start(&self, mut config: Config) -> Result<Handle, Refusal> {
        if let Some(service) = self.service.option() {
            config = config.service_name(&service);
        }
        config = match self.has(flag::BLOCK_WHEN_FULL) {
            true => config.map_exporters(|exporter| exporter.when_full(WhenFull::Block)),
            false => config.map_exporters(Exporter::lossy_unless_set),
        };
        let gate = Arc::new(Gate::new(self.problem, self.user));
        if self.problem.is_some() {
            let gate = Arc::clone(&gate);
            config = config.on_problem(move |problem| gate.call(problem));
        }
        let started = match self.has(flag::MANUAL) {
            true => Telemetry::start_manual(config),
            false => Telemetry::start(config),
        };
        let telemetry = started.inspect_err(|_| gate.close())?;
        Ok(Handle { telemetry, gate })
    }
}

/// Starts telemetry with the configuration that `configure` returns, and writes the handle or the error.
fn start(
    options: &Versioned<'_, Options<'_>>,
    out: &Out<'_, Pointer<'_>>,
    error: &Out<'_, OwnedText>,
    configure: impl FnOnce(&Options<'_>) -> Result<Config, Refusal>,
) -> Code {
    let started = || {
        if out.is_null() {
            return Err(invalid("out is NULL; pass the address of a pointer, which receives the handle"));
        }
        let options = options.read();
        if options.flags & !flag::ALL != 0 {
            return Err(invalid(
                "flags has a bit that this version does not know; install the library that belongs to the header",
            ));
        }
        options.start(configure(&options)?)
    };
    error.put(OwnedText::NONE);
    out.put(Pointer::NULL);
    keep_panics_silent();
    match started() {
        Ok(handle) => {
            out.put(Pointer::new(handle));
            Code::OK
        }
        Err(Refusal(code, text)) => {
            error.put(OwnedText::new(text));
            code
        }
    }
}

exported! {
    fn standpipe_start(
        options: Versioned<'_, Options<'_>>,
        out: Out<'_, Pointer<'_>>,
        error: Out<'_, OwnedText>,
    ) -> Code {
        start(&options, &out, &error, |options| {
            if options.endpoint.is_null() {
                return Err(invalid("the endpoint is NULL; set the URL of the collector"));
            }
            if options.has(flag::ENVIRONMENT) {
                return Err(invalid(
                    "standpipe_start does not accept STANDPIPE_ENVIRONMENT; call standpipe_start_from_env",
                ));
            }
            options.complete(Config::new())
        })
    }

    fn standpipe_start_from_env(
        options: Versioned<'_, Options<'_>>,
        out: Out<'_, Pointer<'_>>,
        error: Out<'_, OwnedText>,
    ) -> Code {
        start(&options, &out, &error, |options| match options.exporter()? {
            Some(exporter) => Ok(Config::new().exporter(exporter).with_environment()?),
            None => Ok(Config::from_env()?),
        })
    }

    fn standpipe_start_from_file(
        path: CText<'_>,
        options: Versioned<'_, Options<'_>>,
        out: Out<'_, Pointer<'_>>,
        error: Out<'_, OwnedText>,
    ) -> Code {
        start(&options, &out, &error, |options| {
            let path =
                path.path().ok_or_else(|| invalid("path is NULL; pass the path of a configuration file"))?;
            options.complete(Config::from_file(path)?)
        })
    }

    fn standpipe_start_from_toml(
        text: CArray<'_, u8>,
        len: usize,
        options: Versioned<'_, Options<'_>>,
        out: Out<'_, Pointer<'_>>,
        error: Out<'_, OwnedText>,
    ) -> Code {
        start(&options, &out, &error, |options| {
            let text =
                text.option(len).ok_or_else(|| invalid("text is NULL; pass the text of a configuration"))?;
            options.complete(Config::from_toml_str(&text)?)
        })
    }

    fn standpipe_flush(handle: Pointer<'_>, budget_ms: u32, left: Out<'_, u64>) -> Code {
        let outcome = handle.get().map(|handle| handle.telemetry.flush(budget(budget_ms)));
        let (code, count) = match outcome {
            Some(FlushOutcome::TimedOut { left }) => (Code::INCOMPLETE, left),
            Some(FlushOutcome::Complete) | None => (Code::OK, 0),
        };
        left.put(count);
        code
    }

    fn standpipe_shutdown(handle: Pointer<'_>, budget_ms: u32, ledger: Versioned<'_, Ledger>) -> Code {
        let last =
            handle.get().map(|handle| handle.telemetry.shutdown(budget(budget_ms))).unwrap_or_default();
        ledger.write(&Ledger::of(&last));
        if is_complete(&last) { Code::OK } else { Code::INCOMPLETE }
    }

    fn standpipe_pump(handle: Pointer<'_>, budget_ms: u32, next_ms: Out<'_, u32>) -> Code {
        let next = handle.get().and_then(|handle| handle.telemetry.pump(budget(budget_ms)));
        let wait = next.map(|next| next.saturating_duration_since(Instant::now()));
        // Rounded up: a call slightly too late is better than one before anything is due.
        let milliseconds = wait.map_or(u128::MAX, |wait| wait.as_micros().div_ceil(1000));
        next_ms.put(u32::try_from(milliseconds).unwrap_or(u32::MAX));
        Code::OK
    }

    fn standpipe_free(handle: Pointer<'_>) {
        if let Some(handle) = handle.take() {
            let gate = Arc::clone(&handle.gate);
            // The gate is closed after the shutdown, so that records lost by the shutdown are still reported.
            drop(handle);
            gate.close();
        }
    }
}

/// Makes a tracer, a logger or a meter for a scope.
pub(super) fn scoped<T>(
    handle: &Pointer<'_>,
    (scope, version): (CText<'_>, CText<'_>),
    make: impl FnOnce(&Telemetry, ScopeBuilder<'_>) -> T,
) -> Option<Box<T>> {
    let (scope, version) = (scope.text(), version.text());
    Some(Box::new(make(&handle.get()?.telemetry, ScopeBuilder::new(&scope).version(&version))))
}

fn budget(milliseconds: u32) -> Duration {
    Duration::from_millis(milliseconds.into())
}

/// `standpipe_problem_fn`.
pub(super) type Callback =
    unsafe extern "C" fn(user: *mut c_void, kind: i32, message: *const c_char, times: u64);

/// Passes problems to the callback until the gate is closed.
pub(super) struct Gate {
    callback: Option<Callback>,
    user: *mut c_void,
    is_closed: AtomicBool,
    /// Held while the callback runs. A forked child gets a new mutex, because the parent's may be locked forever in
    /// the child.
    running: PerProcess<Mutex<()>>,
}

// SAFETY: the header states that the callback runs on threads of the library and receives `user`. The pointer is not
// used otherwise.
unsafe impl Send for Gate {}
// SAFETY: as for `Send`.
unsafe impl Sync for Gate {}

thread_local! {
    /// The gate whose callback runs on this thread.
    static RUNNING: Cell<*const Gate> = const { Cell::new(ptr::null()) };
}

impl Gate {
    pub(super) fn new(callback: Option<Callback>, user: *mut c_void) -> Self {
        Self { callback, user, is_closed: AtomicBool::new(false), running: PerProcess::new(Mutex::new(())) }
    }

    pub(super) fn call(&self, problem: &Problem) {
        let Some(callback) = self.callback else { return };
        let message = match problem.exporter.as_str() {
            "" => problem.message.clone(),
            exporter => format!("exporter {exporter}: {}", problem.message),
        };
        // The message has no zero byte, because control characters are escaped, so this cannot fail.
        let message = CString::new(message).unwrap_or_default();
        let _one_at_a_time = lock(self.running());
        if self.is_closed.load(Ordering::Acquire) {
            return;
        }
        let around = RUNNING.replace(self);
        // SAFETY: the program guarantees that the callback is valid until `standpipe_free` returns. That function first
        // closes the gate, and then waits for the lock that is held here.
        unsafe { callback(self.user, problem.kind as i32 + 1, message.as_ptr(), problem.occurrences) };
        RUNNING.set(around);
    }

    /// Prevents further calls, and waits for a running callback, unless the callback itself calls this function.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        if !ptr::eq(RUNNING.get(), self) {
            drop(lock(self.running()));
        }
    }

    fn running(&self) -> &Mutex<()> {
        self.running.get_or_renew(|| Mutex::new(()))
    }
}
