//! The demo's program: a pretend shop of three services with separate telemetry, which call each other across threads.
//!
//! It uses the library like any other program. Only its work is simulated, by sleeping.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use standpipe::config::Proxy;
use standpipe::{Config, ConfigError, Exporter, Signal, Span, SpanContext, SpanKind, Status, Telemetry};

use super::ledger::LedgerEntry;

/// Time between two pushes of metrics. Real programs push once a minute, but this one runs for a second.
const INTERVAL: Duration = Duration::from_millis(50);
/// If a shelf has fewer items than this, a warning is logged.
const LOW_STOCK: i32 = 4;
/// Price of every order, in EUR.
const TOTAL: f64 = 49.5;

/// The three services, running.
pub(crate) struct DemoProgram {
    storefront: Telemetry,
    payments: Telemetry,
    warehouse: Telemetry,
    /// Number of items on each shelf of the warehouse.
    stock: Arc<[(&'static str, AtomicI32); 2]>,
    /// Parent of the program's traces; `None` if they have no parent.
    caller: Option<SpanContext>,
}

impl DemoProgram {
    /// Starts the three services. Each exports through a copy of `exporter`.
    ///
    /// # Errors
    /// Returns an error if the endpoint of `exporter` is invalid.
    pub(crate) fn start(exporter: &Exporter, caller: Option<SpanContext>) -> Result<Self, ConfigError> {
        let start = |service: &str| {
            // The receiver is on this machine, so the environment's proxy must not be used.
            let exporter = exporter.clone().proxy(Proxy::Off).interval(INTERVAL);
            Telemetry::start(Config::new().service_name(service).exporter(exporter))
        };
        let (storefront, payments, warehouse) =
            (start("storefront")?, start("payments")?, start("warehouse")?);
        let stock = Arc::new([("A7", AtomicI32::new(12)), ("C2", AtomicI32::new(5))]);
        let seen = Arc::clone(&stock);
        warehouse.meter("stock").build("stock.left").observe_gauge_i64(move |observer| {
            for (shelf, left) in seen.iter() {
                observer.observe(left.load(Ordering::Relaxed).into(), &[("shelf", *shelf)]);
            }
        });
        Ok(Self { storefront, payments, warehouse, stock, caller })
    }

    /// Serves two customers while visitors browse: one customer pays and gets a parcel, the other's card is declined.
    pub(crate) fn run(&self) {
        self.storefront.logger("shop").info("open for business").emit();
        let (door, closed) = mpsc::channel();
        thread::scope(move |scope| {
            // The scope waits for `serve_visitors`, which returns when `_door` is dropped. The closure owns `_door`, so
            // `_door` is dropped even if the closure panics.
            let _door: Sender<Infallible> = door;
            scope.spawn(move || self.serve_visitors(&closed));
            if let Some(order) = self.checkout(4711, false) {
                on_another_thread(|| self.ship(&order));
            }
            self.checkout(4712, true);
        });
    }

    /// Shuts down the services, and returns a ledger entry for each signal of each service.
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

    /// Serves visitors, who produce metrics but no spans, because their spans would fill the drawing.
    fn serve_visitors(&self, closed: &Receiver<Infallible>) {
        let (meter, mut visitor) = (self.storefront.meter("sales"), 0_u64);
        let (page_views, open_carts) = (meter.counter("page.views"), meter.up_down_counter("carts.open"));
        let render = meter.build("page.render").unit("ms").exponential().histogram();
        // The pauses between visitors vary, so that the sparklines show waves.
        while closed.recv_timeout(Duration::from_millis(visitor % 20 / 4)) == Err(RecvTimeoutError::Timeout) {
            let begun = Instant::now();
            thread::sleep(Duration::from_micros(1500 + visitor * 137 % 2500 + visitor * 591 % 2500));
            let page = if visitor % 3 == 0 { "/" } else { "/tea" };
            page_views.add(1, &[("page", page)]);
            render.record(millis(begun), ());
            // Twenty visitors each open a cart, then the next twenty each close a cart.
            let change = if visitor / 20 % 2 == 0 { 1 } else { -1 };
            open_carts.add(change, ());
            visitor += 1;
        }
    }

    /// Serves one customer. Returns the context of the span that announced the order; `None` if the card was declined.
    fn checkout(&self, order: i64, is_card_expired: bool) -> Option<SpanContext> {
        let (begun, logger) = (Instant::now(), self.storefront.logger("checkout"));
        let sales = self.storefront.meter("sales");
        let mut span =
            span(&self.storefront, "http", "POST /checkout", SpanKind::Server, self.caller.as_ref());
        span.set("http.route", "/checkout").set("order.id", order);
        logger.info("order received").set("items", 3).emit();
        pass(4);

        self.load_cart();
        let context = span.context().clone();
        thread::scope(|scope| {
            scope.spawn(|| self.price(&context));
            self.call("POST /reservations", |span| {
                pass(6);
                let caller = as_sent(span.context());
                on_another_thread(|| self.reserve(&caller));
                pass(4);
            });
        });
        let paid = self.call("POST /payments", |span| self.pay(span, is_card_expired));
        let outcome = if paid.is_ok() { "paid" } else { "declined" };
        sales.counter("orders").add(1, &[("outcome", outcome)]);
        let message = match paid {
            Ok(()) => {
                span.set("http.response.status_code", 200);
                sales.build("revenue").unit("EUR").counter_f64().add(TOTAL, ());
                logger.info("thank you").event_name("order.paid").set("amount", TOTAL).emit();
                Some(self.announce(order))
            }
            Err(declined) => {
                span.set("http.response.status_code", 402);
                span.status(Status::Error(declined));
                None
            }
        };
        sales.build("checkout.time").unit("ms").histogram().record(millis(begun), ());
        message
    }

    fn load_cart(&self) {
        let mut cart = span(&self.storefront, "cart", "load cart", SpanKind::Internal, None);
        cart.set("cart.items", 3);
        pass(3);
        let mut query = span(&self.storefront, "postgres", "SELECT carts", SpanKind::Client, None);
        query.set("db.system.name", "postgresql").set("db.response.returned_rows", 3);
        pass(28);
    }

    fn price(&self, checkout: &SpanContext) {
        let mut span = span(&self.storefront, "cart", "price order", SpanKind::Internal, Some(checkout));
        span.set("currency", "EUR");
        pass(22);
        span.event("discount applied").set("code", "AUTUMN").set("percent", 10);
        pass(35);
        span.set("order.total", TOTAL);
    }

    /// Calls another service inside a span.
    fn call<T>(&self, request: &str, service: impl FnOnce(&mut Span) -> T) -> T {
        let mut span = span(&self.storefront, "http", request, SpanKind::Client, None);
        span.set("server.address", "127.0.0.1");
        service(&mut span)
    }

    fn reserve(&self, caller: &SpanContext) {
        let mut span = span(&self.warehouse, "http", "POST /reservations", SpanKind::Server, Some(caller));
        span.set("http.route", "/reservations").set("http.response.status_code", 201);
        let context = span.context().clone();
        thread::scope(|scope| {
            scope.spawn(|| self.take_from_stock("A7", 48, &context));
            scope.spawn(|| self.take_from_stock("C2", 71, &context));
        });
        pass(5);
    }

    fn take_from_stock(&self, shelf: &str, millis: u64, reservation: &SpanContext) {
        let mut update =
            span(&self.warehouse, "postgres", "UPDATE stock", SpanKind::Client, Some(reservation));
        update.set("db.system.name", "postgresql").set("shelf", shelf);
        pass(millis);
        let items = self.stock.iter().find(|(name, _)| *name == shelf);
        let left = items.map_or(0, |(_, items)| items.fetch_sub(2, Ordering::Relaxed) - 2);
        if left < LOW_STOCK {
            self.warehouse.logger("stock").warn("running low").set("left", left).emit();
        }
    }

    /// Sends the payment request. With a valid card, the span shows a failed first attempt and a retry.
    fn pay(&self, span: &mut Span, is_card_expired: bool) -> Result<(), &'static str> {
        if !is_card_expired {
            pass(45);
            span.event("retry").set("attempt", 1).set("reason", "connection reset");
            span.set("http.request.resend_count", 1);
        }
        pass(8);
        let caller = as_sent(span.context());
        let paid = on_another_thread(|| self.charge(&caller, is_card_expired));
        paid.inspect_err(|declined| drop(span.status(Status::Error(declined))))
    }

    fn charge(&self, caller: &SpanContext, is_card_expired: bool) -> Result<(), &'static str> {
        let mut request = span(&self.payments, "http", "POST /payments", SpanKind::Server, Some(caller));
        request.set("http.route", "/payments");
        pass(12);
        let mut bank = span(&self.payments, "bank", "authorize card", SpanKind::Client, None);
        bank.set("card.network", "debit");
        pass(30);
        bank.event("3-D Secure").set("result", "passed");
        pass(55);
        let charges = self.payments.meter("bank").counter("charges");
        if !is_card_expired {
            charges.add(1, &[("outcome", "paid")]);
            return Ok(());
        }
        let reason = "card expired";
        charges.add(1, &[("outcome", "declined")]);
        bank.event("exception").set("exception.type", "Declined").set("exception.message", reason);
        self.payments.logger("bank").error("card declined").set("reason", reason).emit();
        bank.status(Status::Error(reason));
        request.status(Status::Error(reason));
        Err(reason)
    }

