//! The formats in which a context travels to other processes, and combinations of them.

use std::env;

use super::baggage::{BAGGAGE, Baggage};
use super::w3c::{TRACEPARENT, TRACESTATE};
use super::{Context, SpanContext};

/// A format in which a context travels in headers or environment variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Propagator {
    /// W3C Trace Context: `traceparent` and `tracestate`.
    TraceContext,
    /// W3C Baggage: `baggage`.
    Baggage,
    /// B3 of Zipkin in one header: `b3`. Also reads the headers of [`B3Multi`](Self::B3Multi).
    B3,
    /// B3 in several headers: `x-b3-traceid`, `x-b3-spanid`, `x-b3-sampled` and `x-b3-flags`. Also reads the header
    /// of [`B3`](Self::B3).
    B3Multi,
}

impl Propagator {
    /// Returns the names of the headers that the propagator sets.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::TraceContext => &[TRACEPARENT, TRACESTATE],
            Self::Baggage => &[BAGGAGE],
            Self::B3 => &[b3::SINGLE],
            Self::B3Multi => &b3::MULTI,
        }
    }
}

/// The propagators of a program, in the order of their use. The default is W3C: `tracecontext` and `baggage`.
///
/// [`Telemetry::propagators`](crate::Telemetry::propagators) returns the propagators that the code, the configuration
/// file or `OTEL_PROPAGATORS` selects. [`Context::from_headers`] and [`Context::inject`] always use the default.
///
/// ```
/// use std::collections::HashMap;
/// use standpipe::{Propagator, Propagators};
///
/// let propagators = Propagators::new([Propagator::B3, Propagator::Baggage]);
/// let headers = HashMap::from([("b3", "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1")]);
/// let caller = propagators.extract(|name| headers.get(name));
/// assert!(caller.span().is_some_and(|span| span.is_sampled()));
/// let mut sent = HashMap::new();
/// propagators.inject(&caller, |name, value| {
///     sent.insert(name, value.to_owned());
/// });
/// assert_eq!(sent["b3"], headers["b3"]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Propagators([Option<Propagator>; 4]);

impl Propagators {
    /// Combines propagators. Repeated propagators are left out. An empty combination propagates nothing.
    pub fn new(propagators: impl IntoIterator<Item = Propagator>) -> Self {
        let mut all = Self([None; 4]);
        for propagator in propagators {
            // Finds the place of this propagator if it is repeated, otherwise the first free place. There are four
            // different propagators, and as many places.
            if let Some(place) = all.0.iter_mut().find(|place| place.is_none_or(|known| known == propagator))
            {
                *place = Some(propagator);
            }
        }
        all
    }

    /// Returns the propagators, in the order of their use.
    pub fn iter(&self) -> impl Iterator<Item = Propagator> + use<> {
        self.0.into_iter().flatten()
    }

    /// Returns the names of the headers that [`inject`](Self::inject) may set. Remove these headers before you inject
    /// another context into the same request.
    pub fn fields(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.iter().flat_map(Propagator::fields).copied()
    }

