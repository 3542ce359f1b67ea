//! Functions with `#[instrument]`.

use tracing::{Level, info, instrument};

use super::fields::Failure;
use super::{Scenario, Stage, scenarios};

pub(super) const ALL: &[Scenario] = scenarios![plain, with_results, with_errors, with_settings, as_methods];

fn plain(_: &Stage<'_>) {
    #[instrument]
    fn buy(what: &str, count: i64, size: usize, gift: bool, weight: f64, tags: &[&str]) -> bool {
        info!("bought");
        pack();
        count > 0 && size > 0 && gift && weight > 0.0 && tags.is_empty() && what.is_empty()
    }
    #[instrument]
    fn pack() {}
    buy("milk", 2, 3, true, 0.5, &["fresh", "cold"]);
}

fn with_results(_: &Stage<'_>) {
    #[instrument(ret)]
    fn price(count: i64) -> i64 {
        count * 3
    }
    #[instrument(ret(Display, level = Level::WARN))]
    fn label() -> &'static str {
        "milk"
    }
    price(2);
    label();
}

fn with_errors(_: &Stage<'_>) {
    #[instrument(err)]
    fn displayed() -> Result<(), Failure> {
        Err(Failure::chained())
    }
    #[instrument(err(Debug))]
    fn debugged() -> Result<(), Failure> {
        Err(Failure::plain())
    }
    #[instrument(err(level = Level::INFO), ret)]
    fn calmly(well: bool) -> Result<i64, Failure> {
        if well { Ok(1) } else { Err(Failure::plain()) }
    }
    #[instrument(err)]
    fn well() -> Result<(), Failure> {
        Ok(())
    }
    drop((displayed(), debugged(), calmly(false), calmly(true), well()));
}

fn with_settings(_: &Stage<'_>) {
    #[instrument(name = "GET /milk", level = "warn", target = "shop::http", skip(secret), fields(otel.kind = "server", answer = 42, secret.length = secret.len()))]
    fn handle(path: &str, secret: &str) -> usize {
        path.len() + secret.len()
    }
    #[instrument(skip_all, fields(late))]
    fn sparse(_unseen: &str) {
        tracing::Span::current().record("late", "recorded");
    }
    #[instrument(parent = None)]
    fn alone() {}
    handle("/milk", "key");
    sparse("unseen");
    tracing::info_span!("outer").in_scope(alone);
}

fn as_methods(_: &Stage<'_>) {
    #[derive(Debug)]
    struct Basket {
        _eggs: u8,
    }
    impl Basket {
        #[instrument]
        fn fill(&self) {}

        #[instrument(skip(self))]
        fn empty(&self) {}
    }
    let basket = Basket { _eggs: 6 };
    basket.fill();
    basket.empty();
}
