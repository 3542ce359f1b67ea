//! How much a log record matters.

use std::fmt;

/// How much a log record matters, by OpenTelemetry's numbers: 1 (`Trace`) to 24 (`Fatal4`).
///
/// The six plain ones are what most programs need; the steps between are for those that know finer ones.
///
/// ```
/// use standpipe::Severity;
///
/// assert!(Severity::Warn > Severity::Info4);
/// assert_eq!(Severity::Error.number(), 17);
/// assert_eq!(Severity::Info2.to_string(), "INFO2");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Severity {
    Trace = 1,
    Trace2,
    Trace3,
    Trace4,
    Debug,
    Debug2,
    Debug3,
    Debug4,
    Info,
    Info2,
    Info3,
    Info4,
    Warn,
    Warn2,
    Warn3,
    Warn4,
    Error,
    Error2,
    Error3,
    Error4,
    Fatal,
    Fatal2,
    Fatal3,
    Fatal4,
}

const NAMES: [&str; 24] = [
    "TRACE", "TRACE2", "TRACE3", "TRACE4", "DEBUG", "DEBUG2", "DEBUG3", "DEBUG4", "INFO", "INFO2", "INFO3",
    "INFO4", "WARN", "WARN2", "WARN3", "WARN4", "ERROR", "ERROR2", "ERROR3", "ERROR4", "FATAL", "FATAL2",
    "FATAL3", "FATAL4",
];

impl Severity {
    /// OpenTelemetry's number for it.
    #[inline]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Its short name in capitals, as OpenTelemetry spells it.
    #[inline]
    pub fn name(self) -> &'static str {
        NAMES[usize::from(self.number() - 1)]
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_opentelemetrys() {
        for (severity, number, name) in [
            (Severity::Trace, 1, "TRACE"),
            (Severity::Debug, 5, "DEBUG"),
            (Severity::Info, 9, "INFO"),
            (Severity::Info4, 12, "INFO4"),
            (Severity::Warn, 13, "WARN"),
            (Severity::Error, 17, "ERROR"),
            (Severity::Fatal, 21, "FATAL"),
            (Severity::Fatal4, 24, "FATAL4"),
        ] {
            assert_eq!((severity.number(), severity.name()), (number, name));
        }
    }
}
