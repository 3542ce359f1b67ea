//! W3C Trace Context, level 2: `traceparent` and `tracestate`. Reading never panics, and accepts unknown versions and
//! flags.

use std::{env, fmt};

use super::{SpanContext, TraceState};
use crate::record::{SpanId, TraceId, from_hex};

/// Length of a `traceparent` of version 00.
const LENGTH: usize = 55;

pub(super) const TRACEPARENT: &str = "traceparent";
pub(super) const TRACESTATE: &str = "tracestate";

/// The reason why a `traceparent` cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseContextError(&'static str);

impl fmt::Display for ParseContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "traceparent: {}", self.0)
    }
}

impl std::error::Error for ParseContextError {}

impl SpanContext {
    /// Returns the caller's span from the headers of a request, or `None` without a valid `traceparent`. An invalid
    /// `tracestate` is dropped, and the trace continues without it.
    ///
    /// `header` returns the value of a header by its lower-case name. If a header occurs several times, join the values
    /// with commas. [`Context::from_headers`](crate::Context::from_headers) also reads the baggage.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use standpipe::SpanContext;
    ///
    /// let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let headers = HashMap::from([("traceparent", parent), ("tracestate", "rojo=1")]);
    /// let caller = SpanContext::from_headers(|name| headers.get(name)).unwrap();
    /// assert_eq!((caller.traceparent().as_str(), caller.tracestate()), (parent, "rojo=1"));
    /// ```
    pub fn from_headers<V: AsRef<str>>(mut header: impl FnMut(&'static str) -> Option<V>) -> Option<Self> {
        let context = Self::from_traceparent(header(TRACEPARENT)?.as_ref()).ok()?;
        Some(match header(TRACESTATE) {
            Some(state) => context.with_tracestate(state.as_ref()),
            None => context,
        })
    }

    /// Returns the parent process's span, which the environment variables `TRACEPARENT` and `TRACESTATE` describe, or
    /// `None` if `TRACEPARENT` is missing or invalid.
    ///
    /// ```
    /// use standpipe::{SpanContext, Tracer};
    ///
    /// fn run(tracer: &Tracer) {
    ///     let _caller = SpanContext::from_env().map(|caller| caller.enter());
    ///     let _span = tracer.span("backup"); // in the caller's trace, or the root of a new one
    /// }
    /// ```
    pub fn from_env() -> Option<Self> {
        Self::from_headers(|header| env::var(header.to_ascii_uppercase()).ok())
    }

    /// Calls `set` with the headers that make the receiver's spans children of this span: `traceparent`, and
    /// `tracestate` unless it is empty. The names are in lower case, and the values need no escaping.
    ///
    /// ```
    /// use std::collections::HashMap;
    ///
    /// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
    /// let span = telemetry.tracer("shop").span("call");
    /// let mut headers = HashMap::new();
    /// span.context().inject(|name, value| {
    ///     headers.insert(name, value.to_owned());
    /// });
    /// assert_eq!(headers["traceparent"], span.context().traceparent());
    /// ```
    pub fn inject(&self, mut set: impl FnMut(&'static str, &str)) {
        set(TRACEPARENT, &self.traceparent());
        if !self.tracestate().is_empty() {
            set(TRACESTATE, self.tracestate());
        }
    }

    /// Reads a `traceparent` header.
    ///
    /// # Errors
    /// Returns an error if the header is malformed or an id is all zero. The program should then start a new trace.
    pub fn from_traceparent(header: &str) -> Result<Self, ParseContextError> {
        let bytes = header.trim_matches([' ', '\t']).as_bytes();
        let (head, tail) = bytes.split_at_checked(LENGTH).ok_or(ParseContextError("too short"))?;
        if [head[2], head[35], head[52]] != [b'-'; 3] {
            return Err(ParseContextError("dashes are not where they belong"));
        }
        let [version] = hex(&head[..2])?;
        let trace_id = TraceId(hex(&head[3..35])?);
        let span_id = SpanId(hex(&head[36..52])?);
        let [flags] = hex(&head[53..])?;
        match version {
            0xff => return Err(ParseContextError("version ff is forbidden")),
            0 if !tail.is_empty() => return Err(ParseContextError("too long for version 00")),
            // A later version may append fields, separated by a dash.
            _ if !tail.is_empty() && tail[0] != b'-' => return Err(ParseContextError("too long")),
            _ => {}
        }
        Self::known(trace_id, span_id, flags)
    }

    /// Creates a remote context from its parts.
    ///
    /// # Errors
    /// Returns an error if an id is all zero.
    pub(crate) fn known(trace_id: TraceId, span_id: SpanId, flags: u8) -> Result<Self, ParseContextError> {
        match (trace_id.is_valid(), span_id.is_valid()) {
            (true, true) => Ok(Self::new(trace_id, span_id, flags)),
            (false, _) => Err(ParseContextError("trace id is all zero")),
            (true, false) => Err(ParseContextError("parent id is all zero")),
        }
    }

    /// Sets the `tracestate` header. An invalid header is dropped. A header of more than 512 bytes loses entries: see
    /// [`TraceState`].
    #[must_use]
    pub fn with_tracestate(self, header: &str) -> Self {
        self.with_state(TraceState::from_header(header))
    }

    /// Returns the `traceparent` header that makes the receiver's spans children of this span.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

pub(super) fn hex<const N: usize>(digits: &[u8]) -> Result<[u8; N], ParseContextError> {
    // The standard forbids upper case, which `from_hex` accepts.
    let is_lower = !digits.iter().any(u8::is_ascii_uppercase);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_lower);
    text.and_then(|text| from_hex(text).ok()).ok_or(ParseContextError("not lower-case hexadecimal"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_survives_the_round_trip() {
        assert_eq!(SpanContext::from_traceparent(GOOD).unwrap().traceparent(), GOOD);
    }

    #[test]
    fn unusable_traceparents_are_refused_with_a_reason() {
        for (header, reason) in [
            ("", "too short"),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0", "too short"),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-", "too long for version 00"),
            ("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "version ff is forbidden"),
            ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x", "too long"),
            ("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", "not lower-case hexadecimal"),
            ("00-00000000000000000000000000000000-00f067aa0ba902b7-01", "trace id is all zero"),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", "parent id is all zero"),
            ("00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "dashes are not where they belong"),
            ("00-4bf92f3577b34da6a3ce929d0e0e47é-00f067aa0ba902b7-01", "not lower-case hexadecimal"),
        ] {
            assert_eq!(SpanContext::from_traceparent(header), Err(ParseContextError(reason)), "{header}");
        }
    }

    #[test]
    fn a_later_version_and_unknown_flags_are_safe() {
        let header = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff-what-comes-later";
        let context = SpanContext::from_traceparent(header).unwrap();
        assert_eq!(context.traceparent(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03");
    }

    proptest::proptest! {
        #[test]
        fn parsing_anything_never_panics(parent in ".{0,80}", state in ".{0,80}") {
            let _ = SpanContext::from_traceparent(&parent);
            let _ = SpanContext::from_traceparent(GOOD).unwrap().with_tracestate(&state);
        }
    }
}
