//! Regression check: compares the instructions and allocations of each call with `benches/figures.toml`.
//!
//! `cargo bench --bench figures` prints the committed and the new figures.
//!
//! With `-- --check`, it fails if a figure is more than 3 % above the committed one, or if a committed figure was
//! raised without a reason.
//!
//! With `-- --accept --because "why"`, it writes the new figures. A lower figure replaces the committed one. A figure
//! within the tolerance is not written, so that many small rises add up until the check fails. A figure above the
//! tolerance is written together with the reason.

mod c;
mod committed;
mod history;
mod programs;

#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use committed::{Committed, Figure, Unit};
use programs::{PROGRAMS, Subject};
use support::allocations::CountingAllocator;
use support::arguments::Task;
use support::table::Table;
use support::{Error, callgrind};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Command line arguments.
const CHECK: &str = "--check";
const ACCEPT: &str = "--accept";
const BECAUSE: &str = "--because";

/// Bursts in which allocations are counted, after one warm-up burst.
const BURSTS: u64 = 4;

fn main() -> Result<ExitCode, Error> {
    let (arguments, reason) = split_reason(env::args().skip(1))?;
    let (task, choice) = Task::read(arguments, &[CHECK, ACCEPT])?;
    let smoke = match task {
        Task::Play(part) => {
            programs::start(&part.name, part.text("endpoint")?)?.play(&part)?;
            return Ok(ExitCode::SUCCESS);
        }
        Task::Measure { smoke } => smoke,
    };
    if smoke {
        show(&measure(&PROGRAMS[..1], None)?, None);
        return Ok(ExitCode::SUCCESS);
    }
    let path = file();
    let before = match path.exists() {
        true => Some(Committed::read(&fs::read_to_string(&path)?)?),
        false => None,
    };
    let setting = setting()?;
    let skipped = skipped(before.as_ref(), &setting, choice);
    let figures = measure(PROGRAMS, skipped)?;
    show(&figures, before.as_ref());
    match choice {
        Some(CHECK) => check(&figures, before.as_ref()),
        Some(_) => {
            if callgrind::unavailable().is_some() {
                return Err("valgrind is needed to accept figures, because it counts the instructions".into());
            }
            let after = Committed::accept(before.as_ref(), &figures, &setting, reason.as_deref())?;
            fs::write(&path, after.write())?;
            println!("wrote benches/figures.toml: commit it together with the change that moved the figures");
            Ok(ExitCode::SUCCESS)
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Separates `--because "why"` from the other arguments.
fn split_reason(mut arguments: impl Iterator<Item = String>) -> Result<(Vec<String>, Option<String>), Error> {
    let (mut others, mut reason) = (Vec::new(), None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            BECAUSE => reason = Some(arguments.next().ok_or("--because needs a reason")?),
            _ => others.push(argument),
        }
    }
    Ok((others, reason))
}

/// Returns the reason why instructions are not counted in this run, if there is one.
fn skipped(before: Option<&Committed>, setting: &str, choice: Option<&str>) -> Option<String> {
    if let Some(reason) = callgrind::unavailable() {
        return Some(reason);
    }
    match before {
        Some(before) if choice == Some(CHECK) && before.setting != setting => Some(format!(
            "the committed counts are for {}, and this is {setting}: another compiler generates other instructions",
            before.setting
        )),
        _ => None,
    }
}

/// Returns the compiler and the kind of machine, which determine the instruction counts.
fn setting() -> Result<String, Error> {
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(&compiler).arg("--version").output()?;
    let version = String::from_utf8(output.stdout)?;
    Ok(format!("{} on {} {}", version.trim(), env::consts::ARCH, env::consts::OS))
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/figures.toml")
}

fn measure(subjects: &[Subject], skipped: Option<String>) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for subject in subjects {
        let (name, play) = (subject.name, subject.play());
        let mut note =
            |what, unit, value| figures.push(Figure { name: format!("{name}{what}"), unit, value });
        note("", Unit::Allocations, play.time(BURSTS)?.allocations);
        if skipped.is_some() {
            continue;
        }
        if subject.with_worker {
            let counted = play.instructions_of_all()?;
            note("", Unit::Instructions, counted.caller);
            note(", with the worker", Unit::Instructions, counted.caller + counted.others);
        } else {
            note("", Unit::Instructions, play.instructions()?);
        }
    }
    figures.sort_by_key(|figure| figure.unit);
    if let Some(reason) = skipped {
        println!("instructions SKIPPED: {reason}");
    }
    Ok(figures)
}

fn show(figures: &[Figure], before: Option<&Committed>) {
    let mut table = Table::new(["for each call", "committed", "now", "change", ""]);
    for figure in figures {
        let before = before.and_then(|before| before.value(figure));
        table.row([
            format!("{}, {}", figure.unit, figure.name),
            before.map_or_else(|| "–".to_owned(), |before| figure.unit.show(before)),
            figure.unit.show(figure.value),
            before.map_or_else(String::new, |before| figure.unit.change(before, figure.value)),
            String::new(),
        ]);
    }
    table.print("figures: cost of a call for its thread, with a worker that sends only at a flush");
}

fn check(figures: &[Figure], before: Option<&Committed>) -> Result<ExitCode, Error> {
    let before = before.ok_or("benches/figures.toml does not exist: create it with --accept")?;
    let mut faults = before.faults(figures);
    match history::versions(Path::new(env!("CARGO_MANIFEST_DIR")))? {
        Ok(versions) => faults.extend(before.raised_without_reason(&versions)),
        Err(reason) => println!("history SKIPPED: {reason}"),
    }
    if faults.is_empty() {
        println!("figures: no figure is more than {} % above the committed one", committed::TOLERANCE);
        return Ok(ExitCode::SUCCESS);
    }
    for fault in faults {
        eprintln!("figures: {fault}");
    }
    eprintln!(
        "To accept this: cargo bench --bench figures -- --accept --because \"why\", and commit benches/figures.toml with the change."
    );
    Ok(ExitCode::FAILURE)
}
