//! `standpipe check`: what a configuration comes to, what is wrong with it, and whether anybody answers.

mod examine;
mod json;
mod probe;
mod problem;
mod report;
mod stages;
mod sum;
mod waiting;

use std::path::PathBuf;
use std::process::ExitCode;
use std::{io, thread};

use standpipe::{Diagnostic, Exporter};

use self::examine::{Examined, examine};
use self::report::Report;
use self::stages::Asked;
use self::sum::Sum;
use self::waiting::Waiting;
use super::paint::Look;
use super::{Failure, UNUSABLE, complain, print, text};

/// What standard input is called.
const STDIN: &str = "<stdin>";
/// Exporters that are asked at the same time, with a thread for each.
const MOST_ASKED: usize = 32;

/// What to check, and how to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) subject: Subject,
    pub(crate) probing: Probing,
    pub(crate) form: Form,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    File(PathBuf),
    /// A file that is handed in.
    Stdin,
    /// OpenTelemetry's variables in the environment of this process.
    Environment,
}

impl Subject {
    fn name(&self) -> String {
        match self {
            Self::File(file) => file.display().to_string(),
            Self::Stdin => STDIN.to_owned(),
            Self::Environment => "environment".to_owned(),
        }
    }
}

/// Whether the collectors are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probing {
    Ask,
    Offline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// For people.
    Drawing,
    /// For programs.
    Json,
}

/// Checks the subject and prints what was found.
pub(crate) fn run(order: &Order, look: &Look) -> Result<ExitCode, Failure> {
    let examined = match examine(&order.subject) {
        Ok(examined) => examined,
        Err(diagnostics) => return give_up(order, &diagnostics, look),
    };
    let has_failed = match order.form {
        Form::Drawing => draw(order, &examined, look)?,
        Form::Json => write_json(order, &examined, look)?,
    };
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// For what cannot be read at all.
fn give_up(order: &Order, diagnostics: &[Diagnostic], look: &Look) -> Result<ExitCode, Failure> {
    match order.form {
        Form::Drawing => {
            let reasons: Vec<&str> = diagnostics.iter().map(|diagnostic| diagnostic.what.as_str()).collect();
            let message = format!("{}: {}", order.subject.name(), reasons.join("; "));
            complain(&text::printable(&message, look.charset));
        }
        Form::Json => show(&[json::write(Vec::new(), diagnostics, &[])])?,
    }
    Ok(ExitCode::from(UNUSABLE))
}

/// Each part as soon as it is known, since a collector may take seconds to answer. Returns whether there is an error.
fn draw(order: &Order, examined: &Examined, look: &Look) -> Result<bool, Failure> {
    let report = Report::new(&order.subject, examined);
    show(&report.draw(look))?;
    let mut asked = Vec::new();
    ask(order, examined, look, |exporter, answers| {
        for answer in &answers {
            show(&answer.draw(exporter, look))?;
        }
        asked.push(answers);
        Ok(())
    })?;
    let sum = Sum::new(&report, examined, &asked);
    show(&[sum.draw(&report.origin.name, look)])?;
    Ok(sum.has_failed())
}

/// Returns whether there is an error.
fn write_json(order: &Order, examined: &Examined, look: &Look) -> Result<bool, Failure> {
    let mut failures = Vec::new();
    ask(order, examined, look, |exporter, answers| {
        failures.extend(answers.iter().filter_map(|asked| asked.failure(exporter)));
        Ok(())
    })?;
    let summaries = examined.exporters.iter().map(|(_, summary)| summary.clone()).collect();
    show(&[json::write(summaries, &examined.diagnostics, &failures)])?;
    Ok(!failures.is_empty() || examined.has_errors())
}

/// Asks all collectors side by side, and hands over what each said in the order of the exporters.
fn ask(
    order: &Order,
    examined: &Examined,
    look: &Look,
    mut told: impl FnMut(&Exporter, Vec<Asked>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if order.probing == Probing::Offline {
        return Ok(());
    }
    for exporters in examined.exporters.chunks(MOST_ASKED) {
        thread::scope(|scope| {
            let asked: Vec<_> = exporters
                .iter()
                .map(|(exporter, summary)| scope.spawn(move || probe::ask(exporter, summary)))
                .collect();
            for (asked, (exporter, summary)) in asked.into_iter().zip(exporters) {
                let waiting = (order.form == Form::Drawing).then(|| Waiting::begin(&summary.endpoints, look));
                let answers = asked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                drop(waiting);
                told(exporter, answers)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Prints lines. A reader who has left early is shown nothing more, but the exit code stays that of what was found.
fn show(lines: &[impl AsRef<str>]) -> Result<(), Failure> {
    match print(lines) {
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}
