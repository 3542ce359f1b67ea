//! A span that goes on, as a file: what other commands of a shell need to be its children, and what its end needs.
//!
//! ```text
//! TRACEPARENT=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//! # span {"name":"deploy","start":"1794924000.000000000","attributes":{},"events":[]}
//! # event {"name":"migrated","time":"1794924003.000000000","attributes":{}}
//! ```

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use standpipe::SpanContext;

use super::super::caller::{self, Caller};
use super::span::{EventLine, SpanLine};

const SPAN: &str = "# span ";
const EVENT: &str = "# event ";

/// Writes the file; one that is there must be empty, as `mktemp` makes it.
pub(super) fn create(file: &Path, context: &SpanContext, span: &SpanLine) -> Result<(), String> {
    if fs::metadata(file).is_ok_and(|metadata| metadata.len() > 0) {
        return Err(format!("{}: it exists; is another span in it? end that, or remove it", file.display()));
    }
    append(file, &(caller::shell_lines(context) + &line(SPAN, span)))
}

/// Adds an event.
pub(super) fn add(file: &Path, event: &EventLine) -> Result<(), String> {
    read(file)?;
    append(file, &line(EVENT, event))
}

/// The ids of the span, and what it has.
pub(super) fn read(file: &Path) -> Result<(SpanContext, SpanLine), String> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| named(&error))?;
    let span = text.lines().find_map(|line| line.strip_prefix(SPAN));
    let context = Caller::of(&file.to_string_lossy()).context;
    let (Some(span), Some(context)) = (span, context) else {
        return Err(named(&"no span is in it; standpipe span start writes one"));
    };
    let mut span: SpanLine = serde_json::from_str(span).map_err(|error| named(&error))?;
    for event in text.lines().filter_map(|line| line.strip_prefix(EVENT)) {
        span.events.push(serde_json::from_str(event).map_err(|error| named(&error))?);
    }
    Ok((context, span))
}

fn line(prefix: &str, content: &impl Serialize) -> String {
    let json = serde_json::to_string(content).unwrap_or_else(|_| unreachable!("its keys are text"));
    format!("{prefix}{json}\n")
}

/// By one call, so that events that are added at the same time do not mix.
fn append(file: &Path, text: &str) -> Result<(), String> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(file).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| format!("{}: {error}", file.display()))
}
