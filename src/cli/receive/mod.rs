//! What does `standpipe receive` do? It shows what arrives, and saves it on request.

mod printer;
mod queue;
mod refusals;
mod save;

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use standpipe::receiver::Receiver;

use self::printer::Greeting;
use self::queue::Queue;
use self::refusals::{Endpoints, Refusals};
use super::page::Page;
use super::style::{Ink, Style, TerminalInfo};
use super::view::{self, Foot, View};
use super::{Failure, describe, interrupt, report_error};

/// What all requests may take together. A batch of the usual few thousand records takes a few MiB.
const MEMORY: usize = 256 * 1024 * 1024;

/// What traces may take that are not complete.
const TRACE_MEMORY: usize = 64 * 1024 * 1024;

/// How long the end waits for a file, and for an output that takes nothing.
const PRINT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the end of `receive` goes on printing to a terminal, whose reader waits. A file or pipe gets everything.
const MAX_TERMINAL_BACKLOG: Duration = Duration::from_secs(2);

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

/// The options of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) addresses: Addresses,
    pub(crate) view: view::Options,
    /// The file that everything is added to.
    pub(crate) save: Option<PathBuf>,
}

/// Shows what arrives until the process is interrupted or what it prints is not read any more.
pub(crate) fn run(options: &Options, terminal: &TerminalInfo, style: &Style) -> Result<ExitCode, Failure> {
    let (end, ends) = mpsc::channel();
    // before a sender can know that the receiver listens
    let interrupted = end.clone();
    interrupt::on_interrupt(move || drop(interrupted.send(Ending::Interrupted))).map_err(cannot_start)?;
    let save = options.save.as_deref().map(save::start).transpose()?;
    let printed = move |result| drop(end.send(Ending::Printed(result)));
    let view = View::new(&options.view, terminal.is_terminal, TRACE_MEMORY, style.clone());
    let foot = Foot::new(terminal.can_erase(), terminal.known_columns());
    let (queue, greet) = printer::start(view, foot, printed).map_err(cannot_start)?;
    let refusals = Arc::new(Mutex::new(Refusals::default()));
    let page = options.addresses.page.map(start_page).transpose()?;
    let queues = Some(queue.clone()).into_iter().chain(save.as_ref().map(save::Save::queue));
    let receiver = listen(options.addresses, queues.collect(), refusals.clone(), page.clone())?;
    if let Some(page) = &page {
        page.set_receiver(&receiver);
    }
    let endpoints = Endpoints { http: receiver.endpoint(), grpc: receiver.grpc_endpoint() };
    // fails only when the printer has ended, which is reported
    let _ = greet.send(Greeting { lines: greeting(&receiver, page.as_ref(), style), endpoints });

    match ends.recv() {
        Ok(Ending::Printed(result)) => {
            receiver.stop_listening();
            let saved = save.as_ref().map(|save| save.finish(PRINT_TIMEOUT));
            match saved.filter(|_| save.as_ref().is_some_and(save::Save::has_failed)) {
                // that a reader has gone is no failure, but this is
                Some(saved) => report_error(&saved),
                None => result.map_err(Failure::Output)?,
            }
        }
        Ok(Ending::Interrupted) | Err(_) => {
            receiver.stop_listening();
            let refused = refusals.lock().unwrap_or_else(PoisonError::into_inner).count;
            let saved = save.as_ref().map(|save| save.finish(PRINT_TIMEOUT));
            let summary = summary(&receiver, queue.batch_count(), refused);
            let closing_lines: Vec<String> = Some(summary).into_iter().chain(saved).collect();
            queue.close(closing_lines.clone());
            drop(receiver);
            let by = terminal.is_terminal.then(|| Instant::now() + MAX_TERMINAL_BACKLOG);
            match await_printed(&ends, || queue.written(), PRINT_TIMEOUT, by) {
                Some(result) => result.map_err(Failure::Output)?,
                None => {
                    report_error("not everything that arrived was printed; --save FILE keeps all of it");
                    let _ = io::stderr().write_all(format!("{}\n", closing_lines.join("\n")).as_bytes());
                }
            }
        }
    }
    let is_saved = save.is_none_or(|save| !save.has_failed());
    Ok(if is_saved { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Waits for the printer until the moment `by`, if any, as long as the output takes something, and for `timeout` once it
/// does not.
fn await_printed(
    ends: &mpsc::Receiver<Ending>,
    mut written: impl FnMut() -> usize,
    timeout: Duration,
    by: Option<Instant>,
) -> Option<io::Result<()>> {
    let mut before = written();
    loop {
        let left = by.map(|by| by.saturating_duration_since(Instant::now()));
        match ends.recv_timeout(left.map_or(timeout, |left| left.min(timeout))) {
            Ok(Ending::Printed(result)) => return Some(result),
            Ok(Ending::Interrupted) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let now = written();
                if now == before || by.is_some_and(|by| by <= Instant::now()) {
                    return None;
                }
                before = now;
            }
        }
    }
}

/// Starts the receiver. The first of the queues is that of the printer.
fn listen(
    addresses: Addresses,
    queues: Vec<Queue>,
    refusals: Arc<Mutex<Refusals>>,
    page: Option<Page>,
) -> Result<Receiver, Failure> {
    let printer = queues.first().cloned();
    let refusal_page = page.clone();
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
            // the printer last: when its reader has gone, nothing is saved any more
            queues.iter().rev().for_each(|queue| queue.add(batch));
        })
        .on_refusal(move |refused| {
            if let Some(page) = &refusal_page {
                let [http, grpc] = page.endpoints().map(str::to_owned);
                page.show_refusal(refused, refusals::line(refused, 0, &Endpoints { http, grpc }));
            }
            let mut refusals = refusals.lock().unwrap_or_else(PoisonError::into_inner);
            let more = refusals.note(refused, Instant::now());
            printer.iter().for_each(|printer| printer.report_refusal(refused, more));
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

#[cfg(test)]
mod tests {
    use super::super::style::plain_style;
    use super::*;

    #[test]
    fn the_end_waits_for_the_output_as_long_as_it_takes_something() {
        let timeout = Duration::from_millis(5);
        let (end, ends) = mpsc::channel();
        let mut written = 0;
        let slow_reader = || {
            written += 1;
            if written == 20 {
                end.send(Ending::Printed(Ok(()))).expect("the end is awaited");
            }
            written
        };
        assert!(await_printed(&ends, slow_reader, timeout, None).is_some());
        assert!(await_printed(&ends, || 7, timeout, None).is_none(), "the output stands still");
    }

    #[test]
    fn stops_printing_to_a_terminal_after_a_time_though_it_takes_more() {
        let (_end, ends) = mpsc::channel();
        let mut written = 0;
        let endless = || {
            written += 1;
            written
        };
        let by = Instant::now() + Duration::from_millis(50);
        assert!(await_printed(&ends, endless, Duration::from_millis(1), Some(by)).is_none());
    }

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
}
