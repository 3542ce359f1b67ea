//! The storefront: accepts orders from browsers and asks the warehouse to reserve the goods.

use std::fmt;
use std::time::Duration;

use metrics::counter;
use tracing::field::Empty;
use tracing::{Span, info, info_span, instrument};
use ureq::Agent;

use crate::http::{Request, Response, number};
use crate::propagation;
use crate::server::{Service, host_and_port};

/// Time limit of a request to the warehouse; meanwhile a browser waits.
const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_ANSWER_BYTES: u64 = 16 << 10;

pub(crate) struct Storefront {
    agent: Agent,
    /// URL of the warehouse's reservations.
    reservations: String,
}

impl Storefront {
    pub(crate) fn new(warehouse: &str) -> Self {
        // A refusal is also a response, so an error status is not an error of ureq.
        let config =
            Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false).build();
        Self {
            agent: config.into(),
            reservations: format!("{}/reservations", warehouse.trim_end_matches('/')),
        }
    }

    #[instrument(skip(self), err)]
    fn check_out(&self, order: u64, items: u64) -> Result<String, CheckoutError> {
        let total = price(items);
        info!(total, "order received");
        let shelf = self.reserve(order, items)?;
        log::info!(order, items; "order complete");
        Ok(format!("order {order}: {items} for {total} EUR, {shelf}"))
    }

    /// Asks the warehouse, in a separate span that measures the network and the warehouse.
    fn reserve(&self, order: u64, items: u64) -> Result<String, CheckoutError> {
        let span = self.client_span();
        let _entered = span.enter();
        let mut request = self.agent.post(&self.reservations);
        for (name, value) in propagation::inject() {
            request = request.header(name, value);
        }
        let answer = request.send_form([("order", order.to_string()), ("items", items.to_string())]);
        let outcome = answer.and_then(|mut answer| {
            let text = answer.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_string()?;
            Ok((answer.status().as_u16(), text.trim_end().to_owned()))
        });
        match outcome {
            Ok((status, text)) => {
                span.record("http.response.status_code", status);
                // For the client, a refusal is an error.
                if status >= 400 {
                    span.record("error.type", status.to_string());
                    span.record("otel.status_code", "ERROR");
                }
                match status {
                    201 => Ok(text),
                    409 => Err(CheckoutError::OutOfStock(text)),
                    _ => Err(CheckoutError::NoWarehouse(format!("it answers {status}"))),
                }
            }
            Err(error) => {
                span.record("error.type", kind(&error));
                span.record("otel.status_code", "ERROR");
                Err(CheckoutError::NoWarehouse(error.to_string()))
            }
        }
    }

    /// Starts the span of a request, with OpenTelemetry's conventions for HTTP clients.
    fn client_span(&self) -> Span {
        let authority = self.reservations.split('/').nth(2).unwrap_or_default();
        let (host, port) = host_and_port(authority);
        info_span!(
            "POST /reservations",
            otel.kind = "client",
            http.request.method = "POST",
            url.full = self.reservations,
            server.address = host,
            server.port = port,
            http.response.status_code = Empty,
            error.type = Empty,
            otel.status_code = Empty,
        )
    }
}

impl Service for Storefront {
    fn method(&self) -> &'static str {
        "GET"
    }

    fn route(&self) -> &'static str {
        "/checkout"
    }

    fn answer(&self, request: &Request) -> Response {
        let Some(order) = number(&request.query, "order") else {
            return Response::text(400, "which order? ask for /checkout?order=4711&items=2");
        };
        let items = number(&request.query, "items").unwrap_or(1);
        match self.check_out(order, items) {
            Ok(text) => {
                counter!("orders", "outcome" => "reserved").increment(1);
                Response::text(200, text)
            }
            Err(error) => {
                counter!("orders", "outcome" => error.outcome()).increment(1);
                Response::text(error.status(), error.to_string())
            }
        }
    }
}

#[instrument]
fn price(items: u64) -> f64 {
    const EACH: f64 = 16.5;
    items as f64 * EACH
}

/// Returns the kind of an error: one of a few names, so that it is usable as a metric attribute.
fn kind(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "timeout".to_owned(),
        ureq::Error::Io(error) => format!("{:?}", error.kind()),
        _ => "_OTHER".to_owned(),
    }
}

/// Reason why an order failed.
#[derive(Debug)]
enum CheckoutError {
    OutOfStock(String),
    NoWarehouse(String),
}

impl CheckoutError {
    fn status(&self) -> u16 {
        match self {
            Self::OutOfStock(_) => 409,
            Self::NoWarehouse(_) => 502,
        }
    }

    fn outcome(&self) -> &'static str {
        match self {
            Self::OutOfStock(_) => "out of stock",
            Self::NoWarehouse(_) => "no warehouse",
        }
    }
}

impl fmt::Display for CheckoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfStock(why) => f.write_str(why),
            Self::NoWarehouse(why) => write!(f, "the warehouse cannot be asked: {why}"),
        }
    }
}

impl std::error::Error for CheckoutError {}
