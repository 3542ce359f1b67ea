//! The installed telemetry: code that is given no telemetry uses it, for as long as its guard lives.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use super::Telemetry;
use super::provider::Provider;
use crate::logs::Logger;
use crate::metrics::Meter;
use crate::pipeline::ledger::Ledger;
use crate::process;
use crate::trace::Tracer;

/// Odd while a telemetry is installed, and then the number of the installation: each install and each end adds one.
static CURRENT: AtomicUsize = AtomicUsize::new(0);
static INSTALLED: Mutex<Option<Provider>> = Mutex::new(None);

/// The number of the installation; 0 if there is none.
#[inline]
fn number_of(current: usize) -> usize {
    if current % 2 == 1 { current } else { 0 }
}

impl Telemetry {
    /// Makes this the telemetry that [`tracer`], [`logger`], [`meter`] and every [`Global`] of the program use, until the
    /// guard is dropped: that shuts it down as dropping the telemetry does. Then another one can be installed, which
    /// suits tests.
    ///
    /// ```
    /// use std::time::Duration;
    /// use standpipe::{Config, Exporter, Global, Telemetry, Tracer};
    ///
    /// static TRACER: Global<Tracer> = Global::new(|| standpipe::tracer("shop"));
    ///
    /// fn check_out() {
    ///     let _checkout = TRACER.span("checkout");
    /// }
    ///
    /// # #[cfg(feature = "receiver")] {
    /// # let receiver = standpipe::receiver::Receiver::start()?;
    /// # let endpoint = receiver.endpoint();
    /// check_out(); // nothing is recorded yet
    /// let telemetry = Telemetry::start(Config::new().exporter(Exporter::http(endpoint)))?.install()?;
    /// check_out();
    /// let ledger = telemetry.shutdown(Duration::from_secs(2));
    /// assert_eq!(ledger.total().delivered, 1);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When another telemetry is installed. [`InstallError::into_telemetry`] gives this one back.
    pub fn install(self) -> Result<InstallGuard, InstallError> {
        let mut provider = Some(self.main.clone());
        let number = process::with_locked(&INSTALLED, |installed| {
            if installed.is_some() {
                return None;
            }
            *installed = provider.take();
            let number = CURRENT.load(Ordering::Relaxed) + 1;
            CURRENT.store(number, Ordering::Release);
            Some(number)
        });
        match number.flatten() {
            Some(number) => Ok(InstallGuard { telemetry: self, number }),
            None => Err(InstallError(self)),
        }
    }
}

/// The installed telemetry, until this is dropped. From [`Telemetry::install`].
#[derive(Debug)]
#[must_use = "dropping it shuts the telemetry down: give it a name"]
pub struct InstallGuard {
    telemetry: Telemetry,
    number: usize,
}

impl InstallGuard {
    /// Ends the installation, then [shuts the telemetry down](Telemetry::shutdown).
    pub fn shutdown(self, budget: Duration) -> Ledger {
        self.uninstall();
        self.telemetry.shutdown(budget)
    }

    fn uninstall(&self) {
        let provider = process::with_locked(&INSTALLED, |installed| {
            if CURRENT.load(Ordering::Relaxed) != self.number {
                return None;
            }
            // Before the provider: a value that is made without one counts as made without an installation.
            CURRENT.store(self.number + 1, Ordering::Release);
            installed.take()
        });
        // Dropped without the lock.
        drop(provider);
    }
}

impl Drop for InstallGuard {
    fn drop(&mut self) {
        self.uninstall();
    }
}

impl Deref for InstallGuard {
    type Target = Telemetry;

    fn deref(&self) -> &Telemetry {
        &self.telemetry
    }
}

/// The main provider, as of the telemetry.
impl AsRef<Provider> for InstallGuard {
    fn as_ref(&self) -> &Provider {
        self.telemetry.as_ref()
    }
}

