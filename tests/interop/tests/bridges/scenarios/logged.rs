//! Records of the `log` crate, through tracing-log.

use std::sync::OnceLock;

use tracing::info_span;
use tracing_log::LogTracer;

use super::{Scenario, Stage, scenarios};

pub(super) const ALL: &[Scenario] =
    scenarios![logged_at_every_level, logged_with_a_target, logged_outside_of_spans];

/// A process has only one logger. It uses the subscriber of the thread that logs.
fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| LogTracer::init().unwrap());
}

fn logged_at_every_level(_: &Stage<'_>) {
    install();
    info_span!("span").in_scope(|| {
        log::warn!("said {}", 1);
        log::info!("said");
        log::debug!("said");
        log::trace!("said");
    });
    info_span!("failed").in_scope(|| log::error!("said"));
}

fn logged_with_a_target(_: &Stage<'_>) {
    install();
    info_span!("span").in_scope(|| log::info!(target: "shop::till", "paid"));
}

fn logged_outside_of_spans(_: &Stage<'_>) {
    install();
    info_span!("span").in_scope(|| {});
    log::warn!(target: "shop::till", "closed");
    log::warn!("closed");
}
