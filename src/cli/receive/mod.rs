//! `standpipe receive`: what arrives, as it arrives.

mod logs;
mod points;
mod row;
mod spans;

use std::io::{self, BufWriter, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{SystemTime, UNIX_EPOCH};

use standpipe::Signal;
use standpipe::receiver::{Batch, Receiver};

use self::row::Row;
use super::describe;
use super::paint::{Ink, Look};
use super::{Failure, print};

/// Batches that wait to be printed; then the senders wait for their answers.
const BACKLOG: usize = 16;

/// What all requests may take together. A batch of the usual few thousand records takes a few MiB.
const MEMORY: usize = 256 * 1024 * 1024;

/// How a record is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Lines are cut to the width of the terminal, and details that have no room in the first get a second one.
    Cut,
    /// One line for each record, to be searched, with as much of each text as anyone would want to read.
    Whole,
}

/// Where to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
}

/// Prints what arrives until the process is stopped or nobody reads any more.
pub(crate) fn run(addresses: Addresses, layout: Layout, look: &Look) -> Result<ExitCode, Failure> {
    // Batches come on many threads; only this one prints, so that it can end the program.
    let (arrive, arriving) = mpsc::sync_channel(BACKLOG);
    let receiver = Receiver::builder()
        .address(addresses.http)
        .grpc_address(addresses.grpc)
        .keep_bytes(0)
        .max_memory_bytes(MEMORY)
        .on_batch(move |batch| {
            // Fails only when the program is about to end.
            let _ = arrive.send(batch.clone());
        })
        .start()
        .map_err(|error| cannot_listen(addresses, &error))?;

    print(&greeting(&receiver, look))?;
    for batch in arriving {
        print_batch(&batch, layout, look, BufWriter::new(io::stdout().lock())).map_err(Failure::Output)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn cannot_listen(addresses: Addresses, error: &io::Error) -> Failure {
    // the error does not say which of the two it is
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

fn greeting(receiver: &Receiver, look: &Look) -> [String; 2] {
    let line = |before: &str, endpoint: &str, after: &str| {
        let mut line = look.line();
        line.put(Ink::PLAIN, before).put(Ink::PLAIN.bold(), endpoint).put(Ink::FAINT, after);
        line.finish()
    };
    [
        line("listening on ", &receiver.endpoint(), "  (OTLP over HTTP)"),
        line("         and ", &receiver.grpc_endpoint(), "  (OTLP over gRPC; Ctrl-C stops)"),
    ]
}

/// Each record is written before the next is drawn: a batch may have a million of them.
fn print_batch(batch: &Batch, layout: Layout, look: &Look, mut out: impl Write) -> io::Result<()> {
    match batch.signal {
        Signal::Traces => print_list(batch, spans::list(batch, layout, look), layout, look, &mut out),
        Signal::Logs => print_list(batch, logs::list(batch), layout, look, &mut out),
        Signal::Metrics => print_list(batch, points::list(batch, layout, look), layout, look, &mut out),
    }?;
    out.flush()
}

fn print_list(
    batch: &Batch,
    (content, rows): (String, impl Iterator<Item = Row>),
    layout: Layout,
    look: &Look,
    out: &mut impl Write,
) -> io::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    let content = format!("{content} over {}", batch.request.protocol.name());
    writeln!(out, "{}", heading(&content, now, look))?;
    for row in rows {
        for line in row.draw(layout, look) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// The line over a batch: when it came, and what is in it.
fn heading(content: &str, received_unix_nanos: u64, look: &Look) -> String {
    let mut line = look.line();
    line.put(Ink::FAINT, &look.glyphs.rule.repeat(2)).space(1);
    line.put(Ink::FAINT, &describe::time_of_day(received_unix_nanos)).space(1);
    line.put(Ink::PLAIN.bold(), content).space(1);
    let rest = look.width.saturating_sub(line.width());
    line.put(Ink::FAINT, &look.glyphs.rule.repeat(rest));
    line.finish()
}

#[cfg(test)]
mod tests {
    use super::super::paint::plain_look;
    use super::*;

    #[test]
    fn a_heading_says_when_a_batch_came_and_what_is_in_it() {
        let line = heading("3 log records over HTTP", 1_700_049_600_005_000_000, &plain_look(50));
        assert_eq!(line, "── 12:00:00.005Z 3 log records over HTTP ─────────");
    }
}
