//! A small pretend shop: three services, each with telemetry of its own, that call each other on threads of their own.
//!
//! It is written as a program that uses the library would be; only the work is pretended, by sleeping.

use std::thread;
use std::time::Duration;

use standpipe::{Config, ConfigError, Exporter, Proxy, SpanContext, SpanKind, Status, Telemetry};

use super::ledger::Account;

/// The shop, open for business.
pub(crate) struct Shop {
    storefront: Telemetry,
    payments: Telemetry,
    warehouse: Telemetry,
}

impl Shop {
    /// Starts the three services; all of them export to `endpoint`.
    ///
    /// # Errors
    /// When the endpoint is none.
    pub(crate) fn open(endpoint: &str) -> Result<Self, ConfigError> {
        let start = |service: &str| {
            // The receiver is on this machine, so whatever proxy the environment names must not be asked.
            let exporter = Exporter::http(endpoint).proxy(Proxy::Off);
            Telemetry::start(Config::new().service_name(service).exporter(exporter))
        };
        Ok(Self {
            storefront: start("storefront")?,
            payments: start("payments")?,
            warehouse: start("warehouse")?,
        })
    }

    /// Two customers: one pays and gets a parcel, the other's card is declined.
    pub(crate) fn trade(&self) {
        let order = self.checkout(4711, Card::Good);
        if let Some(order) = order {
            on_another_thread(|| self.ship(&order));
        }
        self.checkout(4712, Card::Expired);
    }

    /// Closes the services and gives the books of each.
    pub(crate) fn close(self, budget: Duration) -> Vec<Account> {
        let services =
            [("storefront", self.storefront), ("payments", self.payments), ("warehouse", self.warehouse)];
        let close =
            |(name, telemetry): (&str, Telemetry)| Account::new(name, &telemetry.shutdown(budget).total());
        services.into_iter().map(close).collect()
    }

    /// The message that announces the order, if it was paid.
    fn checkout(&self, order: i64, card: Card) -> Option<SpanContext> {
        let mut span = self.storefront.tracer("http").build("POST /checkout").kind(SpanKind::Server).start();
        span.set("http.route", "/checkout").set("order.id", order);
        pass(4);

        self.load_cart();
        let context = span.context().clone();
        thread::scope(|scope| {
            scope.spawn(|| self.price(&context));
            self.call("POST /reservations", |caller| self.reserve(caller));
        });
        match self.pay(card) {
            Ok(()) => {
                span.set("http.response.status_code", 200);
                Some(self.announce(order))
            }
            Err(declined) => {
                span.set("http.response.status_code", 402);
                span.status(Status::Error(declined));
                None
            }
        }
    }

    fn load_cart(&self) {
        let mut span = self.storefront.tracer("cart").span("load cart");
        span.set("cart.items", 3);
        pass(3);
        let mut query =
            self.storefront.tracer("postgres").build("SELECT carts").kind(SpanKind::Client).start();
        query.set("db.system.name", "postgresql").set("db.response.returned_rows", 3);
        pass(28);
    }

    fn price(&self, checkout: &SpanContext) {
        let mut span = self.storefront.tracer("cart").build("price order").parent(checkout).start();
        span.set("currency", "EUR");
        pass(22);
        span.event("discount applied").set("code", "AUTUMN").set("percent", 10);
        pass(35);
        span.set("order.total", 49.5);
    }

    /// Calls another service, which goes on in a thread of its own with what the request's header says.
    fn call<T: Send>(&self, request: &str, service: impl FnOnce(&SpanContext) -> T + Send) -> T {
        let mut span = self.storefront.tracer("http").build(request).kind(SpanKind::Client).start();
        span.set("server.address", "127.0.0.1");
        pass(6);
        let caller = as_sent(span.context());
        let answer = on_another_thread(|| service(&caller));
        pass(4);
        answer
    }

    fn reserve(&self, caller: &SpanContext) {
        let http = self.warehouse.tracer("http");
        let mut span = http.build("POST /reservations").parent(caller).kind(SpanKind::Server).start();
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
        let mut update = postgres.build("UPDATE stock").parent(reservation).kind(SpanKind::Client).start();
        update.set("db.system.name", "postgresql").set("shelf", shelf);
        pass(millis);
    }

    fn pay(&self, card: Card) -> Result<(), &'static str> {
        let mut span = self.storefront.tracer("http").build("POST /payments").kind(SpanKind::Client).start();
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
        let mut span = http.build("POST /payments").parent(caller).kind(SpanKind::Server).start();
        span.set("http.route", "/payments");
        pass(12);
        let mut bank = self.payments.tracer("bank").build("authorize card").kind(SpanKind::Client).start();
        bank.set("card.network", "debit");
        pass(30);
        bank.event("3-D Secure").set("result", "passed");
        pass(55);
        match card {
            Card::Good => Ok(()),
            Card::Expired => {
                let reason = "card expired";
                bank.event("exception").set("exception.type", "Declined").set("exception.message", reason);
                bank.status(Status::Error(reason));
                span.status(Status::Error(reason));
                Err(reason)
            }
        }
    }

    fn announce(&self, order: i64) -> SpanContext {
        let mut span =
            self.storefront.tracer("queue").build("publish order.paid").kind(SpanKind::Producer).start();
        span.set("messaging.destination.name", "order.paid").set("order.id", order);
        pass(9);
        span.context().clone()
    }

    /// Takes the message from the queue: a trace of its own, linked to the one that left it.
    fn ship(&self, message: &SpanContext) {
        let mut span =
            self.warehouse.tracer("queue").build("process order.paid").kind(SpanKind::Consumer).start();
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
    }
}

/// How the customer pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Card {
    Good,
    Expired,
}

/// The work.
fn pass(millis: u64) {
    thread::sleep(Duration::from_millis(millis));
}

/// What another process reads from the header of a request.
fn as_sent(context: &SpanContext) -> SpanContext {
    SpanContext::from_traceparent(&context.traceparent()).unwrap_or_else(|_| context.clone())
}

fn on_another_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let result = thread::scope(|scope| scope.spawn(work).join());
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
