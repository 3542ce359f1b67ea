//! What the shop counts and measures, made once and kept where it is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use standpipe::{Counter, Histogram, Telemetry, UpDownCounter};

/// The storefront's instruments.
pub(super) struct Sales {
    pub(super) orders: Counter<u64>,
    pub(super) revenue: Counter<f64>,
    pub(super) checkout: Histogram<f64>,
    pub(super) open_carts: UpDownCounter<i64>,
    pub(super) page_views: Counter<u64>,
    pub(super) render: Histogram<f64>,
}

impl Sales {
    pub(super) fn new(storefront: &Telemetry) -> Self {
        let meter = storefront.meter("sales");
        Self {
            orders: meter.counter("orders"),
            revenue: meter.build("revenue").unit("EUR").counter_f64(),
            checkout: meter.build("checkout.time").unit("ms").histogram(),
            open_carts: meter.up_down_counter("carts.open"),
            page_views: meter.counter("page.views"),
            render: meter.build("page.render").unit("ms").exponential().histogram(),
        }
    }
}

/// What is left on the shelves. Nobody tells the gauge: it looks when it is asked.
#[derive(Clone)]
pub(super) struct Stock {
    shelves: Arc<[(&'static str, AtomicI64); 2]>,
}

impl Stock {
    pub(super) fn new(warehouse: &Telemetry) -> Self {
        let shelves = Arc::new([("A7", AtomicI64::new(12)), ("C2", AtomicI64::new(5))]);
        let seen = Arc::clone(&shelves);
        warehouse.meter("stock").build("stock.left").observe_gauge_i64(move |observer| {
            for (shelf, left) in seen.iter() {
                observer.observe(left.load(Ordering::Relaxed), &[("shelf", *shelf)]);
            }
        });
        Self { shelves }
    }

    /// Takes from a shelf and says how many are left on it.
    pub(super) fn take(&self, shelf: &str, items: i64) -> i64 {
        let found = self.shelves.iter().find(|(name, _)| *name == shelf);
        found.map_or(0, |(_, left)| left.fetch_sub(items, Ordering::Relaxed) - items)
    }
}
