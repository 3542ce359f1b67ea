//! `standpipe demo`: runs a pretend shop, whose telemetry goes to a receiver in this process and is drawn.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Exporter, Signal, Transport};

use super::caller::Caller;
use super::demo_program::DemoProgram;
use super::describe::{self, LogView, SpanView};
use super::ledger::{self, LedgerEntry};
use super::page::Page;
use super::style::{Ink, Palette, Style};
use super::{Failure, metrics_table, print, receive, report_error, waterfall};

/// Time for each service to deliver its remaining records.
const BUDGET: Duration = Duration::from_secs(5);

/// Sends the telemetry of a small pretend shop to a receiver in this process and draws it.
///
/// Starts a receiver on a free port of this machine, runs a pretend shop of three services that export to it through
/// this library, and draws the received telemetry: the traces, with the logs in their spans, and a table of the
/// metrics. The sparklines in the table show the buckets of a histogram, the increase of a counter per push, or the
/// values of any other metric. Below the table, the ledger shows the records that the library accepted, delivered and
/// lost, and those that the receiver counted. With --page, the command runs until Ctrl-C.
///
/// If TRACEPARENT is set, the shop's traces continue that trace. TRACESTATE is inherited within a service and is not
/// sent with the calls between services. The width of the drawing is COLUMNS, or else that of the terminal, or else 100
/// cells.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/demo.txt").trim_ascii_end())]
pub(crate) struct Options {
    /// Export over gRPC instead of HTTP.
    #[arg(long)]
    grpc: bool,
    #[command(flatten)]
    page: receive::PageOptions,
}

