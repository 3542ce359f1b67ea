//! `standpipe receive`: shows the telemetry that arrives, and saves it on request.

mod output;
mod printer;
mod queue;
mod refusals;
mod save;

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use standpipe::receiver::Receiver;

use self::output::Output;
use self::queue::Queue;
use self::refusals::Refusals;
use super::page::Page;
use super::style::{Ink, Style};
use super::terminal::TerminalInfo;
use super::view::{self, View};
use super::{Failure, describe, interrupt, report_error};

/// What all requests may take together. A batch of the usual few thousand records takes a few MiB.
const MEMORY: usize = 256 * 1024 * 1024;

/// What traces may take that are not complete.
const TRACE_MEMORY: usize = 64 * 1024 * 1024;

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Where OTLP is expected.
const HTTP_PORT: u16 = 4318;
const GRPC_PORT: u16 = 4317;
const PAGE_PORT: u16 = 4319;

/// How long the end waits for a file, and for an output that takes nothing.
const PRINT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the end of `receive` goes on printing to a terminal, whose reader waits. A file or pipe gets everything.
const MAX_TERMINAL_BACKLOG: Duration = Duration::from_secs(2);

/// The options for the page.
#[derive(Debug, Args)]
pub(crate) struct PageOptions {
    /// Also show everything on a page in a browser, at http://127.0.0.1:4319/: traces, logs, metrics, services and refused
    /// requests of the last while, within 256 MiB. Only this machine is answered.
    #[arg(long)]
    page: bool,
    /// The same elsewhere; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    page_address: Option<SocketAddr>,
}

impl PageOptions {
    /// Starts the page, if it is wanted.
    pub(crate) fn start(&self) -> Result<Option<Arc<Page>>, Failure> {
        let usual = SocketAddr::new(LOCALHOST, PAGE_PORT);
        let address = self.page_address.or(self.page.then_some(usual));
        let start = |address| {
            Page::start(address).map_err(|error| cannot_listen(address, "page", "--page-address", &error))
        };
        address.map(start).transpose()
    }
}

/// The value of an option for an address.
fn address(word: &str) -> Result<SocketAddr, &'static str> {
    let numeric = word.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address = numeric.as_deref().unwrap_or(word).parse();
    address.map_err(|_| "write an IP address and a port, as 127.0.0.1:4318")
}

/// Why it ends.
enum Ending {
    /// By Ctrl-C or SIGTERM.
    Interrupted,
    /// What was to be printed is printed, or cannot be.
    Printed(io::Result<()>),
}

/// Listens for OTLP over HTTP and gRPC and shows the traces, logs and metrics that arrive.
///
/// Listens for OTLP over HTTP (POST to /v1/traces, /v1/logs and /v1/metrics, protobuf or JSON, gzip or not) and over gRPC
/// (without TLS, gzip or not). Ctrl-C or SIGTERM (on Windows Ctrl-Break) ends it with a summary.
///
/// On a terminal a trace is drawn as a tree, with its log records, once its root is there, no parent is missing and nothing
/// came for 1 s. An incomplete trace is drawn after 6 s of quiet or 30 s in all, or when open traces take 64 MiB, and shows
/// what is missing; spans that come later follow as late spans, below their ancestors. Log records of no trace are shown at
/// once, metrics as far as they changed. Elsewhere, as in a pipe or a file, each record is one line, with up to 65,536
/// characters of each text, and a span's events at its end. Records that come faster than the output is read are counted
/// instead of shown, so that no sender waits.
///
/// Refused requests are reported on standard error, once for each kind, with what to do about it. On a loopback address a
/// request for a host other than this machine is refused, too, so that no web page can send here. All requests together may
/// take 256 MiB of memory: one that would decode to more is refused with 413, and one for which there is no memory now with
/// 503, which is retryable.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  standpipe receive
  standpipe receive --errors --hide /health
  standpipe receive --service payments --min 100ms --level warn
  standpipe receive --save today.jsonl
  standpipe receive --tree --color always | less -R
  standpipe receive --json | jq -r '.resourceSpans[]?.scopeSpans[].spans[].name'

Exit code: 0; 1 if an address cannot be listened on or something could not be saved; 2 if the
           command line is invalid")]
pub(crate) struct Options {
    /// Where to listen for HTTP; 127.0.0.1:4318 if not given, port 0 takes a free one.
    #[arg(long, value_parser = address)]
    address: Option<SocketAddr>,
    /// Where to listen for gRPC; if not given, port 4317 of the address for HTTP, or a free one if HTTP takes one.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    grpc_address: Option<SocketAddr>,
    #[command(flatten)]
    page: PageOptions,
    /// Also append everything that arrives, whatever the filters, to FILE as OTLP JSON lines, for standpipe show; a new
    /// file has mode 0600.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    view: view::Options,
}