    fn announce(&self, order: i64) -> SpanContext {
        let mut span = span(&self.storefront, "queue", "publish order.paid", SpanKind::Producer, None);
        span.set("messaging.destination.name", "order.paid").set("order.id", order);
        pass(9);
        span.context().clone()
    }

    /// Takes the message from the queue, in a new span with a link to the message's span. The new span begins a new
    /// trace, unless the program has a caller.
    fn ship(&self, message: &SpanContext) {
        let caller = self.caller.as_ref();
        let mut order = span(&self.warehouse, "queue", "process order.paid", SpanKind::Consumer, caller);
        order.link(message);
        order.set("messaging.destination.name", "order.paid");
        pass(5);
        {
            let mut pick = span(&self.warehouse, "parcels", "pick items", SpanKind::Internal, None);
            pick.set("items", 3);
            pass(64);
        }
        let mut label = span(&self.warehouse, "parcels", "print label", SpanKind::Internal, None);
        label.set("carrier", "bicycle");
        pass(31);
        self.warehouse.logger("parcels").info("on its way").event_name("parcel.sent").emit();
    }
}

/// Starts a span of a service below `parent`, or else below the thread's current span.
fn span(service: &Telemetry, scope: &str, name: &str, kind: SpanKind, parent: Option<&SpanContext>) -> Span {
    let tracer = service.tracer(scope);
    let span = tracer.span_builder(name).kind(kind);
    match parent {
        Some(parent) => span.parent(parent).start(),
        None => span.start(),
    }
}

/// Returns the name that the ledger uses for the records of a signal.
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

/// Simulates work.
fn pass(millis: u64) {
    thread::sleep(Duration::from_millis(millis));
}

/// Returns the context as another process would read it from a request header.
fn as_sent(context: &SpanContext) -> SpanContext {
    SpanContext::from_traceparent(&context.traceparent()).unwrap_or_else(|_| context.clone())
}

fn on_another_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let result = thread::scope(|scope| scope.spawn(work).join());
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
