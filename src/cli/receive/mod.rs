//! What does `standpipe receive` do? It prints what arrives, as it arrives.

mod logs;
mod points;
mod printer;
mod refusals;
mod row;
mod spans;

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use standpipe::Signal;
use standpipe::receiver::{Batch, Receiver};

use self::printer::{Greeting, PrintQueue};
use self::refusals::{Endpoints, Refusals};
use self::row::Row;
use super::page::Page;
use super::style::{Ink, Style};
use super::{Failure, describe, interrupt};

/// What all requests may take together. A batch of the usual few thousand records takes a few MiB.
const MEMORY: usize = 256 * 1024 * 1024;

/// How long the end waits for what is still to be printed.
const PRINT_TIMEOUT: Duration = Duration::from_secs(5);

/// How a record is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Lines are cut to the width of the terminal, and details that have no room in the first get a second one.
    Cut,
    /// One line for each record, to be searched, with up to 65,536 characters of each text.
    Whole,
}

/// Where to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    /// Where the page is, if it is wanted.
    pub(crate) page: Option<SocketAddr>,
}

/// Starts the page of `--page`.
pub(crate) fn start_page(address: SocketAddr) -> Result<Page, Failure> {
    Page::start(address).map_err(|error| {
        let free_port = SocketAddr::new(address.ip(), 0);
        let what = match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!("address already in use, perhaps by another viewer; try --page-address {free_port}")
            }
            _ => error.to_string(),
        };
        Failure::Message(format!("{address} (page): {what}"))
    })
}

/// Why it ends.
enum Ending {
    /// By Ctrl-C or SIGTERM.
    Interrupted,
    /// What was to be printed is printed, or cannot be.
    Printed(io::Result<()>),
}

