//! The installed telemetry: while its [`InstallGuard`] lives, code that has no [`Telemetry`] uses the installed one.
//!
//! [`CURRENT`] is a version number: a [`Global`] compares it with the number of its own value, and makes a new value if
//! the numbers differ. So a use takes two atomic loads and no lock. After a second installation, each use also searches
//! the list in which a [`Global`] keeps the values of all installations.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use super::Telemetry;
use super::provider::Provider;
use crate::context::Propagators;
use crate::logs::Logger;
use crate::metrics::Meter;
use crate::pipeline::ledger::Ledger;
use crate::process;
use crate::record::ScopeBuilder;
use crate::trace::Tracer;

/// Counts installations and uninstallations. The count is odd while a telemetry is installed, and is then the number of
/// that installation.
static CURRENT: AtomicUsize = AtomicUsize::new(0);
static INSTALLED: Mutex<Option<Provider>> = Mutex::new(None);

/// Returns the number of the installation, or 0 while no telemetry is installed.
#[inline]
fn number_of(current: usize) -> usize {
    if current % 2 == 1 { current } else { 0 }
}

impl Telemetry {
    /// Installs this telemetry: [`tracer`], [`logger`], [`meter`] and every [`Global`] of the program use it until the
    /// guard is dropped. Dropping the guard shuts the telemetry down, like dropping a [`Telemetry`]. Afterwards another
    /// telemetry can be installed, for example by the next test.
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
    /// Returns an error if another telemetry is installed. [`InstallError::into_telemetry`] returns the telemetry that
    /// was not installed.
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

/// Guard that keeps a telemetry installed, and shuts it down when dropped. [`Telemetry::install`] returns it.
#[derive(Debug)]
#[must_use = "dropping the guard shuts the telemetry down: bind it to a named variable"]
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
            // The count changes before the provider is removed. Otherwise a `Global` could make a no-op value without
            // the provider, and keep it as its value for this installation.
            CURRENT.store(self.number + 1, Ordering::Release);
            installed.take()
        });
        // Dropped after the lock is released.
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

/// Returns the main provider of the installed telemetry.
impl AsRef<Provider> for InstallGuard {
    fn as_ref(&self) -> &Provider {
        self.telemetry.as_ref()
    }
}

/// The error of [`Telemetry::install`]: another telemetry is installed.
#[derive(Debug)]
pub struct InstallError(Telemetry);

impl InstallError {
    /// Returns the telemetry, which is still running.
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

/// Returns the tracer for `scope` from the [installed](Telemetry::install) telemetry; see [`Provider::tracer`]. If none
/// is installed, the tracer is a no-op, and remains one after an installation. Keep the tracer, because this call takes
/// longer than a span; or use a [`Global`], which follows installations.
pub fn tracer<'s>(scope: impl Into<ScopeBuilder<'s>>) -> Tracer {
    provider().tracer(scope)
}

/// Returns the logger of a part of the program; see [`tracer`].
pub fn logger<'s>(scope: impl Into<ScopeBuilder<'s>>) -> Logger {
    provider().logger(scope)
}

/// Returns the meter of a part of the program; see [`tracer`].
pub fn meter<'s>(scope: impl Into<ScopeBuilder<'s>>) -> Meter {
    provider().meter(scope)
}

/// Returns the propagators of the [installed](Telemetry::install) telemetry; the default ones if none is installed.
pub fn propagators() -> Propagators {
    provider().propagators()
}

fn provider() -> Provider {
    static IDLE: Global<Provider> = Global::new(Provider::idle);
    let installed = process::with_locked(&INSTALLED, |installed| installed.clone());
    installed.flatten().unwrap_or_else(|| IDLE.clone())
}

/// A static tracer, logger, meter or instrument. Its value is made at the first use, and made again after each
/// [installation](Telemetry::install) of a telemetry.
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
/// While no telemetry is installed, the value is a no-op. A use takes two atomic loads (a few more after further
/// installations), without a lock or an allocation. If several threads use the static for the first time
/// simultaneously, each may make a value, and one of the values is kept. Values of earlier installations are never
/// freed, because other threads may still use them; only tests have many installations.
pub struct Global<T> {
    make: fn() -> T,
    /// Value that is used while no telemetry is installed.
    idle: OnceLock<Box<Made<T>>>,
    /// Linked list of the values for installations, oldest first.
    installed: OnceLock<Box<Made<T>>>,
}

struct Made<T> {
    /// Number of the installation.
    number: usize,
    value: T,
    next: OnceLock<Box<Made<T>>>,
}

impl<T> Global<T> {
    /// Returns a static whose values `make` creates: one value for each installed telemetry, and one for the times
    /// without an installed telemetry. `make` should call [`tracer`], [`logger`] or [`meter`].
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
            // If an installation began or ended meanwhile, the value may belong to an earlier state: it is discarded.
            if CURRENT.load(Ordering::Acquire) == current {
                // The fork lock keeps a child from inheriting a half-initialized cell. If another thread was faster,
                // the next iteration finds its value.
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
