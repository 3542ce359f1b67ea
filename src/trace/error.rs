//! Records errors on spans: the status, `error.type` and an `exception` event, as in the semantic conventions.

use std::any::type_name;
use std::error::Error;
use std::fmt::Write as _;
use std::iter;
use std::ops::DerefMut;

use super::EventBuilder;
use super::open::OpenSpan;
use crate::record::{Status, Value};

/// Maximum number of causes that are followed. It ends the chain of an error that is its own cause.
const MAX_CAUSES: usize = 64;

/// A type that [`Span::error`](crate::Span::error) accepts: every [`Error`] including `dyn Error`, and types that
/// contain a `dyn Error` without being an error, such as `Box<dyn Error>` and `anyhow::Error`.
///
/// The compiler infers `Kind`, which is one of these two.
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

// Bounded by `DerefMut` to exclude `&dyn Error` and `Arc<dyn Error>`: they are errors themselves, so the compiler could
// not infer the kind for them.
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

/// A [`Span`](crate::Span) or a [`DetachedSpan`](crate::DetachedSpan).
pub trait AnySpan: sealed::Open {}

impl<S: sealed::Open> AnySpan for S {}

#[allow(
    private_interfaces,
    reason = "sealed: code outside of the crate can neither name nor call what is in it"
)]
pub(super) mod sealed {
    use super::OpenSpan;

    pub trait Open {
        /// `None` if nothing is recorded.
        fn open(&mut self) -> Option<&mut OpenSpan>;
    }
}

/// Records the error of a `Result` on a span, and returns the `Result`: `query().record_err(&mut span)?`.
///
/// ```
/// use std::{fs, io};
/// use standpipe::{RecordErr, Tracer};
///
/// fn load(tracer: &Tracer) -> io::Result<String> {
///     let mut span = tracer.span("load settings");
///     fs::read_to_string("/no/such/file").record_err(&mut span)
/// }
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// assert_eq!(load(&telemetry.tracer("shop")).unwrap_err().kind(), io::ErrorKind::NotFound);
/// ```
pub trait RecordErr<Kind> {
    /// Records the error, if there is one, like [`Span::error`](crate::Span::error), and returns the result
    /// unchanged.
    ///
    /// # Errors
    /// Returns the original error.
    #[must_use = "the result is returned unchanged, and may be an error"]
    fn record_err(self, span: &mut impl AnySpan) -> Self;
}

impl<T, E: AsError<Kind>, Kind> RecordErr<Kind> for Result<T, E> {
    #[inline]
    fn record_err(self, span: &mut impl AnySpan) -> Self {
        if let (Err(error), Some(open)) = (&self, span.open()) {
            record(open, error);
        }
        self
    }
}

#[cold]
pub(super) fn record<Kind, E: AsError<Kind> + ?Sized>(open: &mut OpenSpan, error: &E) {
    let type_name = type_name::<E::Error>().trim_start_matches('&');
    // The concrete type behind a `dyn` is unknown.
    let type_name = Some(type_name).filter(|name| !name.contains("dyn "));
    record_error(open, type_name, &error.as_error());
}

fn record_error(open: &mut OpenSpan, type_name: Option<&str>, error: &dyn Error) {
    // Format first, because formatting runs code of the program. If it panics, the span is unchanged.
    let (message, mut causes_text) = (text(error), String::new());
    for cause in causes(error) {
        let line_break = if causes_text.is_empty() { "" } else { "\n" };
        causes_text = causes_text + line_break + &text(cause);
    }
    open.record.set_status(Status::Error(&message));
    if let Some(name) = type_name {
        open.record.set("error.type", Value::Str(name));
    }
    let mut event = EventBuilder::new(Some(open), "exception", None);
    event.set("exception.type", type_name);
    set_exception(&message, &causes_text, |key, value| _ = event.set(key, value));
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
        // The attribute is a single string. Rust errors have no stack trace, so it contains the causes.
        set("exception.stacktrace", Value::Str(causes));
    }
}

/// Records a panic on the span that it ends; `time` is the end of the span. Keeps a status that was set before.
#[cold]
#[inline(never)]
pub(super) fn record_panic(open: &mut OpenSpan, time: u64) {
    let record = &mut open.record;
    if !record.has_status() {
        record.set_status(Status::Error("panicked"));
    }
    if record.open_event("exception", time) {
        record.set_in_sub_message("exception.type", Value::Str("panic"));
        record.set_in_sub_message("exception.message", Value::Str("the thread panicked"));
    }
}
