//! What does the demo run? A pretend shop of three services, each with its own telemetry, that call each other on
//! threads of their own.
//!
//! It is written as a program that uses the library would be; only the work is pretended, by sleeping.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use standpipe::config::Proxy;
use standpipe::{
    Config, ConfigError, Counter, Exporter, Histogram, Signal, SpanBuilder, SpanContext, SpanKind, Status,
    Telemetry, UpDownCounter,
};

use super::ledger::LedgerEntry;

/// A real program would push once a minute; this one runs for a second.
const INTERVAL: Duration = Duration::from_millis(50);
/// Fewer items than this on a shelf are logged as a warning.
const LOW_STOCK: i32 = 4;
/// What every order comes to.
const TOTAL: f64 = 49.5;

/// The three services, running.
pub(crate) struct DemoProgram {
    storefront: Telemetry,
    payments: Telemetry,
    warehouse: Telemetry,
    sales: Sales,
    stock: Stock,
    /// The span in whose trace the program runs; `None`: it begins traces of its own.
    caller: Option<SpanContext>,
}

impl DemoProgram {
    /// Starts the three services; each exports through a copy of `exporter`.
    ///
    /// # Errors
    /// If the endpoint of `exporter` is invalid.
    pub(crate) fn start(exporter: &Exporter, caller: Option<SpanContext>) -> Result<Self, ConfigError> {
        let start = |service: &str| {
            // The receiver is on this machine: a proxy from the environment must not be used.
            let exporter = exporter.clone().proxy(Proxy::Off).interval(INTERVAL);
            Telemetry::start(Config::new().service_name(service).exporter(exporter))
        };
        let (storefront, payments, warehouse) =
            (start("storefront")?, start("payments")?, start("warehouse")?);
        let (sales, stock) = (Sales::new(&storefront), Stock::new(&warehouse));
        Ok(Self { storefront, payments, warehouse, sales, stock, caller })
    }

    /// Serves two customers while visitors browse: one customer pays and gets a parcel, the other's card is declined.
    pub(crate) fn run(&self) {
        self.storefront.logger("shop").info("open for business").emit();
        let (door, closed) = mpsc::channel();
        thread::scope(move |scope| {
            // the visitors leave when it is dropped, also if a customer panics
            let _door: Sender<Infallible> = door;
            scope.spawn(move || self.serve_visitors(&closed));
            let order = self.checkout(4711, Card::Good);
            if let Some(order) = order {
                on_another_thread(|| self.ship(&order));
            }
            self.checkout(4712, Card::Expired);
        });
    }

    /// Shuts the services down and returns the ledger of each, signal by signal.
    pub(crate) fn shutdown(self, budget: Duration) -> Vec<(Signal, LedgerEntry)> {
        let services =
            [("storefront", self.storefront), ("payments", self.payments), ("warehouse", self.warehouse)];
        let shutdown = |(name, telemetry): (&'static str, Telemetry)| {
            let exporters = telemetry.shutdown(budget).exporters;
            let by_signal = exporters.into_iter().flat_map(|exporter| exporter.by_signal());
            by_signal.map(move |(signal, counts)| {
                (signal, LedgerEntry { name: name.to_owned(), records: records_of(signal), counts })
            })
        };
        services.into_iter().flat_map(shutdown).collect()
    }

    /// Visitors are counted and measured only: a span for each would fill the drawing.
    fn serve_visitors(&self, closed: &Receiver<Infallible>) {
        let mut visitor: u64 = 0;
        // they come in waves
        while closed.recv_timeout(Duration::from_millis(visitor % 20 / 4)) == Err(RecvTimeoutError::Timeout) {
            let begun = Instant::now();
            thread::sleep(Duration::from_micros(1500 + visitor * 137 % 2500 + visitor * 591 % 2500));
            let page = if visitor % 3 == 0 { "/" } else { "/tea" };
            self.sales.page_views.add(1, &[("page", page)]);
            self.sales.render.record(millis(begun), ());
            // some put something into a cart, others think better of it
            let change = if visitor / 20 % 2 == 0 { 1 } else { -1 };
            self.sales.open_carts.add(change, ());
            visitor += 1;
        }
    }

