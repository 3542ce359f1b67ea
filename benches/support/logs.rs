//! Log records as they are measured: inside a span, with the attributes of the measured spans.

use std::hint::black_box;

use standpipe::{Config, Logger, Span, Telemetry};

use super::Error;
use super::workload::text;

/// Which log records are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogCase {
    /// With the five attributes of a span.
    FiveAttributes,
    /// With one attribute, below the level of every exporter.
    Filtered,
}

impl LogCase {
    pub(crate) const ALL: [Self; 2] = [Self::FiveAttributes, Self::Filtered];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FiveAttributes => "log, 5 attributes",
            Self::Filtered => "log, filtered",
        }
    }

    /// # Errors
    /// When there is no such case.
    pub(crate) fn named(name: &str) -> Result<Self, Error> {
        let case = Self::ALL.into_iter().find(|case| case.name() == name);
        case.ok_or_else(|| format!("{name}: no such case").into())
    }

    pub(crate) fn is_sent(self) -> bool {
        self == Self::FiveAttributes
    }
}

/// Emits log records of one case through one logger, below one span.
pub(crate) struct LogWorkload {
    logger: Logger,
    case: LogCase,
    /// Of a program without exporters: its ids are wanted, and it must not count among the records.
    _current: Span,
}

impl LogWorkload {
    /// # Errors
    /// Never, as a program without exporters always starts.
    pub(crate) fn new(telemetry: &Telemetry, case: LogCase) -> Result<Self, Error> {
        let current = Telemetry::start(Config::new())?.tracer(text::SCOPE).span(text::ROOT);
        Ok(Self { logger: telemetry.logger(text::SCOPE), case, _current: current })
    }

    /// As instrumented code does it: keys are constants, values are not.
    pub(crate) fn emit(&self, records: u64) {
        for _ in 0..records {
            match self.case {
                LogCase::FiveAttributes => self
                    .logger
                    .info(black_box(text::CHILD))
                    .set(text::ROUTE.0, black_box(text::ROUTE.1))
                    .set(text::HOST.0, black_box(text::HOST.1))
                    .set(text::ZONE.0, black_box(text::ZONE.1))
                    .set(text::STATUS.0, black_box(text::STATUS.1))
                    .set(text::CACHED.0, black_box(text::CACHED.1))
                    .emit(),
                LogCase::Filtered => {
                    self.logger
                        .debug(black_box(text::CHILD))
                        .set(text::STATUS.0, black_box(text::STATUS.1))
                        .emit();
                }
            }
        }
    }
}
