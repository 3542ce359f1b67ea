//! What a span can be told while it is open, the same for all spans.

/// The methods of a span whose `open_mut` gives `None` where nothing is recorded.
macro_rules! setters {
    ($span:ident) => {
        impl $span {
            /// Sets an attribute. The last value of a key counts; above the limit an attribute is dropped and counted.
            #[inline]
            pub fn set<'v>(&mut self, key: &str, value: impl Into<Value<'v>>) -> &mut Self {
                if let Some(open) = self.open_mut() {
                    open.record.set(key, value.into());
                }
                self
            }

            /// Gives it another name.
            pub fn rename(&mut self, name: &str) -> &mut Self {
                if let Some(open) = self.open_mut() {
                    open.record.set_name(name);
                }
                self
            }

            /// Notes that something happened, now: `span.event("cache miss").set("key", "a")`.
            pub fn event(&mut self, name: &str) -> SpanPart<'_> {
                SpanPart::event(self.open_mut(), name)
            }

            /// Notes that something happened, then.
            pub fn event_with_time(&mut self, name: &str, time: SystemTime) -> SpanPart<'_> {
                SpanPart::event_with_time(self.open_mut(), name, time)
            }

            /// Points at another span that has to do with this one: `span.link(&context).set("why", "batch")`.
            pub fn link(&mut self, context: &SpanContext) -> SpanPart<'_> {
                SpanPart::link(self.open_mut(), context)
            }

            /// Says how it went. `Ok` is final; an error can be replaced by a later one.
            pub fn status(&mut self, status: Status<'_>) -> &mut Self {
                if let Some(open) = self.open_mut() {
                    open.record.set_status(status);
                }
                self
            }

            /// The role of the span among its neighbours.
            pub fn kind(&mut self, kind: SpanKind) -> &mut Self {
                if let Some(open) = self.open_mut() {
                    open.record.set_kind(kind);
                }
                self
            }
        }
    };
}

pub(super) use setters;