/// Prints what arrives until the process is interrupted or what it prints is not read any more.
pub(crate) fn run(addresses: Addresses, layout: Layout, style: &Style) -> Result<ExitCode, Failure> {
    let (end, ends) = mpsc::channel();
    // before a sender can know that the receiver listens
    let interrupted = end.clone();
    interrupt::on_interrupt(move || drop(interrupted.send(Ending::Interrupted))).map_err(cannot_start)?;
    let printed = move |result| drop(end.send(Ending::Printed(result)));
    let (queue, greet) = printer::start(layout, style.clone(), printed).map_err(cannot_start)?;
    let refusals = Arc::new(Mutex::new(Refusals::default()));
    let page = addresses.page.map(start_page).transpose()?;
    let receiver = listen(addresses, queue.clone(), refusals.clone(), page.clone())?;
    if let Some(page) = &page {
        page.set_receiver(&receiver);
    }
    let endpoints = Endpoints { http: receiver.endpoint(), grpc: receiver.grpc_endpoint() };
    // fails only when the printer has ended, which is reported
    let _ = greet.send(Greeting { lines: greeting(&receiver, page.as_ref(), style), endpoints });

    match ends.recv() {
        Ok(Ending::Printed(result)) => result.map_err(Failure::Output)?,
        Ok(Ending::Interrupted) | Err(_) => {
            receiver.stop_listening();
            let refused = refusals.lock().unwrap_or_else(PoisonError::into_inner).count;
            queue.close(vec![summary(&receiver, queue.batch_count(), refused)]);
            drop((queue, receiver));
            // an output that stands still is not waited for
            if let Ok(Ending::Printed(result)) = ends.recv_timeout(PRINT_TIMEOUT) {
                result.map_err(Failure::Output)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn listen(
    addresses: Addresses,
    queue: PrintQueue,
    refusals: Arc<Mutex<Refusals>>,
    page: Option<Page>,
) -> Result<Receiver, Failure> {
    let (refusal_queue, refusal_page) = (queue.clone(), page.clone());
    Receiver::builder()
        .address(addresses.http)
        .grpc_address(addresses.grpc)
        .keep_bytes(0)
        .max_memory_bytes(MEMORY)
        .local_hosts_only()
        .on_batch(move |batch| {
            if let Some(page) = &page {
                page.show(batch);
            }
            queue.show(batch);
        })
        .on_refusal(move |refused| {
            if let Some(page) = &refusal_page {
                let [http, grpc] = page.endpoints().map(str::to_owned);
                page.show_refusal(refused, refusals::line(refused, 0, &Endpoints { http, grpc }));
            }
            let mut refusals = refusals.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(more) = refusals.note(refused, Instant::now()) {
                refusal_queue.report_refusal(refused, more);
            }
        })
        .start()
        .map_err(|error| cannot_listen(addresses, &error))
}

fn cannot_start(error: io::Error) -> Failure {
    Failure::Message(format!("cannot start: {error}"))
}

fn cannot_listen(addresses: Addresses, error: &io::Error) -> Failure {
    // the error does not name the address that failed
    let is_http = TcpListener::bind(addresses.http).is_err();
    let (address, protocol, option) = match is_http {
        true => (addresses.http, "HTTP", "--address"),
        false => (addresses.grpc, "gRPC", "--grpc-address"),
    };
    let free_port = SocketAddr::new(address.ip(), 0);
    let what = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("address already in use; is a collector running? try {option} {free_port}")
        }
        io::ErrorKind::PermissionDenied => {
            format!("permission denied; try a port above 1023, or {option} {free_port}")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("this machine has no such address; try {option} 127.0.0.1:{}", address.port())
        }
        _ => error.to_string(),
    };
    Failure::Message(format!("{address} ({protocol}): {what}"))
}

fn greeting(receiver: &Receiver, page: Option<&Page>, style: &Style) -> Vec<String> {
    let line = |before: &str, endpoint: &str, after: &str| {
        let mut line = style.line();
        line.put(Ink::PLAIN, before).put(Ink::PLAIN.bold(), endpoint).put(Ink::FAINT, after);
        line.finish()
    };
    let mut lines = vec![
        line("listening on ", &receiver.endpoint(), "  (OTLP over HTTP)"),
        line("         and ", &receiver.grpc_endpoint(), "  (OTLP over gRPC; Ctrl-C stops)"),
    ];
    lines.extend(page.map(|page| line("     page at ", &page.url(), "")));
    let page_address = page.map(Page::address);
    lines.extend(exposure(
        [receiver.address(), receiver.grpc_address()].into_iter().chain(page_address),
        style,
    ));
    lines
}

/// A warning about addresses that others than this machine can reach.
fn exposure(addresses: impl IntoIterator<Item = SocketAddr>, style: &Style) -> Option<String> {
    let open: Vec<String> = addresses
        .into_iter()
        .filter(|address| !address.ip().to_canonical().is_loopback())
        .map(|address| address.to_string())
        .collect();
    if open.is_empty() {
        return None;
    }
    let mut line = style.line();
    line.put(Ink::WARNING.bold(), "open to the network")
        .put(Ink::PLAIN, &format!(" at {}: all who can reach this machine can send", open.join(" and ")));
    Some(line.finish())
}

/// The last line.
fn summary(receiver: &Receiver, batches: u64, refused: u64) -> String {
    let spans = describe::count(receiver.span_count(), "span");
    let logs = describe::count(receiver.log_count(), "log record");
    let points = describe::count(receiver.point_count(), "data point");
    let batches = printer::count(batches, "batch", "batches");
    let refused = match refused {
        0 => String::new(),
        _ => format!("; refused {}", describe::count(refused, "request")),
    };
    format!("received {spans}, {logs} and {points} in {batches}{refused}")
}

/// Each record is written before the next is drawn: a batch may have a million of them.
fn print_batch(batch: &Batch, layout: Layout, style: &Style, mut out: impl Write) -> io::Result<()> {
    match batch.signal {
        Signal::Traces => print_list(batch, spans::list(batch, layout, style), layout, style, &mut out),
        Signal::Logs => print_list(batch, logs::list(batch), layout, style, &mut out),
        Signal::Metrics => print_list(batch, points::list(batch, layout, style), layout, style, &mut out),
        other => writeln!(out, "{other}"),
    }?;
    out.flush()
}

fn print_list(
    batch: &Batch,
    (content, rows): (String, impl Iterator<Item = Row>),
    layout: Layout,
    style: &Style,
    out: &mut impl Write,
) -> io::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    let content = format!("{content} over {}", batch.request.protocol.name());
    writeln!(out, "{}", heading(&content, now, style))?;
    for row in rows {
        for line in row.draw(layout, style) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// The line over a batch: when it came, and what is in it.
fn heading(content: &str, received_unix_nanos: u64, style: &Style) -> String {
    let mut line = style.line();
    line.put(Ink::FAINT, &style.glyphs.rule.repeat(2)).space(1);
    line.put(Ink::FAINT, &describe::time_of_day(received_unix_nanos)).space(1);
    line.put(Ink::PLAIN.bold(), content).space(1);
    let rest = style.width.saturating_sub(line.width());
    line.put(Ink::FAINT, &style.glyphs.rule.repeat(rest));
    line.finish()
}

#[cfg(test)]
mod tests {
    use super::super::style::plain_style;
    use super::*;

    #[test]
    fn an_address_that_others_can_reach_is_reported() {
        let warning = |http: &str, grpc: &str| {
            let addresses = [http, grpc].map(|address| address.parse().expect("an address"));
            exposure(addresses, &plain_style(80))
        };
        assert_eq!(warning("127.0.0.1:4318", "[::1]:4317"), None);
        let line = warning("0.0.0.0:4318", "127.0.0.1:4317").expect("a warning");
        assert_eq!(line, "open to the network at 0.0.0.0:4318: all who can reach this machine can send");
        let both = warning("[::]:4318", "192.168.0.7:4317").expect("a warning");
        assert!(both.contains(" at [::]:4318 and 192.168.0.7:4317: "), "{both}");
    }

    #[test]
    fn a_heading_says_when_a_batch_came_and_what_is_in_it() {
        let line = heading("3 log records over HTTP", 1_700_049_600_005_000_000, &plain_style(50));
        assert_eq!(line, "── 12:00:00.005Z 3 log records over HTTP ─────────");
    }
}
