//! Settings that both stacks have, and each stack's own defaults.

use tracing::{debug, error, info, info_span};

use super::{Scenario, Stage};
use crate::stacks::Settings;

pub(super) const ALL: &[Scenario] = &[
    Scenario::new("without_location", program).with(Settings { location: false, ..Settings::USUAL }),
    Scenario::new("without_threads", program).with(Settings { threads: false, ..Settings::USUAL }),
    Scenario::new("with_level", program).with(Settings { level: true, ..Settings::USUAL }),
    Scenario::new("without_busy_and_idle", program)
        .with(Settings { busy_and_idle: false, ..Settings::USUAL }),
    Scenario::new("untouched", program).with(Settings { untouched: true, ..Settings::USUAL }),
];

fn program(_: &Stage<'_>) {
    info!("outside");
    debug!("outside and quiet");
    info_span!(target: "shop::basket", "outer", milk = 2).in_scope(|| {
        info_span!(target: "shop::till", "inner")
            .in_scope(|| error!(target: "shop::alarm", price = 1.5, "robbed"));
    });
}
