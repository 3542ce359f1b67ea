//! Compile-time checks of the types that programs share between threads.

use crate::*;

const fn is_send_and_sync<T: Send + Sync>() {}

/// Checked when the tests are compiled: a type that loses a trait breaks programs.
const _: () = {
    is_send_and_sync::<Telemetry>();
    is_send_and_sync::<Provider>();
    is_send_and_sync::<Config>();
    is_send_and_sync::<ConfigError>();
    is_send_and_sync::<Exporter>();
    is_send_and_sync::<Ledger>();
    is_send_and_sync::<Tracer>();
    is_send_and_sync::<SpanBuilder<'_>>();
    is_send_and_sync::<DetachedSpan>();
    is_send_and_sync::<SpanContext>();
    is_send_and_sync::<TraceId>();
    is_send_and_sync::<SpanId>();
    is_send_and_sync::<Value<'_>>();
    is_send_and_sync::<Logger>();
    is_send_and_sync::<Log<'_>>();
    is_send_and_sync::<Meter>();
    is_send_and_sync::<Counter<u64>>();
    is_send_and_sync::<Histogram<f64>>();
};

/// Two implementations match a type that is `Send`, so the compiler cannot choose.
trait AmbiguousIfSend<Which> {
    const HOLDS: () = ();
}

impl<T: ?Sized> AmbiguousIfSend<()> for T {}
impl<T: ?Sized + Send> AmbiguousIfSend<u8> for T {}

/// A guard belongs to the thread on whose stack it is.
const _: () = {
    let () = <Span as AmbiguousIfSend<_>>::HOLDS;
    let () = <ContextGuard as AmbiguousIfSend<_>>::HOLDS;
};