    /// Continues the trace of the caller, if there is one.
    fn called<'s>(&'s self, span: SpanBuilder<'s>) -> SpanBuilder<'s> {
        match &self.caller {
            Some(caller) => span.parent(caller),
            None => span,
        }
    }

    /// Returns the context of the message that announces the order, if it was paid.
    fn checkout(&self, order: i64, card: Card) -> Option<SpanContext> {
        let (begun, logger) = (Instant::now(), self.storefront.logger("checkout"));
        let http = self.storefront.tracer("http");
        let mut span = self.called(http.span_builder("POST /checkout").kind(SpanKind::Server)).start();
        span.set("http.route", "/checkout").set("order.id", order);
        logger.info("order received").set("items", 3).emit();
        pass(4);

        self.load_cart();
        let context = span.context().clone();
        thread::scope(|scope| {
            scope.spawn(|| self.price(&context));
            self.call("POST /reservations", |caller| self.reserve(caller));
        });
        let paid = self.pay(card);
        let outcome = if paid.is_ok() { "paid" } else { "declined" };
        self.sales.orders.add(1, &[("outcome", outcome)]);
        let message = match paid {
            Ok(()) => {
                span.set("http.response.status_code", 200);
                self.sales.revenue.add(TOTAL, ());
                logger.info("thank you").event_name("order.paid").set("amount", TOTAL).emit();
                Some(self.announce(order))
            }
            Err(declined) => {
                span.set("http.response.status_code", 402);
                span.status(Status::Error(declined));
                None
            }
        };
        self.sales.checkout.record(millis(begun), ());
        message
    }

    fn load_cart(&self) {
        let mut span = self.storefront.tracer("cart").span("load cart");
        span.set("cart.items", 3);
        pass(3);
        let mut query =
            self.storefront.tracer("postgres").span_builder("SELECT carts").kind(SpanKind::Client).start();
        query.set("db.system.name", "postgresql").set("db.response.returned_rows", 3);
        pass(28);
    }

    fn price(&self, checkout: &SpanContext) {
        let mut span = self.storefront.tracer("cart").span_builder("price order").parent(checkout).start();
        span.set("currency", "EUR");
        pass(22);
        span.event("discount applied").set("code", "AUTUMN").set("percent", 10);
        pass(35);
        span.set("order.total", TOTAL);
    }

    /// Calls another service, on a thread of its own, with the context as the request's header propagates it.
    fn call<T: Send>(&self, request: &str, service: impl FnOnce(&SpanContext) -> T + Send) -> T {
        let mut span = self.storefront.tracer("http").span_builder(request).kind(SpanKind::Client).start();
        span.set("server.address", "127.0.0.1");
        pass(6);
        let caller = as_sent(span.context());
        let answer = on_another_thread(|| service(&caller));
        pass(4);
        answer
    }

    fn reserve(&self, caller: &SpanContext) {
        let http = self.warehouse.tracer("http");
        let mut span = http.span_builder("POST /reservations").parent(caller).kind(SpanKind::Server).start();
        span.set("http.route", "/reservations").set("http.response.status_code", 201);
        let context = span.context().clone();
        thread::scope(|scope| {
            scope.spawn(|| self.take_from_stock("A7", 48, &context));
            scope.spawn(|| self.take_from_stock("C2", 71, &context));
        });
        pass(5);
    }

    fn take_from_stock(&self, shelf: &str, millis: u64, reservation: &SpanContext) {
        let postgres = self.warehouse.tracer("postgres");
        let mut update =
            postgres.span_builder("UPDATE stock").parent(reservation).kind(SpanKind::Client).start();
        update.set("db.system.name", "postgresql").set("shelf", shelf);
        pass(millis);
        let left = self.stock.take(shelf, 2);
        if left < LOW_STOCK {
            self.warehouse.logger("stock").warn("running low").set("left", left).emit();
        }
    }

