//! `standpipe metric`: single measurements.

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::{Map, Number, Value as Json};
use standpipe::{Meter, Value};

use super::super::Failure;
use super::super::attribute::{self, Attribute};
use super::super::given::Given;
use super::super::sender::{self, NAME};
use super::{STDIN, each_line, finish, from_line, start, with_own};

/// A process that measures once knows no earlier value to add to.
const PRESETS: [(&str, &str); 1] = [("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")];

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A line of standard input.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    r#type: Kind,
    name: String,
    value: Number,
    unit: Option<String>,
    description: Option<String>,
    #[serde(default)]
    attributes: Map<String, Json>,
}

/// What holds for all measurements of the command.
struct Common<'a> {
    unit: &'a str,
    description: &'a str,
    attributes: Vec<Attribute>,
}

pub(super) fn run(given: &Given) -> Result<ExitCode, Failure> {
    let (line, common) = read(given).map_err(Failure::Usage)?;
    let (sender, budget) = start(given, &PRESETS)?;
    let meter = sender.telemetry.meter_with_version(NAME, env!("CARGO_PKG_VERSION"));
    let is_whole = match line {
        Some(line) => {
            // it would change nothing, and is left out of what is sent as a difference
            if matches!(line.r#type, Kind::Counter) && line.value.as_f64() == Some(0.0) {
                return Err(Failure::Message(format!(
                    "counter {}: 0 adds nothing and is not sent",
                    line.name
                )));
            }
            measure(&meter, line, &common).map_err(Failure::Usage)?;
            true
        }
        None => each_line(|line| measure(&meter, from_line(line)?, &common))?,
    };
    finish(sender, budget, is_whole)
}

/// The measurement of the command line; `None` if there are those of standard input.
fn read(given: &Given) -> Result<(Option<Line>, Common<'_>), String> {
    let common = Common {
        unit: given.value("--unit")?.unwrap_or_default(),
        description: given.value("--description")?.unwrap_or_default(),
        attributes: sender::attributes(given)?,
    };
    let line = match given.words()?[..] {
        [STDIN] => None,
        [kind, name, value] => Some(Line {
            r#type: match kind {
                "counter" => Kind::Counter,
                "gauge" => Kind::Gauge,
                "histogram" => Kind::Histogram,
                _ => return Err(format!("metric {kind:?}: write counter, gauge or histogram")),
            },
            name: name.to_owned(),
            value: serde_json::from_str(value).map_err(|_| format!("value {value:?}: not a number"))?,
            unit: None,
            description: None,
            attributes: Map::new(),
        }),
        _ => return Err("metric needs counter, gauge or histogram, a NAME and a VALUE".to_owned()),
    };
    Ok((line, common))
}

fn measure(meter: &Meter, line: Line, common: &Common<'_>) -> Result<(), String> {
    if line.name.is_empty() {
        return Err("the name is empty".to_owned());
    }
    let attributes = with_own(&common.attributes, line.attributes);
    let attributes = attribute::flat(attributes);
    let attributes: Vec<(&str, Value<'_>)> = attributes
        .iter()
        .filter_map(|(key, value)| Some((key.as_str(), attribute::scalar(value)?)))
        .collect();
    let attributes = attributes.as_slice();
    let instrument = meter
        .build(&line.name)
        .unit(line.unit.as_deref().unwrap_or(common.unit))
        .description(line.description.as_deref().unwrap_or(common.description));
    let float = line.value.as_f64().unwrap_or(f64::NAN);
    match (line.r#type, line.value.as_u64(), line.value.as_i64()) {
        (Kind::Counter, Some(_), None) => {
            return Err(format!("counter {}: the most is {}", line.name, i64::MAX));
        }
        (Kind::Counter, Some(value), _) => instrument.counter().add(value, attributes),
        (Kind::Counter, None, _) if float < 0.0 => {
            return Err(format!("counter {}: it never falls", line.name));
        }
        (Kind::Counter, None, _) => instrument.counter_f64().add(float, attributes),
        (Kind::Gauge, _, Some(value)) => instrument.gauge_i64().record(value, attributes),
        (Kind::Gauge, _, None) => instrument.gauge().record(float, attributes),
        (Kind::Histogram, _, _) => instrument.histogram().record(float, attributes),
    }
    Ok(())
}
