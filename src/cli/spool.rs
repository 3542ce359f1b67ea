//! `standpipe spool`: what is in the directory of a spool.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use standpipe::Signal;
use standpipe::spool::{Contents, Instance, inspect};

use super::style::{Ink, Style};
use super::table::{Column, Table, Text};
use super::{Failure, describe, print, text};

/// A signal, its records, its requests, their size, and how long the first waits.
const COLUMNS: [Column; 5] = [
    Column::cut(9).uncut(),
    Column::right(18),
    Column::right(14),
    Column::right(11),
    Column::cut(30).uncut().optional(),
];

/// Shows what processes have left in the directory of a spool.
///
/// Shows what exporters keep in the directory of a spool (the setting spool = "DIR"): for each of them its name and service,
/// whether its process runs or has ended, the records of each signal that are to be delivered, in how many requests, of what
/// size and for how long they have waited, the spans that are open or were interrupted, and what cannot be read. Nothing is
/// changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  standpipe spool /var/spool/shop

Exit code: 0, or 1 if the directory cannot be read or is accessible to other users")]
pub(crate) struct Options {
    /// The directory of the spool.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(options: &Options, style: &Style) -> Result<ExitCode, Failure> {
    let directory = &options.directory;
    let instances = look(directory)?;
    print(&draw(directory, &instances, SystemTime::now(), style))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn look(directory: &Path) -> Result<Vec<Instance>, Failure> {
    inspect(directory).map_err(|error| Failure::Message(format!("{}: {error}", text::name(directory))))
}

/// Records that processes have left which do not run any more.
pub(crate) fn left(instances: &[Instance]) -> u64 {
    instances.iter().filter(|instance| !instance.is_running).map(Instance::records).sum()
}

fn draw(directory: &Path, instances: &[Instance], now: SystemTime, style: &Style) -> Vec<String> {
    let ended = instances.iter().filter(|instance| !instance.is_running && instance.records() > 0).count();
    let mut heading = style.line();
    let what = match (ended, instances.is_empty()) {
        (0, true) => "nothing is there".to_owned(),
        (0, false) => "nothing is left to deliver".to_owned(),
        _ => {
            let (records, processes) = (left(instances), if ended == 1 { "process" } else { "processes" });
            format!("{} of {ended} {processes} that ended", describe::count(records, "record"))
        }
    };
    heading.put(Ink::PLAIN.bold(), &directory.display().to_string()).put(Ink::PLAIN, &format!(": {what}"));
    let mut lines = vec![heading.finish()];
    for instance in instances {
        lines.push(String::new());
        lines.extend(draw_instance(instance, now, style));
    }
    if ended > 0 {
        let mut advice = style.line();
        advice.put(Ink::FAINT, "to send it: ");
        let command = format!(
            "standpipe drain {} --endpoint http://localhost:4318",
            text::shell_word(&directory.display().to_string())
        );
        advice.put(Ink::PLAIN, &command);
        lines.extend([String::new(), advice.finish()]);
    }
    lines
}

fn draw_instance(instance: &Instance, now: SystemTime, style: &Style) -> Vec<String> {
    let mut heading = style.line();
    let exporter = instance.exporter.as_deref().unwrap_or("an unknown exporter");
    heading.put(Ink::PLAIN.bold(), exporter).space(2);
    if let Some(service) = &instance.service {
        heading.put(Ink::PLAIN, &format!("of {service}")).space(2);
    }
    let since = instance
        .started
        .map_or_else(String::new, |started| format!(", started {} ago", age(started, now, style)));
    let (ink, state) = if instance.is_running { (Ink::GOOD, "running") } else { (Ink::WARNING, "ended") };
    heading.put(ink, state).put(Ink::FAINT, &since).space(2);
    heading.put(Ink::FAINT, &format!("{}, {} of files", instance.id, describe::size(instance.bytes)));
    let mut lines = vec![heading.finish()];
    let table = Table::new(style, 2, COLUMNS);
    let rows = instance.contents.iter().map(|contents| table.row(row(contents, now, style)));
    lines.extend(rows);
    if instance.open_spans > 0 {
        let state = if instance.is_running { "open now" } else { "interrupted" };
        let text = format!("{} {state}", describe::count(instance.open_spans, "span"));
        lines.push(remark(Ink::PLAIN, &text, style));
    }
    lines.extend(instance.problems.iter().map(|problem| remark(Ink::BAD, problem, style)));
    lines
}

fn row(contents: &Contents, now: SystemTime, style: &Style) -> [Text<'static>; 5] {
    let what = match contents.signal {
        Signal::Traces => "span",
        Signal::Logs => "log record",
        _ => "data point",
    };
    let waits = contents.oldest.map(|oldest| format!("waiting for {}", age(oldest, now, style)));
    [
        Text::new(Ink::PLAIN, contents.signal.name()),
        Text::new(Ink::PLAIN, describe::count(contents.records, what)),
        Text::new(Ink::PLAIN, describe::count(contents.requests, "request")),
        Text::new(Ink::PLAIN, describe::size(contents.bytes)),
        Text::new(Ink::FAINT, waits.unwrap_or_else(|| "in the queue".to_owned())),
    ]
}

fn remark(ink: Ink, text: &str, style: &Style) -> String {
    let mut line = style.line();
    line.space(2).put(ink, text);
    line.finish()
}

fn age(then: SystemTime, now: SystemTime, style: &Style) -> String {
    let age = now.duration_since(then).unwrap_or_default();
    describe::round_duration(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX), style)
}
