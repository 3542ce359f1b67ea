//! File of an unfinished span.
//!
//! Its first lines are shell assignments that make other commands children of the span. Its other lines, shell
//! comments, hold what `span end` sends. `span end` first renames the file, so that exactly one process ends the span.
//!
//! ```text
//! TRACEPARENT=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//! # service "shop"
//! # span {"name":"deploy","start":"1794924000.000000000","attributes":{},"events":[]}
//! # event {"name":"migrated","time":"1794924003.000000000","attributes":{}}
//! ```

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use standpipe::SpanContext;

use super::super::caller::{self, Caller};
use super::super::text;
use super::span::{EventLine, SpanLine};

const SERVICE: &str = "# service ";
const SPAN: &str = "# span ";
const EVENT: &str = "# event ";
/// Suffix of a file while a process ends its span, followed by the id of that process.
const ENDING: &str = ".ending-";

/// Content of a file.
pub(super) struct SpanFile {
    pub(super) context: SpanContext,
    /// Service name, if `span start` had the option `--service`.
    pub(super) service: Option<String>,
    pub(super) span: SpanLine,
}

/// Writes a new file. An existing file must be empty, like the files that `mktemp` creates.
pub(super) fn create(file: &Path, content: &SpanFile) -> Result<(), String> {
    match caller::private_file().create_new(true).append(true).open(file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        opened => drop(opened.map_err(|error| named(file, &error))?),
    }
    if fs::metadata(file).is_ok_and(|metadata| metadata.len() > 0) {
        let what = "the file is not empty and may hold another span: end that span, or remove the file";
        return Err(named(file, &what));
    }
    let service = content.service.as_ref().map(|service| line(SERVICE, service)).unwrap_or_default();
    append(file, &(caller::shell_lines(&content.context) + &service + &line(SPAN, &content.span)))
}

/// Adds an event.
pub(super) fn add(file: &Path, event: &EventLine) -> Result<(), String> {
    read(file)?;
    append(file, &line(EVENT, event))?;
    // If another process has renamed the file meanwhile, that process may not have read this event.
    fs::metadata(file)
        .map(drop)
        .map_err(|_| named(file, &"the span was ended meanwhile; the event may be missing"))
}

/// Renames the file and returns its new name. Only one process can rename it, and no further event can be added.
pub(super) fn take(file: &Path) -> Result<PathBuf, String> {
    read(file)?;
    let mut taken = file.as_os_str().to_owned();
    taken.push(format!("{ENDING}{}", std::process::id()));
    fs::rename(file, &taken).map_err(|error| named(file, &error))?;
    Ok(taken.into())
}

/// Reverses [`take`], unless there is a new file with the old name.
pub(super) fn give_back(taken: &Path, file: &Path) -> Result<(), String> {
    let renamed = match file.exists() {
        true => Err(io::ErrorKind::AlreadyExists.into()),
        false => fs::rename(taken, file),
    };
    renamed.map_err(|error| format!("{}; the span is in {}", named(file, &error), text::name(taken)))
}

pub(super) fn read(file: &Path) -> Result<SpanFile, String> {
    let named = |error: &dyn Display| named(file, error);
    let text = fs::read_to_string(file).map_err(|error| match taken(file) {
        Some(taken) if error.kind() == io::ErrorKind::NotFound => {
            let (taken, file) = (text::name(taken), text::name(file));
            named(&format!(
                "another process is ending the span; if that process was interrupted: mv {taken} {file}"
            ))
        }
        None if error.kind() == io::ErrorKind::NotFound => {
            named(&format!("{error}; to create it: standpipe span start --file {} NAME", text::name(file)))
        }
        _ => named(&error),
    })?;
    let service = text.lines().find_map(|line| line.strip_prefix(SERVICE));
    let service = service.map(serde_json::from_str).transpose().map_err(|error| named(&error))?;
    let span = text.lines().find_map(|line| line.strip_prefix(SPAN));
    let context = Caller::of_lines(&text).context;
    let (Some(span), Some(context)) = (span, context) else {
        return Err(named(&"the file holds no span; standpipe span start writes one"));
    };
    let mut span: SpanLine = serde_json::from_str(span).map_err(|error| named(&error))?;
    for event in text.lines().filter_map(|line| line.strip_prefix(EVENT)) {
        span.events.push(serde_json::from_str(event).map_err(|error| named(&error))?);
    }
    Ok(SpanFile { context, service, span })
}

/// Returns the new path of the file, if another process has renamed it in order to end the span.
fn taken(file: &Path) -> Option<PathBuf> {
    let beginning = format!("{}{ENDING}", file.file_name()?.to_string_lossy());
    let parent = file.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let mut entries = fs::read_dir(parent).ok()?.map_while(Result::ok);
    let taken = entries.find(|entry| entry.file_name().to_string_lossy().starts_with(&beginning))?;
    Some(file.with_file_name(taken.file_name()))
}

fn named(file: &Path, error: &dyn Display) -> String {
    format!("{}: {error}", text::name(file))
}

fn line(prefix: &str, content: &impl Serialize) -> String {
    let json = serde_json::to_string(content).unwrap_or_else(|_| unreachable!("its keys are text"));
    format!("{prefix}{json}\n")
}

/// Appends text with a single write, so that events of parallel processes do not mix.
fn append(file: &Path, text: &str) -> Result<(), String> {
    let opened = OpenOptions::new().append(true).open(file);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| named(file, &error))
}
