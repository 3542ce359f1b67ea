//! How much one record may carry.

/// How much one span may carry; what is above is dropped and its count sent along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// How much one log record may carry beside its body; what is above is dropped and its count sent along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
