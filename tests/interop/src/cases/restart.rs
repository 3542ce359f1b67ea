//! The server stops and restarts twice while the program continues to send: nothing is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use standpipe::ProblemKind;

use super::{no_complaints, same_spans, sent_spans, spans_to, wait_until};
use crate::Error;
use crate::program::Program;
use crate::servers::{Order, Stage};

const RESTARTS: usize = 2;
/// Time for which the server is stopped.
const AWAY: Duration = Duration::from_millis(700);
const BETWEEN_SPANS: Duration = Duration::from_micros(500);
const NO_SPANS: &str = "no spans come through";

pub(super) fn run(order: Order<'_>, mut stage: Stage) -> Result<String, Error> {
    let program = Program::start(&spans_to(order, stage.port(), "batch-records = 10\n"))?;
    let tracer = program.telemetry.tracer("interop");
    let is_over = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sent = Vec::new();
            while !is_over.load(Ordering::SeqCst) {
                sent.push(tracer.span("restart").context().span_id().to_string());
                thread::sleep(BETWEEN_SPANS);
            }
            sent
        });
        let restarted = (1..=RESTARTS).try_for_each(|round| {
            wait_until(NO_SPANS, || stage.has_seen_spans(round * 50))?;
            // The first stop is orderly. The second one is as abrupt as possible without losing confirmed records.
            if round == 1 {
                stage.ask_to_end()?
            } else {
                stage.end()?
            };
            thread::sleep(AWAY);
            stage.start_again()?;
            wait_until(NO_SPANS, || stage.has_seen_spans((round + 1) * 50))
        });
        is_over.store(true, Ordering::SeqCst);
        let sent = sender.join().map_err(|_| "the sender panicked")?;
        restarted.map(|()| sent)
    })?;
    // While the server is stopped, the program's hook receives problems.
    program.finish_in_spite_of(&[ProblemKind::Unavailable])?;
    let twice = same_spans(&sent, &stage.records(sent_spans(sent.len()))?)?;
    no_complaints(&stage)?;
    Ok(format!("{} spans, {twice} of them twice", sent.len()))
}
