//! W3C Trace Context, level 2: `traceparent` and `tracestate`. Reading never panics, and accepts unknown versions and
//! flags.

use std::{env, fmt};

use super::SpanContext;
use crate::record::{SpanId, TraceId, from_hex};

/// Length of a `traceparent` of version 00.
const LENGTH: usize = 55;
/// Maximum bytes and members of a `tracestate`. A `tracestate` that exceeds one of them is dropped.
const MAX_STATE_BYTES: usize = 512;
const MAX_STATE_MEMBERS: usize = 32;

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

    /// Returns the span that started this process, from the environment variables `TRACEPARENT` and `TRACESTATE`, or
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
        Self::from_headers(variable)
    }

    /// Calls `set` with the headers that make the receiver's spans children of this one: `traceparent`, and
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
        Self::known(trace_id, span_id, flags, true)
    }

    /// Creates a context from its parts.
    ///
    /// # Errors
    /// Returns an error if an id is all zero.
    pub(crate) fn known(
        trace_id: TraceId,
        span_id: SpanId,
        flags: u8,
        is_remote: bool,
    ) -> Result<Self, ParseContextError> {
        if !trace_id.is_valid() {
            return Err(ParseContextError("trace id is all zero"));
        }
        if !span_id.is_valid() {
            return Err(ParseContextError("parent id is all zero"));
        }
        Ok(Self { is_remote, ..Self::new(trace_id, span_id, flags) })
    }

    /// Sets the `tracestate` header. An invalid or oversized header is dropped, as the standard demands.
    #[must_use]
    pub fn with_tracestate(mut self, header: &str) -> Self {
        self.state = clean_state(header).map(Into::into);
        self
    }

    /// Returns the `traceparent` header that makes the receiver's spans children of this one.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

/// Returns the value of the environment variable for a header, or `None` if it is not set or not UTF-8.
pub(super) fn variable(header: &str) -> Option<String> {
    env::var(header.to_ascii_uppercase()).ok()
}

fn hex<const N: usize>(digits: &[u8]) -> Result<[u8; N], ParseContextError> {
    // The standard forbids upper case, which `from_hex` accepts.
    let digits =
        std::str::from_utf8(digits).ok().filter(|digits| !digits.bytes().any(|b| b.is_ascii_uppercase()));
    let bytes = digits.and_then(|digits| from_hex(digits).ok());
    bytes.ok_or(ParseContextError("not lower-case hexadecimal"))
}

/// Returns the list in normal form, without empty members, or `None` if it is empty, malformed or too large.
fn clean_state(header: &str) -> Option<String> {
    let mut members: Vec<&str> = Vec::new();
    for member in header.split(',').map(|member| member.trim_matches([' ', '\t'])) {
        if member.is_empty() {
            continue;
        }
        let (key, value) = member.split_once('=')?;
        let known = members.iter().any(|other| other.split_once('=').is_some_and(|(name, _)| name == key));
        if known || !valid_key(key) || !valid_value(value) || members.len() == MAX_STATE_MEMBERS {
            return None;
        }
        members.push(member);
    }
    let list = members.join(",");
    (!list.is_empty() && list.len() <= MAX_STATE_BYTES).then_some(list)
}

fn valid_key(key: &str) -> bool {
    let starts_well = key.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    starts_well && key.len() <= 256 && key.bytes().all(allowed)
}

fn valid_value(value: &str) -> bool {
    let printable = |byte: u8| matches!(byte, 0x20..=0x7e) && byte != b',' && byte != b'=';
    !value.is_empty() && value.len() <= 256 && value.bytes().all(printable) && !value.ends_with(' ')
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

    #[test]
    fn tracestate_is_kept_in_normal_form_or_not_at_all() {
        let context = SpanContext::from_traceparent(GOOD).unwrap();
        let long = format!("a={}", "x".repeat(257));
        let many = (0..33).map(|index| format!("k{index}=v")).collect::<Vec<_>>().join(",");
        for (header, kept) in [
            ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
            (" a=1 ,, b=2\t", "a=1,b=2"),
            ("tenant@system=x", "tenant@system=x"),
            ("", ""),
            ("a", ""),
            ("a=1,a=2", ""),
            ("A=1", ""),
            ("a=ü", ""),
            (&long, ""),
            (&many, ""),
        ] {
            assert_eq!(context.clone().with_tracestate(header).tracestate(), kept, "{header}");
        }
    }

    proptest::proptest! {
        #[test]
        fn parsing_anything_never_panics(parent in ".{0,80}", state in ".{0,80}") {
            let _ = SpanContext::from_traceparent(&parent);
            let _ = SpanContext::from_traceparent(GOOD).unwrap().with_tracestate(&state);
        }
    }
}
