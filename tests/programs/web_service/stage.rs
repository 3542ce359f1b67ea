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

    /// As [`browser::check_out`].
    pub(crate) fn check_out(&self, query: &str, headers: &[(&str, &str)]) -> (u16, String) {
        browser::check_out(&self.storefront.url, query, headers)
    }

    /// Ends the services and gives what has arrived: exactly what they have sent.
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
    /// All that the receiver has, if that is what the services say they have delivered.
    pub(crate) fn of(receiver: &Receiver, delivered: &[Delivered]) -> Self {
        let sum = |count: fn(&Delivered) -> u64| delivered.iter().map(count).sum::<u64>();
        assert_eq!(receiver.span_count(), sum(|delivered| delivered.spans));
        assert_eq!(receiver.log_count(), sum(|delivered| delivered.logs));
        assert_eq!(receiver.point_count(), sum(|delivered| delivered.points));
        Self { spans: receiver.spans(), logs: receiver.logs(), metrics: receiver.metrics() }
    }
}
