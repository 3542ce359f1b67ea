//! The warehouse: reserves goods as long as they are in stock.

use std::sync::{Mutex, PoisonError};

use metrics::gauge;
use tracing::{info, instrument};

use crate::http::{Request, Response, number};
use crate::server::Service;

const STOCK: u64 = 1000;

pub(crate) struct Warehouse {
    stock: Mutex<u64>,
}

impl Warehouse {
    pub(crate) fn new() -> Self {
        Self { stock: Mutex::new(STOCK) }
    }

    /// Takes `items` from the stock and returns the number that is left.
    ///
    /// # Errors
    /// Returns the number in stock if there are fewer than `items`.
    #[instrument(skip(self))]
    fn take_from_shelf(&self, order: u64, items: u64) -> Result<u64, u64> {
        let left = {
            let mut stock = self.stock.lock().unwrap_or_else(PoisonError::into_inner);
            *stock = stock.checked_sub(items).ok_or(*stock)?;
            *stock
        };
        info!(left, "taken");
        gauge!("stock.left").set(left as f64);
        Ok(left)
    }
}

impl Service for Warehouse {
    fn method(&self) -> &'static str {
        "POST"
    }

    fn route(&self) -> &'static str {
        "/reservations"
    }

    fn answer(&self, request: &Request) -> Response {
        let (Some(order), Some(items)) = (number(&request.body, "order"), number(&request.body, "items"))
        else {
            return Response::text(400, "which order, and how many items?");
        };
        match self.take_from_shelf(order, items) {
            Ok(_) => {
                log::info!(order, items; "reserved");
                Response::text(201, "reserved")
            }
            Err(left) => {
                log::warn!(order, items, left; "out of stock");
                Response::text(409, format!("out of stock: {items} wanted, {left} left"))
            }
        }
    }
}
