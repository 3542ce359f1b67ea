//! B3 with another SDK: each SDK reads the headers that the other one writes, as one header and as several.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use standpipe::{Context, Propagator, Propagators, SpanContext, SpanId, TraceId};

use crate::Error;
use crate::cases::Environment;
use crate::table::{Row, Table};

pub(crate) const NAME: &str = "python-sdk";

type Headers = BTreeMap<String, String>;

/// What the other SDK has read, and the headers that it passes on.
#[derive(Deserialize)]
struct Answer {
    trace: String,
    span: String,
    sampled: bool,
    single: Headers,
    multi: Headers,
}

pub(crate) fn run(environment: &Environment<'_>, table: &mut Table) {
    for (what, propagator) in [("b3 in one header", Propagator::B3), ("b3 in several", Propagator::B3Multi)] {
        let outcome = exchange(propagator, environment).into();
        table.push(Row { server: NAME, transport: "", what: what.to_owned(), outcome });
    }
}

/// Sends contexts to the other SDK and reads them back.
fn exchange(propagator: Propagator, environment: &Environment<'_>) -> Result<String, Error> {
    let propagators = Propagators::new([propagator]);
    let count = if environment.quick { 20 } else { 200 };
    let contexts: Vec<SpanContext> = (1..=count).map(context).collect::<Result<_, _>>()?;
    let sent = contexts.iter().map(|span| {
        let mut headers = Headers::new();
        propagators.inject(&Context::from(span.clone()), |name, value| {
            headers.insert(name.to_owned(), value.to_owned());
        });
        serde_json::to_string(&headers)
    });
    let sent = sent.collect::<Result<Vec<_>, _>>()?.join("\n");
    let answers: Vec<Answer> = answers(environment, "b3.py", &sent)?;
    if answers.len() != contexts.len() {
        return Err(format!("{} answers to {count} contexts", answers.len()).into());
    }
    for (span, answer) in contexts.iter().zip(&answers) {
        let read = (&*answer.trace, &*answer.span, answer.sampled);
        let expected = (&*span.trace_id().to_string(), &*span.span_id().to_string(), span.is_sampled());
        if read != expected {
            return Err(format!("{read:?} instead of {expected:?}").into());
        }
        for headers in [&answer.single, &answer.multi] {
            // Header names are compared without regard to case.
            let header = |name: &str| headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            let back = propagators.extract(|name| header(name).map(|(_, value)| value));
            if back.span() != Some(span) {
                return Err(format!("{headers:?} is read as {:?} instead of {span:?}", back.span()).into());
            }
        }
    }
    Ok(format!("{count} contexts there and back"))
}

/// A context with ids that depend on the number. Every second trace is sampled, and every third has an id of 64 bits.
pub(crate) fn context(number: u64) -> Result<SpanContext, Error> {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let high = if number % 3 == 0 { 0 } else { u128::from(spread) << 64 };
    let trace_id = TraceId::from_bytes((high | u128::from(spread.rotate_left(31))).to_be_bytes())?;
    Ok(SpanContext::new(trace_id, SpanId::from_bytes(spread.to_be_bytes())?, (number % 2) as u8))
}

/// Runs a script of the other SDK with these lines, and returns its answers, one per line.
pub(crate) fn answers<T: DeserializeOwned>(
    environment: &Environment<'_>,
    script: &str,
    lines: &str,
) -> Result<Vec<T>, Error> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/servers/python-sdk");
    let mut python = Command::new(environment.tools.join(NAME).join("bin/python"))
        .arg(Path::new(folder).join(script))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = python.stdin.take().ok_or("no standard input")?;
    let lines = lines.to_owned();
    // Another thread writes the input: the process could block on a full output pipe before it has read all input.
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = python.wait_with_output()?;
    writer.join().map_err(|_| "the writer panicked")??;
    let answers = String::from_utf8(output.stdout)?;
    Ok(answers.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}
