//! Errors as the semantic conventions describe exceptions, for spans and log records.

use std::any::type_name;
use std::error::Error;
use std::fmt::Write as _;
use std::iter;
use std::ops::DerefMut;

use super::Value;

/// Maximum number of causes that are followed. It ends the chain of an error that is its own cause.
const MAX_CAUSES: usize = 64;

/// A type that [`Span::error`](crate::Span::error) accepts: every [`Error`] including `dyn Error`, and types that
/// contain a `dyn Error` without being an error, such as `Box<dyn Error>` and `anyhow::Error`.
///
/// The compiler infers `Kind`, which distinguishes these two groups of types.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an error",
    label = "implements neither `std::error::Error` nor `DerefMut` to a `dyn Error`"
)]
pub trait AsError<Kind> {
    /// The error type that provides the message and the causes.
    type Error: Error + ?Sized;

    /// Returns the error itself.
    fn as_error(&self) -> &Self::Error;
}

mod kind {
    pub enum Itself {}
    pub enum Boxed {}
}

impl<E: Error + ?Sized> AsError<kind::Itself> for E {
    type Error = E;

    fn as_error(&self) -> &E {
        self
    }
}

// Bounded by `DerefMut` to exclude `&dyn Error` and `Arc<dyn Error>`: they are errors themselves, so both impls would
// apply, and the compiler could not infer the kind.
impl<B: DerefMut<Target = E>, E: DynError + ?Sized> AsError<kind::Boxed> for B {
    type Error = E;

    fn as_error(&self) -> &E {
        self
    }
}

trait DynError: Error {}
impl DynError for dyn Error + '_ {}
impl DynError for dyn Error + Send + '_ {}
impl DynError for dyn Error + Send + Sync + '_ {}

/// The description of an error.
pub(crate) struct Exception {
    /// `None` if the concrete type behind a `dyn` is unknown.
    pub(crate) type_name: Option<&'static str>,
    pub(crate) message: String,
    /// The chain of causes, one per line.
    causes: String,
}

impl Exception {
    /// Describes an error. Formatting runs code of the program, so it happens before anything is recorded.
    #[cold]
    pub(crate) fn of<Kind, E: AsError<Kind> + ?Sized>(error: &E) -> Self {
        let type_name = type_name::<E::Error>().trim_start_matches('&');
        Self::new(Some(type_name).filter(|name| !name.contains("dyn ")), &error.as_error())
    }

    fn new(type_name: Option<&'static str>, error: &dyn Error) -> Self {
        let (message, mut chain) = (text(error), String::new());
        for cause in causes(error) {
            let line_break = if chain.is_empty() { "" } else { "\n" };
            chain = chain + line_break + &text(cause);
        }
        Self { type_name, message, causes: chain }
    }

    /// Calls `set` with each attribute.
    pub(crate) fn set(&self, mut set: impl FnMut(&str, Value<'_>)) {
        if let Some(name) = self.type_name {
            set("exception.type", Value::Str(name));
        }
        set_exception(&self.message, &self.causes, set);
    }
}

/// Formats an error. If its `Display` fails, returns the text up to the failure.
fn text(error: &dyn Error) -> String {
    let mut text = String::new();
    let _ = write!(text, "{error}");
    text
}

/// Iterates over the chain of causes of an error.
pub(crate) fn causes<'e>(error: &'e (dyn Error + 'e)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    iter::successors(error.source(), |cause: &&'e (dyn Error + 'static)| (*cause).source()).take(MAX_CAUSES)
}

/// Sets the attributes of an error with this message and these causes, one cause per line.
pub(crate) fn set_exception(message: &str, causes: &str, mut set: impl FnMut(&str, Value<'_>)) {
    set("exception.message", Value::Str(message));
    if !causes.is_empty() {
        // Rust errors have no stack trace, so the attribute contains the causes.
        set("exception.stacktrace", Value::Str(causes));
    }
}
