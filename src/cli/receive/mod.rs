//! `standpipe receive`: shows the telemetry that arrives, and saves it on request.

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
use std::time::{Duration, Instant};

use clap::Args;
use standpipe::receiver::Receiver;
use standpipe::shared::spawn;

use self::printer::{Output, Printer};
use self::queue::Queue;
use self::refusals::Refusals;
use super::page::Page;
use super::page::store::Counts;
use super::style::{Ink, Style};
use super::terminal::TerminalInfo;
use super::view::{self, View};
use super::{Failure, cannot_start, describe, live, on_interrupt, print, report_error};

/// Maximum memory of all requests together. A batch of a few thousand records takes a few MiB.
const MAX_REQUEST_BYTES: usize = 256 * 1024 * 1024;

/// Maximum memory of incomplete traces.
const MAX_TRACE_BYTES: usize = 64 * 1024 * 1024;

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Default ports of OTLP.
const HTTP_PORT: u16 = 4318;
const GRPC_PORT: u16 = 4317;
const PAGE_PORT: u16 = 4319;

/// At the end of the command: maximum time to complete the saved file, and maximum time to wait for an output that
/// accepts nothing.
const PRINT_TIMEOUT: Duration = Duration::from_secs(5);
/// At the end of the command: maximum time to print to a terminal, because a user waits. A file or pipe gets all
/// output.
const MAX_TERMINAL_BACKLOG: Duration = Duration::from_secs(2);

/// Options for the page.
#[derive(Debug, Args)]
pub(crate) struct PageOptions {
    /// Also serve a web page at http://127.0.0.1:4319/ that shows the latest traces, logs, metrics, services and
    /// refused requests, up to 256 MiB. Other machines cannot reach this address.
    #[arg(long)]
    page: bool,
    /// Serve the page at another address, which other machines may reach; port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    page_address: Option<SocketAddr>,
}

impl PageOptions {
    /// Starts the page, if an option requests it.
    pub(crate) fn start(&self) -> Result<Option<Arc<Page>>, Failure> {
        let usual = SocketAddr::new(LOCALHOST, PAGE_PORT);
        let address = self.page_address.or(self.page.then_some(usual));
        let start = |address| {
            Page::start(address).map_err(|error| cannot_listen(address, "page", "--page-address", &error))
        };
        address.map(start).transpose()
    }
}

/// Parses the value of an option for an address.
fn address(word: &str) -> Result<SocketAddr, &'static str> {
    let numeric = word.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address = numeric.as_deref().unwrap_or(word).parse();
    address.map_err(|_| "write an IP address and a port, for example 127.0.0.1:4318")
}

/// Parses an origin as browsers send it: without a path. Browsers also omit a default port, but this is not checked.
fn origin(word: &str) -> Result<String, &'static str> {
    let host =
        ["http://", "https://"].iter().find_map(|scheme| word.strip_prefix(scheme)).unwrap_or_default();
    let is_host = |byte: u8| byte.is_ascii_graphic() && !b"/?#@*\\".contains(&byte);
    let is_valid = !host.is_empty() && host.bytes().all(is_host);
    is_valid
        .then(|| word.to_ascii_lowercase())
        .ok_or("write a scheme and a host, for example https://shop.example")
}

/// Reason for the end of `receive`.
enum Ending {
    /// Ctrl-C or SIGTERM.
    Interrupted,
    /// The printer has ended: everything is printed, or the output cannot be written.
    Printed(io::Result<()>),
}

/// Listens for OTLP over HTTP and gRPC and shows the traces, logs and metrics that arrive.
///
/// Listens for OTLP over HTTP (POST to /v1/traces, /v1/logs and /v1/metrics; protobuf or JSON; gzip or uncompressed)
/// and over gRPC (without TLS; gzip or uncompressed). Ctrl-C or SIGTERM (on Windows Ctrl-Break) ends the command with a
/// summary.
///
/// On a terminal, shows an interactive list of the latest traces, up to 256 MiB. Enter opens the waterfall of a trace;
/// other keys show the log records, the metrics and the services; ? shows all keys, and q quits. In the background,
/// with TERM=dumb, and with --tree, --flat or --json, the records are printed instead.
///
/// With --tree, a trace is drawn as a tree with its log records once its root has arrived, no parent is missing and
/// no record has arrived for 1 s. An incomplete trace is drawn after 6 s without records, after 30 s in total, or when
/// incomplete traces take 64 MiB; its heading says what is missing. Spans that arrive later are drawn as late spans,
/// below their ancestors. Log records without a trace, and metrics that are new or have changed, are shown at once. If
/// the output is a pipe or a file, each record is one line, which shows up to 65,536 characters of each text; the line
/// of a span ends with its events. If records arrive faster than the output is read, they are counted instead of shown,
/// so that no sender waits.
///
/// Refused requests are reported on standard error, once for each kind, with a remedy. On a loopback address, requests
/// for other hosts are refused. A web page may send only if it comes from this machine or from an --allow-origin. All
/// requests together may take 256 MiB of memory. A request that would take more when decoded is refused with 413. If
/// there is no memory for a request at the moment, it is refused with 503, which senders retry.
#[derive(Debug, Args)]
#[command(after_help = include_str!("../help/receive.txt").trim_ascii_end())]
pub(crate) struct Options {
    /// The address for OTLP over HTTP; the default is 127.0.0.1:4318; port 0 selects a free port.
    #[arg(long, value_parser = address)]
    address: Option<SocketAddr>,
    /// The address for OTLP over gRPC; the default is port 4317 of the HTTP address, or a free port if --address has
    /// port 0.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    grpc_address: Option<SocketAddr>,
    /// Also listen for OTLP over HTTP on this Unix socket, for exporters with the endpoint unix:PATH.
    #[arg(long, value_name = "PATH")]
    unix_socket: Option<PathBuf>,
    /// Also listen for OTLP over gRPC on this Unix socket.
    #[arg(long, value_name = "PATH")]
    grpc_unix_socket: Option<PathBuf>,
    #[command(flatten)]
    page: PageOptions,
    /// Also accept telemetry from web pages of this origin (CORS), for example https://shop.example; can be repeated.
    /// Web pages from this machine, such as http://localhost:3000, may always send.
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    allow_origin: Vec<String>,
    /// Also append all records to FILE as OTLP JSON lines, for standpipe show. Filters do not apply. A new file has
    /// mode 0600.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    view: view::Options,
}