/// Why a telemetry was not installed: there is another one, or this is a child forked while another thread installed one.
#[derive(Debug)]
pub struct InstallError(Telemetry);

impl InstallError {
    /// The telemetry, which runs on.
    pub fn into_telemetry(self) -> Telemetry {
        self.0
    }
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another telemetry is installed")
    }
}

impl std::error::Error for InstallError {}

/// The tracer of a named part of the program, from the [installed](Telemetry::install) telemetry; without one it is a
/// no-op, and stays one. Keep it, or a [`Global`] that finds out by itself: getting it for each span costs more than the
/// span.
pub fn tracer(scope: &str) -> Tracer {
    provider().tracer(scope)
}

/// The logger of a named part of the program, as [`tracer`].
pub fn logger(scope: &str) -> Logger {
    provider().logger(scope)
}

/// The meter of a named part of the program, as [`tracer`].
pub fn meter(scope: &str) -> Meter {
    provider().meter(scope)
}

fn provider() -> Provider {
    static IDLE: Global<Provider> = Global::new(Provider::idle);
    let installed = process::with_locked(&INSTALLED, |installed| installed.clone());
    installed.flatten().unwrap_or_else(|| IDLE.clone())
}

/// A static that is made at its first use, and made again when a telemetry is [installed](Telemetry::install): a tracer, a
/// logger, a meter or an instrument that never stays behind.
///
/// ```
/// use standpipe::{Counter, Global, Logger, Tracer};
///
/// static TRACER: Global<Tracer> = Global::new(|| standpipe::tracer("shop"));
/// static LOGGER: Global<Logger> = Global::new(|| standpipe::logger("shop"));
/// static ORDERS: Global<Counter<u64>> = Global::new(|| standpipe::meter("shop").counter("orders"));
///
/// fn check_out() {
///     let _checkout = TRACER.span("checkout");
///     LOGGER.info("paid").emit();
///     ORDERS.add(1, ());
/// }
/// # check_out();
/// ```
///
/// Before an installation, and after its end, it is a no-op. Its use costs two atomic loads, without a lock or an
/// allocation. Threads that use it first at the same time may each make a value, of which one is kept. The values of
/// former installations are kept, too: only tests have many.
pub struct Global<T> {
    make: fn() -> T,
    /// Without an installation.
    idle: OnceLock<Box<Made<T>>>,
    /// The first of those made for installations.
    installed: OnceLock<Box<Made<T>>>,
}

struct Made<T> {
    /// Of the installation.
    number: usize,
    value: T,
    next: OnceLock<Box<Made<T>>>,
}

impl<T> Global<T> {
    /// One whose value `make` gives, by means of [`tracer`], [`logger`] or [`meter`].
    pub const fn new(make: fn() -> T) -> Self {
        Self { make, idle: OnceLock::new(), installed: OnceLock::new() }
    }

    #[inline]
    fn made_for(&self, number: usize) -> &OnceLock<Box<Made<T>>> {
        if number == 0 { &self.idle } else { &self.installed }
    }

    #[cold]
    fn find_or_make(&self) -> &T {
        loop {
            let current = CURRENT.load(Ordering::Acquire);
            let number = number_of(current);
            let mut cell = self.made_for(number);
            while let Some(made) = cell.get() {
                if made.number == number {
                    return &made.value;
                }
                cell = &made.next;
            }
            let made = Box::new(Made { number, value: (self.make)(), next: OnceLock::new() });
            // what was made while the installation changed may be of either
            if CURRENT.load(Ordering::Acquire) == current {
                // no child may find the cell half set; where another thread was faster, its value is found next
                let _ = process::with_fork_lock(|| cell.set(made));
            }
        }
    }
}

impl<T> Deref for Global<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        let number = number_of(CURRENT.load(Ordering::Acquire));
        match self.made_for(number).get() {
            Some(made) if made.number == number => &made.value,
            _ => self.find_or_make(),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Global<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Global").field(&**self).finish()
    }
}