impl Options {
    /// Where to listen for HTTP and for gRPC.
    fn addresses(&self) -> [SocketAddr; 2] {
        let http = self.address.unwrap_or(SocketAddr::new(LOCALHOST, HTTP_PORT));
        // with a free port for HTTP, the fixed port of gRPC could collide with another receiver
        let beside = SocketAddr::new(http.ip(), if http.port() == 0 { 0 } else { GRPC_PORT });
        [http, self.grpc_address.unwrap_or(beside)]
    }
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
    let written = Arc::new(AtomicUsize::new(0));
    let output = Output::new(io::stdout(), terminal, written.clone());
    let refusals = Arc::new(Mutex::new(Refusals::default()));
    let page = options.page.start()?;
    let queue = Arc::new(Queue::default());
    let queues = Some(&queue).into_iter().chain(save.as_ref().map(|save| &save.queue)).cloned();
    let receiver = {
        // The first refusals wait until the endpoints are known, which the advice names.
        let mut refusals_before_start = refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = listen(options.addresses(), queues.collect(), refusals.clone(), page.clone())?;
        refusals_before_start.http = receiver.endpoint();
        refusals_before_start.grpc = receiver.grpc_endpoint();
        receiver
    };
    if let Some(page) = &page {
        page.set_receiver(&receiver);
    }
    let greeting = greeting(&receiver, page.as_deref(), style);
    let print = {
        let (queue, refusals) = (queue.clone(), refusals.clone());
        move || printed(printer::run(&queue, view, output, &refusals, &greeting))
    };
    thread::Builder::new().name("standpipe-print".to_owned()).spawn(print).map_err(cannot_start)?;

    let ending = ends.recv();
    receiver.stop_listening();
    let saved = save.as_ref().map(|save| save.finish(PRINT_TIMEOUT));
    match ending {
        Ok(Ending::Printed(result)) => {
            match saved.filter(|_| save.as_ref().is_some_and(save::Save::has_failed)) {
                // that a reader has gone is no failure, but this is
                Some(saved) => report_error(&saved),
                None => result.map_err(Failure::Output)?,
            }
        }
        Ok(Ending::Interrupted) | Err(_) => {
            let refused = refusals.lock().unwrap_or_else(PoisonError::into_inner).count;
            let summary = summary(&receiver, queue.batch_count(), refused);
            let closing_lines: Vec<String> = Some(summary).into_iter().chain(saved).collect();
            queue.close(closing_lines.clone());
            drop(receiver);
            let by = terminal.is_terminal.then(|| Instant::now() + MAX_TERMINAL_BACKLOG);
            match await_printed(&ends, || written.load(Ordering::Relaxed), PRINT_TIMEOUT, by) {
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
    [http, grpc]: [SocketAddr; 2],
    queues: Vec<Arc<Queue>>,
    refusals: Arc<Mutex<Refusals>>,
    page: Option<Arc<Page>>,
) -> Result<Receiver, Failure> {
    let printer = queues.first().cloned();
    let refusal_page = page.clone();
    Receiver::builder()
        .address(http)
        .grpc_address(grpc)
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
            let mut refusals = refusals.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(page) = &refusal_page {
                page.show_refusal(refused, refusals.line(refused, 0));
            }
            if let Some((more, printer)) = refusals.note(refused, Instant::now()).zip(printer.as_ref()) {
                printer.add_refusal(refusals::summary(refused), refusals.line(refused, more));
            }
        })
        .start()
        .map_err(|error| {
            // The error does not name the address that failed.
            let (address, protocol, option) = match TcpListener::bind(http) {
                Err(_) => (http, "HTTP", "--address"),
                Ok(_) => (grpc, "gRPC", "--grpc-address"),
            };
            cannot_listen(address, protocol, option, &error)
        })
}

fn cannot_start(error: io::Error) -> Failure {
    Failure::Message(format!("cannot start: {error}"))
}

/// Explains why an address cannot be listened on. `option` takes another one.
fn cannot_listen(address: SocketAddr, service: &str, option: &str, error: &io::Error) -> Failure {
    let free_port = SocketAddr::new(address.ip(), 0);
    let owner = if service == "page" { "another viewer" } else { "a collector" };
    let what = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("address already in use; is {owner} running? try {option} {free_port}")
        }
        io::ErrorKind::PermissionDenied => {
            format!("permission denied; try a port above 1023, or {option} {free_port}")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("this machine has no such address; try {option} 127.0.0.1:{}", address.port())
        }
        _ => error.to_string(),
    };
    Failure::Message(format!("{address} ({service}): {what}"))
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
    let addresses = [receiver.address(), receiver.grpc_address()].into_iter();
    lines.extend(exposure(addresses.chain(page.map(|page| page.address)), style));
    lines
}

/// A warning about addresses that others than this machine can reach.
fn exposure(addresses: impl IntoIterator<Item = SocketAddr>, style: &Style) -> Option<String> {
    let open = addresses.into_iter().filter(|address| !address.ip().to_canonical().is_loopback());
    let open: Vec<String> = open.map(|address| address.to_string()).collect();
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
    let batches = describe::count(batches, "batch");
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
