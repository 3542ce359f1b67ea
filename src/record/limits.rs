//! How much may one record carry? Counts of attributes, events and links, and the length of values.

/// Setters for the limits of a record, each named as its field.
macro_rules! limit_setters {
    ($limits:ident, $($count:ident)*) => {
        impl $limits {
            $(#[doc = concat!("Sets [`", stringify!($count), "`](Self#structfield.", stringify!($count), ").")]
            #[must_use]
            pub fn $count(mut self, count: u32) -> Self {
                self.$count = count;
                self
            })*

            /// Sets [`value_length`](Self#structfield.value_length).
            #[must_use]
            pub fn value_length(mut self, length: impl Into<Option<usize>>) -> Self {
                self.value_length = length.into();
                self
            }
        }
    };
}

/// How much one span may carry; what is above is dropped and its count sent along.
///
/// ```
/// use standpipe::config::SpanLimits;
///
/// let limits = SpanLimits::default().attributes(64).value_length(4096);
/// assert_eq!((limits.attributes, limits.value_length), (64, Some(4096)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpanLimits {
    /// Attributes of a span.
    pub attributes: u32,
    /// Events of a span.
    pub events: u32,
    /// Links of a span.
    pub links: u32,
    /// Attributes of one event.
    pub event_attributes: u32,
    /// Attributes of one link.
    pub link_attributes: u32,
    /// Longest string value in characters, and longest value of bytes; `None` = any.
    pub value_length: Option<usize>,
}

impl Default for SpanLimits {
    fn default() -> Self {
        Self {
            attributes: 128,
            events: 128,
            links: 128,
            event_attributes: 128,
            link_attributes: 128,
            value_length: None,
        }
    }
}

limit_setters!(SpanLimits, attributes events links event_attributes link_attributes);

/// How much one log record may carry beside its body; what is above is dropped and its count sent along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLimits {
    /// Attributes of a log record.
    pub attributes: u32,
    /// Longest string value of an attribute in characters, and longest value of bytes; `None` = any. The body is not
    /// an attribute and is never cut.
    pub value_length: Option<usize>,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { attributes: 128, value_length: None }
    }
}

limit_setters!(LogLimits, attributes);
