//! `standpipe demo`: the pretend shop, exported to a receiver in this process and drawn.

use std::process::ExitCode;
use std::time::Duration;

use standpipe::receiver::{Answer, Receiver};

use super::describe::{self, SpanView};
use super::ledger::{self, Account};
use super::paint::{Ink, Look};
use super::shop::Shop;
use super::{Failure, print, waterfall};

/// How long the services may take to deliver what they still have.
const BUDGET: Duration = Duration::from_secs(5);

/// Runs the shop and draws what arrived; a failure if it is not what was sent.
pub(crate) fn run(look: &Look) -> Result<ExitCode, Failure> {
    // The first request is turned down, to show that it comes again.
    let receiver = Receiver::builder().first_answers([Answer::status(503)]).start();
    let receiver = receiver.map_err(|error| Failure::Message(format!("start a receiver: {error}")))?;
    let shop = Shop::open(&receiver.endpoint()).map_err(|error| Failure::Message(error.to_string()))?;
    print(&[greeting(&receiver.endpoint(), look), String::new()])?;
    shop.trade();
    let accounts = shop.close(BUDGET);

    let total = ledger::total(&accounts);
    let arrived = Arrived { spans: receiver.span_count(), requests: receiver.request_count() };
    let spans = receiver.spans();
    let views: Vec<SpanView<'_>> = spans.iter().map(SpanView::from).collect();
    let mut lines = waterfall::draw(&views, look);
    lines.push(String::new());
    lines.extend(ledger::draw(&accounts, look));
    lines.push(arrived.draw(&total, look));
    print(&lines)?;

    let is_whole = total.accepted == total.delivered && total.delivered == arrived.spans;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Said at once, since the shop takes a second.
fn greeting(endpoint: &str, look: &Look) -> String {
    let mut line = look.line();
    line.put(Ink::FAINT, "a pretend shop exports its traces to ").put(Ink::PLAIN, endpoint);
    line.finish()
}

/// What the receiver counted on its side of the wire.
struct Arrived {
    spans: u64,
    requests: u64,
}

impl Arrived {
    fn draw(&self, total: &Account, look: &Look) -> String {
        let is_equal = self.spans == total.delivered;
        let (ink, mark) =
            if is_equal { (Ink::GOOD, look.glyphs.check) } else { (Ink::BAD, look.glyphs.cross) };
        let spans = describe::count(self.spans, "span");
        let requests = describe::count(self.requests, "request");
        let mut line = look.line();
        line.put(ink.bold(), &format!("{mark} the receiver counted {spans}"));
        line.put_rest(Ink::PLAIN, &format!(" in {requests}, the first turned down with a 503"));
        line.finish()
    }
}