/// Runs the shop in the caller's trace, if there is one, and draws the received records. Fails if records are missing.
pub(crate) fn run(options: &Options, caller: &Caller, style: &Style) -> Result<ExitCode, Failure> {
    let transport = if options.grpc { Transport::Grpc } else { Transport::Http };
    let page = options.page.start()?;
    // The receiver gets the page, so that the page shows the same records as the terminal.
    let receiver = start_receiver(page.clone());
    let receiver =
        receiver.map_err(|error| Failure::Message(format!("the receiver cannot be started: {error}")))?;
    // The first request with spans is answered with 503, to demonstrate the retry.
    receiver.script_for(Signal::Traces, [Answer::status(503)]);
    caller.complaints.iter().for_each(|complaint| report_error(complaint));
    let (endpoint, exporter) = match transport {
        Transport::Grpc => (receiver.grpc_endpoint(), Exporter::grpc(receiver.grpc_endpoint())),
        _ => (receiver.endpoint(), Exporter::http(receiver.endpoint())),
    };
    let shop = DemoProgram::start(&exporter, caller.context.clone());
    let shop = shop.map_err(|error| Failure::Message(error.to_string()))?;
    print(&greeting(&endpoint, caller, style))?;
    shop.run();
    let entries_by_signal = shop.shutdown(BUDGET);

    let arrived = Arrived::new(&receiver, &entries_by_signal);
    let entries: Vec<LedgerEntry> = entries_by_signal.into_iter().map(|(_, entry)| entry).collect();
    let mut lines = draw(&receiver, style);
    lines.push(String::new());
    lines.extend(ledger::draw(&entries, style));
    lines.extend(arrived.draw(transport, style));
    print(&lines)?;

    if let Some(page) = page {
        print(&[String::new()])?;
        page.show_until_interrupt(style)?;
    }

    let is_whole = ledger::is_whole(&ledger::total(&entries)) && arrived.is_all();
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn start_receiver(page: Option<Arc<Page>>) -> io::Result<Receiver> {
    let Some(page) = page else { return Receiver::start() };
    let shown = page.clone();
    let receiver = Receiver::builder().local_hosts_only().on_batch(move |batch| shown.show(batch)).start()?;
    page.set_receiver(&receiver);
    Ok(receiver)
}

/// Returns the first lines of the output. These lines are printed before the shop runs, because the run takes a second.
fn greeting(endpoint: &str, caller: &Caller, style: &Style) -> Vec<String> {
    let line = |before: &str, what: &str| {
        style.line().put_rest(Ink::FAINT, before).put_rest(Ink::PLAIN, what).finish()
    };
    let mut lines = vec![line("a pretend shop exports to ", endpoint)];
    if let Some(context) = &caller.context {
        lines.push(line("the shop continues the trace ", &context.trace_id().to_string()));
        if !context.is_sampled() {
            lines.push(line("the trace is not recorded, so there are no spans", ""));
        }
    }
    lines.push(String::new());
    lines
}

/// Draws the received records: the traces with their logs, then the metrics.
fn draw(receiver: &Receiver, style: &Style) -> Vec<String> {
    let (spans, logs, metrics) = (receiver.spans(), receiver.logs(), receiver.metrics());
    let spans: Vec<SpanView<'_>> = spans.iter().map(SpanView::from).collect();
    let logs: Vec<LogView<'_>> = logs.iter().map(LogView::from).collect();
    let mut palette = Palette::default();
    let mut lines = waterfall::draw(&spans, &logs, waterfall::Options::default(), &mut palette, style);
    lines.push(String::new());
    lines.extend(metrics_table::draw(&metrics, &mut palette, style));
    lines
}

/// Counts of the receiver, compared with the records that the services delivered according to their ledgers.
struct Arrived {
    /// For each signal: the word for one record, such as `span`, the number received, and the number delivered.
    records: [(&'static str, u64, u64); 3],
    requests: u64,
}

impl Arrived {
    fn new(receiver: &Receiver, entries_by_signal: &[(Signal, LedgerEntry)]) -> Self {
        let count = |signal: Signal, what, received| {
            let of_signal = entries_by_signal.iter().filter(|(of, _)| *of == signal);
            (what, received, of_signal.map(|(_, entry)| entry.counts.delivered).sum())
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
        self.records.iter().all(|(_, received, delivered)| received == delivered)
    }

    fn draw(&self, transport: Transport, style: &Style) -> [String; 2] {
        let (ink, mark) =
            if self.is_all() { (Ink::GOOD, style.glyph("✓")) } else { (Ink::BAD, style.glyph("✗")) };
        let records = self.records.map(|(what, received, delivered)| match received == delivered {
            true => describe::count(received, what),
            false => format!("{} instead of {delivered}", describe::count(received, what)),
        });
        let requests = describe::count(self.requests, "request");
        // Only the first request with spans is refused, so if no spans were received, no refusal is mentioned.
        let refusal = if transport == Transport::Grpc { "UNAVAILABLE" } else { "503" };
        let remark = match self.records[0] {
            (_, 0, _) => format!("in {requests}"),
            _ => format!("in {requests}; one was answered {refusal} and sent again"),
        };
        let mut line = style.line();
        line.put(ink.bold(), &format!("{mark} received"));
        [
            line.put_rest(Ink::PLAIN, &format!(": {}", records.join(", "))).finish(),
            style.line().space(style.width_of(mark) + 1).put_rest(Ink::FAINT, &remark).finish(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::style::plain_style;
    use super::*;

    fn arrived(points: u64) -> Arrived {
        let records = [("span", 1, 1), ("log record", 2, 2), ("data point", points, 30)];
        Arrived { records, requests: 4 }
    }

    #[test]
    fn what_is_missing_at_the_receiver_is_said_by_signal() {
        assert!(arrived(30).is_all() && !arrived(29).is_all());
        let line = |points| arrived(points).draw(Transport::Http, &plain_style(100))[0].clone();
        assert_eq!(line(30), "✓ received: 1 span, 2 log records, 30 data points");
        assert_eq!(line(29), "✗ received: 1 span, 2 log records, 29 data points instead of 30");
    }
}