impl Options {
    /// Returns the addresses for HTTP and for gRPC.
    fn addresses(&self) -> [SocketAddr; 2] {
        let http = self.address.unwrap_or(SocketAddr::new(LOCALHOST, HTTP_PORT));
        // By default, gRPC listens on the same interface as HTTP. A user who asks for a free HTTP port may run several
        // receivers, so the gRPC port must not be fixed either.
        let default_grpc = SocketAddr::new(http.ip(), if http.port() == 0 { 0 } else { GRPC_PORT });
        [http, self.grpc_address.unwrap_or(default_grpc)]
    }
}

/// Shows received records until the process is interrupted, the user quits, or the output is closed.
pub(crate) fn run(options: &Options, terminal: &TerminalInfo, style: &Style) -> Result<ExitCode, Failure> {
    let (end, ends) = mpsc::channel();
    // The handler is installed first, because another program may send a signal as soon as it has read the greeting.
    let interrupted = end.clone();
    on_interrupt(move || drop(interrupted.send(Ending::Interrupted)))?;
    let save = options.save.as_deref().map(save::start).transpose()?;
    let printed = move |result| drop(end.send(Ending::Printed(result)));
    let view = View::new(&options.view, terminal.is_terminal, MAX_TRACE_BYTES, style.clone());
    let written = Arc::new(AtomicUsize::new(0));
    let output = Output::new(io::stdout(), terminal, written.clone());
    let refusals = Arc::new(Mutex::new(Refusals::default()));
    let page = options.page.start()?;
    let is_live = live::is_possible(&options.view, terminal);
    // The interactive view reads its records from a page. Without `--page`, this page is not served.
    let kept = page.clone().or_else(|| is_live.then(|| Page::without_server(SocketAddr::new(LOCALHOST, 0))));
    let queue = Arc::new(Queue::default());
    // With the interactive view there is no printer, so no records may enter the queue.
    let printer = (!is_live).then(|| queue.clone());
    let queues = printer.iter().chain(save.as_ref().map(|save| &save.queue)).cloned();
    let receiver = {
        // The lock holds refusals back until the endpoints are known, because the advice contains the endpoints.
        let mut refusals_before_start = refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = listen(options, queues.collect(), printer, refusals.clone(), kept.clone())?;
        refusals_before_start.http = receiver.endpoint();
        refusals_before_start.grpc = receiver.grpc_endpoint();
        receiver
    };
    if let Some(page) = &kept {
        page.set_receiver(&receiver);
    }
    let greeting = greeting(&receiver, options, page.as_deref(), style);
    if let (Some(page), true) = (&kept, is_live) {
        print(&greeting)?;
        let shown = live::run(page, &options.view, style, || ends.try_recv().is_ok());
        receiver.stop_listening();
        let saved = save.as_ref().map(|save| save.finish(PRINT_TIMEOUT));
        let Counts { requests, refused, .. } = page.lock().counts;
        print(&Some(summary(&receiver, requests, refused)).into_iter().chain(saved).collect::<Vec<_>>())?;
        shown.map_err(Failure::Output)?;
        return Ok(code_of(save.as_ref()));
    }
    let print = {
        let (queue, refusals) = (queue.clone(), refusals.clone());
        move || printed(Printer::new(&queue, view, output, &refusals).run(&greeting))
    };
    spawn("standpipe-print", print).map_err(cannot_start)?;

    let ending = ends.recv();
    receiver.stop_listening();
    let saved = save.as_ref().map(|save| save.finish(PRINT_TIMEOUT));
    match ending {
        Ok(Ending::Printed(result)) => {
            match saved.filter(|_| save.as_ref().is_some_and(save::Save::has_failed)) {
                // A closed pipe is not a failure, but an incomplete file of `--save` is.
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
                    report_error(
                        "the output was not read in time, and some is missing; --save FILE saves all records",
                    );
                    let _ = io::stderr().write_all(format!("{}\n", closing_lines.join("\n")).as_bytes());
                }
            }
        }
    }
    Ok(code_of(save.as_ref()))
}

