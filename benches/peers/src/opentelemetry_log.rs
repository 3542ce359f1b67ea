//! The macros of the `log` crate with opentelemetry-appender-log.

use std::hint::black_box;

use log::LevelFilter;
use opentelemetry_appender_log::OpenTelemetryLogBridge;

use crate::opentelemetry::{in_span, logger_provider};
use crate::support::Error;
use crate::support::program::{Burst, Program, repeat};
use crate::support::workload::text;
use crate::{Contender, case};

pub(crate) const CONTENDER: Contender = Contender {
    name: "log + opentelemetry",
    cases: &[case::LOG, case::FILTERED_LOG],
    note: "opentelemetry-appender-log 0.33; filtered records are stopped by the one level that `log` has for the whole \
           program",
    start,
};

fn start(case: &str, endpoint: &str) -> Result<Program, Error> {
    let provider = logger_provider(endpoint)?;
    log::set_boxed_logger(Box::new(OpenTelemetryLogBridge::new(&provider)))?;
    log::set_max_level(LevelFilter::Info);
    let inside = in_span();
    let burst: Burst = match case {
        case::LOG => repeat(move |_| {
            let _inside = &inside;
            log::info!(
                "http.route" = black_box(text::ROUTE.1),
                "server.address" = black_box(text::HOST.1),
                "cloud.region" = black_box(text::ZONE.1),
                "http.response.status_code" = black_box(text::STATUS.1),
                "cache.hit" = black_box(text::CACHED.1);
                "order placed"
            );
        }),
        case::FILTERED_LOG => Box::new(|calls| {
            for _ in 0..calls {
                log::debug!(
                    "http.route" = black_box(text::ROUTE.1),
                    "server.address" = black_box(text::HOST.1),
                    "cloud.region" = black_box(text::ZONE.1),
                    "http.response.status_code" = black_box(text::STATUS.1),
                    "cache.hit" = black_box(text::CACHED.1);
                    "order placed"
                );
            }
            log::info!("order placed");
        }),
        _ => return Err(format!("{case}: not a case of this contender").into()),
    };
    let flushed = provider.clone();
    Ok(Program::new(burst, move || Ok(flushed.force_flush()?), move || Ok(provider.shutdown()?)))
}
