//! `standpipe receive`: what arrives, as it arrives.

mod logs;
mod points;
mod row;
mod spans;

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{SystemTime, UNIX_EPOCH};

use standpipe::Signal;
use standpipe::receiver::{Batch, Receiver};

use super::describe;
use super::paint::{Ink, Look};
use super::{Failure, print};

/// Batches that wait to be printed; then the senders wait for their answers.
const BACKLOG: usize = 16;

/// How a record is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Lines are cut to the width of the terminal, and details that have no room in the first get a second one.
    Cut,
    /// One line for each record, however long, to be searched.
    Whole,
}

/// Prints what arrives until the process is stopped or nobody reads any more.
pub(crate) fn run(address: SocketAddr, layout: Layout, look: &Look) -> Result<ExitCode, Failure> {
    // Batches come on many threads; only this one prints, so that it can end the program.
    let (arrive, arriving) = mpsc::sync_channel(BACKLOG);
    let receiver = Receiver::builder()
        .address(address)
        .keep_bytes(0)
        .on_batch(move |batch| {
            // Fails only when the program is about to end.
            let _ = arrive.send(batch.clone());
        })
        .start()
        .map_err(|error| cannot_listen(address, &error))?;

    print(&[greeting(&receiver.endpoint(), look)])?;
    for batch in arriving {
        print(&draw_batch(&batch, layout, look))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> Failure {
    let free_port = SocketAddr::new(address.ip(), 0);
    Failure::Message(match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("{address}: address already in use; is a collector running? try --address {free_port}")
        }
        io::ErrorKind::PermissionDenied => {
            format!("{address}: permission denied; try a port above 1023, or --address {free_port}")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("{address}: this machine has no such address; try --address 127.0.0.1:{}", address.port())
        }
        _ => format!("{address}: {error}"),
    })
}

fn greeting(endpoint: &str, look: &Look) -> String {
    let mut line = look.line();
    line.put(Ink::PLAIN, "listening on ").put(Ink::PLAIN.bold(), endpoint);
    line.put(Ink::FAINT, "  (your exporter's endpoint; Ctrl-C stops)");
    line.finish()
}

fn draw_batch(batch: &Batch, layout: Layout, look: &Look) -> Vec<String> {
    let (content, rows) = match batch.signal {
        Signal::Traces => spans::list(batch, layout, look),
        Signal::Logs => logs::list(batch),
        Signal::Metrics => points::list(batch, layout, look),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    let mut lines = vec![heading(&content, now, look)];
    lines.extend(rows.iter().flat_map(|row| row.draw(layout, look)));
    lines
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
        let line = heading("3 log records", 1_700_049_600_005_000_000, &plain_look(40));
        assert_eq!(line, "── 12:00:00.005Z 3 log records ─────────");
    }
}