/// Returns the exit code, which says whether all records were saved.
fn code_of(save: Option<&save::Save>) -> ExitCode {
    if save.is_some_and(save::Save::has_failed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Waits for the printer. Gives up at the time `by`, if given, or if the output has accepted nothing for `timeout`.
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

/// Starts the receiver. The printer's queue, if there is a printer, is the first of the queues.
fn listen(
    options: &Options,
    queues: Vec<Arc<Queue>>,
    printer: Option<Arc<Queue>>,
    refusals: Arc<Mutex<Refusals>>,
    page: Option<Arc<Page>>,
) -> Result<Receiver, Failure> {
    let refusal_page = page.clone();
    let [http, grpc] = options.addresses();
    let mut builder = Receiver::builder();
    if let Some(path) = &options.unix_socket {
        builder = builder.unix_socket(path);
    }
    if let Some(path) = &options.grpc_unix_socket {
        builder = builder.grpc_unix_socket(path);
    }
    builder
        .address(http)
        .grpc_address(grpc)
        .keep_bytes(0)
        .max_memory_bytes(MAX_REQUEST_BYTES)
        .local_hosts_only()
        .allow_origins(&options.allow_origin)
        .on_batch(move |batch| {
            if let Some(page) = &page {
                page.show(batch);
            }
            // The printer's queue gets each batch last. If the output is closed, the command ends; at that time, each
            // batch that the printer has received must already be in the queue for the file.
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
            // The error does not contain the address. A second attempt shows which address failed.
            let has_socket = options.unix_socket.is_some() || options.grpc_unix_socket.is_some();
            let (address, protocol, option) = match (TcpListener::bind(http), TcpListener::bind(grpc)) {
                (Err(_), _) => (http, "HTTP", "--address"),
                (Ok(_), Ok(_)) if has_socket => {
                    return Failure::Message(format!("cannot listen on Unix socket {error}"));
                }
                (Ok(_), _) => (grpc, "gRPC", "--grpc-address"),
            };
            cannot_listen(address, protocol, option, &error)
        })
}

/// Explains why listening on an address failed. `option` is the option for another address.
fn cannot_listen(address: SocketAddr, service: &str, option: &str, error: &io::Error) -> Failure {
    let free_port = SocketAddr::new(address.ip(), 0);
    let owner = if service == "page" { "another page" } else { "a collector" };
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
    Failure::Message(format!("cannot listen on {address} ({service}): {what}"))
}

fn greeting(receiver: &Receiver, options: &Options, page: Option<&Page>, style: &Style) -> Vec<String> {
    let line = |before: &str, endpoint: &str, after: &str| {
        let mut line = style.line();
        line.put(Ink::PLAIN, before).put(Ink::PLAIN.bold(), endpoint).put(Ink::FAINT, after);
        line.finish()
    };
    let mut lines = vec![
        line("listening on ", &receiver.endpoint(), "  (OTLP over HTTP)"),
        line("         and ", &receiver.grpc_endpoint(), "  (OTLP over gRPC; Ctrl-C stops)"),
    ];
    let sockets =
        [(&options.unix_socket, "  (OTLP over HTTP)"), (&options.grpc_unix_socket, "  (OTLP over gRPC)")];
    for (path, protocol) in sockets {
        let endpoint = path.as_ref().map(|path| format!("unix:{}", path.display()));
        lines.extend(endpoint.map(|endpoint| line("         and ", &endpoint, protocol)));
    }
    lines.extend(page.map(|page| line("     page at ", &page.url(), "")));
    let addresses = [receiver.address(), receiver.grpc_address()].into_iter();
    lines.extend(exposure(addresses.chain(page.map(|page| page.address)), style));
    lines
}

/// Returns a warning if other machines can reach an address.
fn exposure(addresses: impl IntoIterator<Item = SocketAddr>, style: &Style) -> Option<String> {
    let open = addresses.into_iter().filter(|address| !address.ip().to_canonical().is_loopback());
    let open: Vec<String> = open.map(|address| address.to_string()).collect();
    if open.is_empty() {
        return None;
    }
    let mut line = style.line();
    let who = format!(" at {}: every machine that can reach this one has access", open.join(" and "));
    Some(line.put(Ink::WARNING.bold(), "open to the network").put(Ink::PLAIN, &who).finish())
}

/// Returns the summary that is printed at the end.
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
        assert_eq!(
            line,
            "open to the network at 0.0.0.0:4318: every machine that can reach this one has access"
        );
        let both = warning("[::]:4318", "192.168.0.7:4317").expect("a warning");
        assert!(both.contains(" at [::]:4318 and 192.168.0.7:4317: "), "{both}");
    }
}
