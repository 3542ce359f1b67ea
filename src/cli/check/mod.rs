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

use standpipe::Finding;

use self::examine::{Examined, examine};
use self::report::Report;
use self::sum::Sum;
use self::waiting::Waiting;
use super::paint::Look;
use super::{Failure, UNUSABLE, complain, print, text};

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
    /// OpenTelemetry's variables in the environment of this process.
    Environment,
}

impl Subject {
    fn name(&self) -> String {
        match self {
            Self::File(file) => file.display().to_string(),
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
        Err(findings) => return give_up(order, &findings, look),
    };
    let has_failed = match order.form {
        Form::Drawing => draw(order, &examined, look)?,
        Form::Json => write_json(order, &examined)?,
    };
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// For what cannot be read at all.
fn give_up(order: &Order, findings: &[Finding], look: &Look) -> Result<ExitCode, Failure> {
    match order.form {
        Form::Drawing => {
            let reasons: Vec<&str> = findings.iter().map(|finding| finding.what.as_str()).collect();
            let message = format!("{}: {}", order.subject.name(), reasons.join("; "));
            complain(&text::printable(&message, look.charset));
        }
        Form::Json => print(&[json::write(Vec::new(), findings, &[])])?,
    }
    Ok(ExitCode::from(UNUSABLE))
}

/// Each part as soon as it is known, since a collector may take seconds to answer. Returns whether there is an error.
fn draw(order: &Order, examined: &Examined, look: &Look) -> Result<bool, Failure> {
    let report = Report::new(&order.subject, examined);
    print(&report.draw(look))?;
    let mut asked = Vec::new();
    if order.probing == Probing::Ask {
        for (exporter, summary) in &examined.exporters {
            let waiting = Waiting::begin(&summary.endpoints, look);
            let answers = probe::ask(exporter, summary);
            drop(waiting);
            for answer in &answers {
                print(&answer.draw(exporter, look))?;
            }
            asked.push(answers);
        }
    }
    let sum = Sum::new(&report, examined, &asked);
    print(&[sum.draw(&report.origin.name, look)])?;
    Ok(sum.has_failed())
}

/// Returns whether there is an error.
fn write_json(order: &Order, examined: &Examined) -> Result<bool, Failure> {
    let mut failures = Vec::new();
    if order.probing == Probing::Ask {
        for (exporter, summary) in &examined.exporters {
            let answers = probe::ask(exporter, summary);
            failures.extend(answers.iter().filter_map(|asked| asked.failure(exporter)));
        }
    }
    let summaries = examined.exporters.iter().map(|(_, summary)| summary.clone()).collect();
    print(&[json::write(summaries, &examined.findings, &failures)])?;
    Ok(!failures.is_empty() || examined.has_errors())
}