    fn pay(&self, card: Card) -> Result<(), &'static str> {
        let mut span =
            self.storefront.tracer("http").span_builder("POST /payments").kind(SpanKind::Client).start();
        span.set("server.address", "127.0.0.1");
        if card == Card::Good {
            pass(45);
            span.event("retry").set("attempt", 1).set("reason", "connection reset");
            span.set("http.request.resend_count", 1);
        }
        pass(8);
        let caller = as_sent(span.context());
        let answer = on_another_thread(|| self.charge(&caller, card));
        if let Err(declined) = answer {
            span.status(Status::Error(declined));
        }
        answer
    }

    fn charge(&self, caller: &SpanContext, card: Card) -> Result<(), &'static str> {
        let http = self.payments.tracer("http");
        let mut span = http.span_builder("POST /payments").parent(caller).kind(SpanKind::Server).start();
        span.set("http.route", "/payments");
        pass(12);
        let mut bank =
            self.payments.tracer("bank").span_builder("authorize card").kind(SpanKind::Client).start();
        bank.set("card.network", "debit");
        pass(30);
        bank.event("3-D Secure").set("result", "passed");
        pass(55);
        let charges = self.payments.meter("bank").counter("charges");
        match card {
            Card::Good => {
                charges.add(1, &[("outcome", "paid")]);
                Ok(())
            }
            Card::Expired => {
                let reason = "card expired";
                charges.add(1, &[("outcome", "declined")]);
                bank.event("exception").set("exception.type", "Declined").set("exception.message", reason);
                self.payments.logger("bank").error("card declined").set("reason", reason).emit();
                bank.status(Status::Error(reason));
                span.status(Status::Error(reason));
                Err(reason)
            }
        }
    }

    fn announce(&self, order: i64) -> SpanContext {
        let mut span = self
            .storefront
            .tracer("queue")
            .span_builder("publish order.paid")
            .kind(SpanKind::Producer)
            .start();
        span.set("messaging.destination.name", "order.paid").set("order.id", order);
        pass(9);
        span.context().clone()
    }

    /// Takes the message from the queue: a trace of its own, linked to the one that left it.
    fn ship(&self, message: &SpanContext) {
        let queue = self.warehouse.tracer("queue");
        let mut span = self.called(queue.span_builder("process order.paid").kind(SpanKind::Consumer)).start();
        span.link(message);
        span.set("messaging.destination.name", "order.paid");
        pass(5);
        let parcels = self.warehouse.tracer("parcels");
        {
            let mut pick = parcels.span("pick items");
            pick.set("items", 3);
            pass(64);
        }
        let mut label = parcels.span("print label");
        label.set("carrier", "bicycle");
        pass(31);
        self.warehouse.logger("parcels").info("on its way").event_name("parcel.sent").emit();
    }
}

/// How the customer pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Card {
    Good,
    Expired,
}

/// What the ledger calls the records of a signal.
fn records_of(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "spans",
        Signal::Logs => "logs",
        Signal::Metrics => "points",
        _ => "records",
    }
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

/// Stands for work.
fn pass(millis: u64) {
    thread::sleep(Duration::from_millis(millis));
}

/// The context as another process reads it from the header of a request.
fn as_sent(context: &SpanContext) -> SpanContext {
    SpanContext::from_traceparent(&context.traceparent()).unwrap_or_else(|_| context.clone())
}

fn on_another_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let result = thread::scope(|scope| scope.spawn(work).join());
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The storefront's instruments.
struct Sales {
    orders: Counter<u64>,
    revenue: Counter<f64>,
    checkout: Histogram<f64>,
    open_carts: UpDownCounter<i64>,
    page_views: Counter<u64>,
    render: Histogram<f64>,
}

impl Sales {
    fn new(storefront: &Telemetry) -> Self {
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

/// What is left on the shelves, observed by a gauge at each collection.
#[derive(Clone)]
struct Stock {
    shelves: Arc<[(&'static str, AtomicI32); 2]>,
}

impl Stock {
    fn new(warehouse: &Telemetry) -> Self {
        let shelves = Arc::new([("A7", AtomicI32::new(12)), ("C2", AtomicI32::new(5))]);
        let seen = Arc::clone(&shelves);
        warehouse.meter("stock").build("stock.left").observe_gauge_i64(move |observer| {
            for (shelf, left) in seen.iter() {
                observer.observe(left.load(Ordering::Relaxed).into(), &[("shelf", *shelf)]);
            }
        });
        Self { shelves }
    }

    /// Takes items from a shelf and returns how many are left on it.
    fn take(&self, shelf: &str, items: i32) -> i32 {
        let found = self.shelves.iter().find(|(name, _)| *name == shelf);
        found.map_or(0, |(_, left)| left.fetch_sub(items, Ordering::Relaxed) - items)
    }
}
