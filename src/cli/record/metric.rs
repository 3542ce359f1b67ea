//! `standpipe metric`: sends single measurements.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::{Map, Number, Value as Json};
use standpipe::{Meter, Value};

use super::{deliver, each_line, from_line, with_own};
use crate::cli::sender::{self, Attributes, Destination};
use crate::cli::{Failure, text};

/// Delta temporality: this process does not know the earlier values that a cumulative total would need.
const PRESETS: [(&str, &str); 1] = [("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")];

/// Description of a valid line of standard input, for messages.
const LINE_FORM: &str = "an object with type, name and value, and optionally unit, description and attributes, \
                         for example {\"type\": \"counter\", \"name\": \"jobs\", \"value\": 1}";

/// Sends a measurement.
///
/// Adds VALUE to a counter, sets a gauge to VALUE, or records VALUE in a histogram. For counters and gauges, a VALUE
/// without a decimal point or exponent is sent as an integer. Counters and histograms are sent as deltas, because the
/// command does not know earlier values; OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE overrides this. A counter to
/// which only 0 was added is not sent; on the command line, adding 0 is an error.
///
/// With - each line of standard input is a measurement as a JSON object: type (counter, gauge or histogram), name and
/// value, and optionally unit, description and attributes (an object). Measurements of the same metric and attributes
/// are aggregated. The options are defaults for values that a line does not have. Lines of more than 4 MiB are
/// reported.
#[derive(Debug, Args)]
#[command(override_usage = "standpipe metric counter|gauge|histogram [OPTIONS] NAME VALUE
       standpipe metric [OPTIONS] -")]
#[command(after_help = include_str!("../help/metric.txt").trim_ascii_end())]
pub(crate) struct MetricOptions {
    /// The instrument, or - for standard input.
    kind: Input,
    /// The name of the metric.
    name: Option<String>,
    /// The measured number.
    #[arg(allow_negative_numbers = true, value_parser = number)]
    value: Option<Number>,
    /// The unit, such as s, By or {request}.
    #[arg(short, long)]
    unit: Option<String>,
    /// What the metric measures.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    #[command(flatten)]
    attributes: Attributes,
    #[command(flatten)]
    destination: Destination,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Input {
    Counter,
    Gauge,
    Histogram,
    #[value(name = "-")]
    Stdin,
}

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

pub(crate) fn run(options: &MetricOptions) -> Result<ExitCode, Failure> {
    let line = options.line().map_err(Failure::Usage)?;
    deliver(&options.destination, &PRESETS, |telemetry| {
        let meter = telemetry.meter(sender::scope());
        let Some(line) = line else {
            return each_line(|line| measure(&meter, from_line(line, LINE_FORM)?, options));
        };
        // Deltas of 0 are not sent, so the command would succeed without sending anything.
        if matches!(line.r#type, Kind::Counter) && line.value.as_f64() == Some(0.0) {
            let name = text::name(&line.name);
            return Err(Failure::Message(format!(
                "counter {name}: 0 adds nothing and is not sent; write a positive number"
            )));
        }
        measure(&meter, line, options).map_err(|error| Failure::Usage(text::name(error)))?;
        Ok(true)
    })
}

impl MetricOptions {
    /// Returns the measurement of the command line, or `None` if measurements are read from standard input.
    fn line(&self) -> Result<Option<Line>, String> {
        let r#type = match self.kind {
            Input::Counter => Kind::Counter,
            Input::Gauge => Kind::Gauge,
            Input::Histogram => Kind::Histogram,
            Input::Stdin if self.name.is_none() => return Ok(None),
            Input::Stdin => {
                return Err("with - there is no NAME and no VALUE: they are in the lines of standard input"
                    .to_owned());
            }
        };
        let (Some(name), Some(value)) = (self.name.clone(), self.value.clone()) else {
            return Err("metric needs counter, gauge or histogram, a NAME and a VALUE".to_owned());
        };
        Ok(Some(Line { r#type, name, value, unit: None, description: None, attributes: Map::new() }))
    }
}

fn number(word: &str) -> Result<Number, &'static str> {
    serde_json::from_str(word).map_err(|_| "write a number, for example 12.5")
}

/// Records a measurement. The options are defaults for values that the line does not have.
fn measure(meter: &Meter, line: Line, options: &MetricOptions) -> Result<(), String> {
    if line.name.is_empty() {
        return Err("the name is empty; write the name of the metric".to_owned());
    }
    let attributes = sender::flat(with_own(&options.attributes.all(), line.attributes));
    let attributes: Vec<(&str, Value<'_>)> =
        attributes.iter().filter_map(|(key, value)| Some((key.as_str(), sender::scalar(value)?))).collect();
    let attributes = attributes.as_slice();
    let unit = line.unit.as_ref().or(options.unit.as_ref()).map_or("", String::as_str);
    let text = line.description.as_ref().or(options.description.as_ref()).map_or("", String::as_str);
    let instrument = meter.build(&line.name).unit(unit).description(text);
    // A counter or gauge is an integer instrument if its number is an `i64` without a decimal point or exponent.
    let float = line.value.as_f64().unwrap_or(f64::NAN);
    match (line.r#type, line.value.as_u64(), line.value.as_i64()) {
        (Kind::Counter, Some(_), None) => {
            return Err(format!("counter {}: the value exceeds the maximum of {}", line.name, i64::MAX));
        }
        (Kind::Counter, Some(value), _) => instrument.counter().add(value, attributes),
        (Kind::Counter, None, _) if float < 0.0 => {
            return Err(format!("counter {}: a counter never decreases; use a gauge", line.name));
        }
        (Kind::Counter, None, _) => instrument.counter_f64().add(float, attributes),
        (Kind::Gauge, _, Some(value)) => instrument.gauge_i64().record(value, attributes),
        (Kind::Gauge, _, None) => instrument.gauge().record(float, attributes),
        (Kind::Histogram, _, _) => instrument.histogram().record(float, attributes),
    }
    Ok(())
}
