//! Both services and the receiver of their telemetry.

use standpipe::receiver::{ReceivedLog, ReceivedMetric, ReceivedSpan, Receiver};

use super::browser;
use super::service::{Delivered, Service};

pub(crate) struct Stage {
    receiver: Receiver,
    pub(crate) storefront: Service,
    pub(crate) warehouse: Service,
}

impl Stage {
    pub(crate) fn open() -> Self {
        let receiver = Receiver::start().expect("loopback has free ports");
        let warehouse = Service::warehouse(&receiver);
        let storefront = Service::storefront(&receiver, &warehouse.url);
        Self { receiver, storefront, warehouse }
    }

    /// Calls [`browser::check_out`] with the URL of the storefront.
    pub(crate) fn check_out(&self, query: &str, headers: &[(&str, &str)]) -> (u16, String) {
        browser::check_out(&self.storefront.url, query, headers)
    }

    /// Ends the services and returns the received records, which are exactly those that were sent.
    pub(crate) fn close(self) -> Arrived {
        let delivered = [self.storefront.end(), self.warehouse.end()];
        Arrived::of(&self.receiver, &delivered)
    }
}

pub(crate) struct Arrived {
    pub(crate) spans: Vec<ReceivedSpan>,
    pub(crate) logs: Vec<ReceivedLog>,
    pub(crate) metrics: Vec<ReceivedMetric>,
}

impl Arrived {
    /// Returns the received records, and asserts that their number is the one that the services report as delivered.
    pub(crate) fn of(receiver: &Receiver, delivered: &[Delivered]) -> Self {
        let sum = |count: fn(&Delivered) -> u64| delivered.iter().map(count).sum::<u64>();
        assert_eq!(receiver.span_count(), sum(|delivered| delivered.spans));
        assert_eq!(receiver.log_count(), sum(|delivered| delivered.logs));
        assert_eq!(receiver.point_count(), sum(|delivered| delivered.points));
        Self { spans: receiver.spans(), logs: receiver.logs(), metrics: receiver.metrics() }
    }
}