    /// Reads the caller's context from the headers of a request, as [`Context::from_headers`] does. Headers that are
    /// absent or invalid are ignored. If several propagators find a span, the last one counts.
    pub fn extract<V: AsRef<str>>(&self, mut header: impl FnMut(&'static str) -> Option<V>) -> Context {
        let mut context = Context::new();
        for propagator in self.iter() {
            let span = match propagator {
                Propagator::TraceContext => SpanContext::from_headers(&mut header),
                Propagator::B3 | Propagator::B3Multi => b3::extract(&mut header),
                Propagator::Baggage => {
                    let value = header(BAGGAGE);
                    context.baggage = value.map_or_else(Baggage::new, |it| Baggage::from_header(it.as_ref()));
                    None
                }
            };
            context.span = span.or(context.span);
        }
        context
    }

    /// Reads the context that the parent process passed in the environment: each header from its
    /// [variable](Self::variable).
    pub fn extract_env(&self) -> Context {
        self.extract(|header| env::var(Self::variable(header)).ok())
    }

    /// Calls `set` with each header that carries the context to another process, as [`Context::inject`] does.
    pub fn inject(&self, context: &Context, mut set: impl FnMut(&'static str, &str)) {
        for propagator in self.iter() {
            match (propagator, &context.span) {
                (Propagator::Baggage, _) if context.baggage.is_empty() => {}
                (Propagator::Baggage, _) => set(BAGGAGE, &context.baggage.header()),
                (Propagator::TraceContext, Some(span)) => span.inject(&mut set),
                (form, Some(span)) => b3::inject(span, form == Propagator::B3Multi, &mut set),
                (_, None) => {}
            }
        }
    }

    /// Calls `set` with each environment variable that carries the context to a child process.
    ///
    /// ```
    /// use std::process::Command;
    /// use standpipe::{Context, Propagator, Propagators};
    ///
    /// let mut command = Command::new("backup");
    /// Propagators::new([Propagator::B3Multi]).inject_env(&Context::current(), |name, value| {
    ///     command.env(name, value); // X_B3_TRACEID and others, which extract_env reads
    /// });
    /// ```
    pub fn inject_env(&self, context: &Context, mut set: impl FnMut(&str, &str)) {
        self.inject(context, |header, value| set(&Self::variable(header), value));
    }

    /// Returns the name of the environment variable for a header: the header's name in upper case, with `_` for
    /// characters other than ASCII letters, digits and `_`. A name that is empty or starts with a digit gets a `_` in
    /// front.
    ///
    /// ```
    /// assert_eq!(standpipe::Propagators::variable("x-b3-traceid"), "X_B3_TRACEID");
    /// ```
    pub fn variable(header: &str) -> String {
        let needs_prefix = header.is_empty() || header.starts_with(|c: char| c.is_ascii_digit());
        let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        needs_prefix.then_some('_').into_iter().chain(header.chars().map(allowed)).collect()
    }
}

impl Default for Propagators {
    fn default() -> Self {
        Self::new([Propagator::TraceContext, Propagator::Baggage])
    }
}

mod b3 {
    //! The headers of B3 (Zipkin): `b3`, or several headers `x-b3-…`.
    //!
    //! Reading never panics. An invalid header is ignored as a whole.

    use crate::context::w3c::hex;
    use crate::context::{B3Mark, SAMPLED, SpanContext};
    use crate::record::{SpanId, TraceId};

    pub(super) const SINGLE: &str = "b3";
    pub(super) const MULTI: [&str; 4] = [TRACE_ID, SPAN_ID, SAMPLED_FLAG, FLAGS];
    const TRACE_ID: &str = "x-b3-traceid";
    const SPAN_ID: &str = "x-b3-spanid";
    const SAMPLED_FLAG: &str = "x-b3-sampled";
    /// The value `1` means debug.
    const FLAGS: &str = "x-b3-flags";

    /// Reads the header `b3` or, if `b3` is absent or invalid, the headers `x-b3-…`.
    pub(super) fn extract<V: AsRef<str>>(
        header: &mut dyn FnMut(&'static str) -> Option<V>,
    ) -> Option<SpanContext> {
        let single = header(SINGLE).and_then(|header| read_single(first(header.as_ref())));
        single.or_else(|| read_multi(header))
    }

    /// Returns the first value of a header whose repetitions were joined with commas.
    fn first(header: &str) -> &str {
        header.split(',').next().unwrap_or_default().trim_matches([' ', '\t'])
    }

    /// Reads `TRACE-SPAN[-STATE[-PARENT]]`. A header with a state alone, such as `0`, is ignored: without ids, there is
    /// no parent.
    fn read_single(header: &str) -> Option<SpanContext> {
        let mut parts = header.split('-');
        let (trace_id, span_id, state) = (parts.next()?, parts.next()?, parts.next());
        let is_parent = parts.next().is_none_or(|parent| hex::<8>(parent.as_bytes()).is_ok());
        (is_parent && parts.next().is_none()).then(|| context(trace_id, span_id, state)).flatten()
    }

    fn read_multi<V: AsRef<str>>(header: &mut dyn FnMut(&'static str) -> Option<V>) -> Option<SpanContext> {
        let (trace_id, span_id) = (header(TRACE_ID)?, header(SPAN_ID)?);
        let is_debug = header(FLAGS).is_some_and(|flags| first(flags.as_ref()) == "1");
        let sampled = header(SAMPLED_FLAG).map(|sampled| first(sampled.as_ref()).to_ascii_lowercase());
        let state = match sampled.as_deref() {
            _ if is_debug => Some("d"),
            Some("true") => Some("1"),
            Some("false") => Some("0"),
            Some("d") => return None,
            other => other,
        };
        context(first(trace_id.as_ref()), first(span_id.as_ref()), state)
    }

    /// Makes a remote context. `state` is that of a `b3` header, such as `1`. A trace id of 64 bits is padded with
    /// zeros.
    fn context(trace_id: &str, span_id: &str, state: Option<&str>) -> Option<SpanContext> {
        let (flags, b3) = match state {
            None => (0, Some(B3Mark::Deferred)),
            Some("d") => (SAMPLED, Some(B3Mark::Debug)),
            Some("1") => (SAMPLED, None),
            Some("0") => (0, None),
            Some(_) => return None,
        };
        let mut bytes = [0; 16];
        match trace_id.len() {
            16 => bytes[8..].copy_from_slice(&hex::<8>(trace_id.as_bytes()).ok()?),
            _ => bytes = hex(trace_id.as_bytes()).ok()?,
        }
        let span_id = SpanId(hex(span_id.as_bytes()).ok()?);
        let context = SpanContext::known(TraceId(bytes), span_id, flags).ok()?;
        Some(SpanContext { b3, state: b3.map(|_| "".into()), ..context })
    }

    /// Calls `set` with each header. The optional id of the span's parent is never sent.
    pub(super) fn inject(span: &SpanContext, is_multi: bool, set: &mut dyn FnMut(&'static str, &str)) {
        let (state, header) = match span.b3 {
            Some(B3Mark::Deferred) => ("", ""),
            Some(B3Mark::Debug) => ("-d", FLAGS),
            None if span.is_sampled() => ("-1", SAMPLED_FLAG),
            None => ("-0", SAMPLED_FLAG),
        };
        if !is_multi {
            return set(SINGLE, &format!("{}-{}{state}", span.trace_id, span.span_id));
        }
        set(TRACE_ID, &span.trace_id.to_string());
        set(SPAN_ID, &span.span_id.to_string());
        if !header.is_empty() {
            set(header, if state == "-0" { "0" } else { "1" });
        }
    }
}
