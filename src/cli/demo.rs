//! `standpipe demo`: the pretend shop, exported to a receiver in this process and drawn.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use standpipe::receiver::{Answer, Receiver};
use standpipe::{Exporter, Signal, Transport};

use super::caller::Caller;
use super::describe::{self, SpanView};
use super::ledger::{self, Account};
use super::logs::LogView;
use super::paint::{Ink, Look, Palette};
use super::points::{self, PointView};
use super::shop::Shop;
use super::{Failure, complain, metrics_table, print, waterfall};

/// How long the services may take to deliver what they still have.
const BUDGET: Duration = Duration::from_secs(5);

/// What the command line asks of the demo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) transport: Transport,
    /// The file that the traces are drawn into as well.
    pub(crate) svg: Option<PathBuf>,
}

/// Runs the shop in the caller's trace, if there is one, and draws what arrived; a failure if it is not what was sent.
pub(crate) fn run(order: &Order, caller: &Caller, look: &Look) -> Result<ExitCode, Failure> {
    let transport = order.transport;
    let receiver = Receiver::start();
    let receiver = receiver.map_err(|error| Failure::Message(format!("start a receiver: {error}")))?;
    // The first request with spans is turned down, to show that it comes again.
    receiver.script_for(Signal::Traces, [Answer::status(503)]);
    caller.complaints.iter().for_each(|complaint| complain(complaint));
    let (endpoint, exporter) = match transport {
        Transport::Grpc => (receiver.grpc_endpoint(), Exporter::grpc(receiver.grpc_endpoint())),
        _ => (receiver.endpoint(), Exporter::http(receiver.endpoint())),
    };
    let shop = Shop::open(&exporter, caller.context.clone());
    let shop = shop.map_err(|error| Failure::Message(error.to_string()))?;
    print(&greeting(&endpoint, caller, look))?;
    shop.trade();
    let books = shop.close(BUDGET);

    let arrived = Arrived::new(&receiver, &books);
    let accounts: Vec<Account> = books.into_iter().map(|(_, account)| account).collect();
    let mut lines = draw(&receiver, look);
    lines.push(String::new());
    lines.extend(ledger::draw(&accounts, look));
    lines.extend(arrived.draw(transport, look));
    print(&lines)?;
    if let Some(path) = &order.svg {
        save_svg(&receiver, path)?;
    }

    let is_whole = ledger::total(&accounts).is_whole() && arrived.is_all();
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Said at once, since the shop takes a second.
fn greeting(endpoint: &str, caller: &Caller, look: &Look) -> Vec<String> {
    let line = |before: &str, what: &str| {
        let mut line = look.line();
        line.put_rest(Ink::FAINT, before).put_rest(Ink::PLAIN, what);
        line.finish()
    };
    let mut lines = vec![line("a pretend shop exports to ", endpoint)];
    if let Some(context) = &caller.context {
        lines.push(line("it continues the trace ", &context.trace_id().to_string()));
        if !context.is_sampled() {
            lines.push(line("which is not recorded, so there are no spans", ""));
        }
    }
    lines.push(String::new());
    lines
}

/// Everything that arrived: the traces with their logs, then the metrics.
fn draw(receiver: &Receiver, look: &Look) -> Vec<String> {
    let (spans, logs, metrics) = (receiver.spans(), receiver.logs(), receiver.metrics());
    let spans: Vec<SpanView<'_>> = spans.iter().map(SpanView::from).collect();
    let logs: Vec<LogView<'_>> = logs.iter().map(LogView::from).collect();
    let points: Vec<PointView<'_>> = metrics.iter().flat_map(points::of_received).collect();
    let mut palette = Palette::default();
    let mut lines = waterfall::draw(&spans, &logs, &mut palette, look);
    lines.push(String::new());
    lines.extend(metrics_table::draw(&points, &mut palette, look));
    lines
}

/// Writes the traces as a picture.
fn save_svg(receiver: &Receiver, path: &Path) -> Result<(), Failure> {
    let (spans, logs) = (receiver.spans(), receiver.logs());
    let spans: Vec<SpanView<'_>> = spans.iter().map(SpanView::from).collect();
    let logs: Vec<LogView<'_>> = logs.iter().map(LogView::from).collect();
    let written = fs::write(path, waterfall::draw_svg(&spans, &logs));
    written.map_err(|error| Failure::Message(format!("write {}: {error}", path.display())))
}

/// What the receiver counted on its side of the wire, beside what the services say they delivered.
struct Arrived {
    records: [Count; 3],
    requests: u64,
}

struct Count {
    what: &'static str,
    received: u64,
    delivered: u64,
}

impl Arrived {
    fn new(receiver: &Receiver, books: &[(Signal, Account)]) -> Self {
        let count = |signal: Signal, what, received| {
            let of_signal = books.iter().filter(|(of, _)| *of == signal);
            Count { what, received, delivered: of_signal.map(|(_, account)| account.delivered).sum() }
        };
        Self {
            records: [
                count(Signal::Traces, "span", receiver.span_count()),
                count(Signal::Logs, "log record", receiver.log_count()),
                count(Signal::Metrics, "data point", receiver.point_count()),
            ],
            requests: receiver.request_count(),
        }
    }

    fn is_all(&self) -> bool {
        self.records.iter().all(|count| count.received == count.delivered)
    }

    fn draw(&self, transport: Transport, look: &Look) -> [String; 2] {
        let (ink, mark) =
            if self.is_all() { (Ink::GOOD, look.glyphs.check) } else { (Ink::BAD, look.glyphs.cross) };
        let records = self.records.iter().map(Count::text).collect::<Vec<_>>().join(", ");
        let requests = describe::count(self.requests, "request");
        let mut line = look.line();
        line.put(ink.bold(), &format!("{mark} received")).put_rest(Ink::PLAIN, &format!(": {records}"));
        let mut beneath = look.line();
        // without spans there was nothing to turn down
        let refusal = if transport == Transport::Grpc { "UNAVAILABLE" } else { "503" };
        let remark = match self.records[0].received {
            0 => format!("in {requests}"),
            _ => format!("in {requests}; one was answered {refusal} and came again"),
        };
        beneath.space(look.width_of(mark) + 1).put_rest(Ink::FAINT, &remark);
        [line.finish(), beneath.finish()]
    }
}

impl Count {
    fn text(&self) -> String {
        let received = describe::count(self.received, self.what);
        if self.received == self.delivered {
            received
        } else {
            format!("{received} instead of {}", self.delivered)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::paint::plain_look;
    use super::*;

    fn arrived(points: u64) -> Arrived {
        let count = |what, received, delivered| Count { what, received, delivered };
        let records = [count("span", 1, 1), count("log record", 2, 2), count("data point", points, 30)];
        Arrived { records, requests: 4 }
    }

    #[test]
    fn what_is_missing_at_the_receiver_is_said_by_signal() {
        assert!(arrived(30).is_all() && !arrived(29).is_all());
        let line = |points| arrived(points).draw(Transport::Http, &plain_look(100))[0].clone();
        assert_eq!(line(30), "✓ received: 1 span, 2 log records, 30 data points");
        assert_eq!(line(29), "✗ received: 1 span, 2 log records, 29 data points instead of 30");
    }
}
